"""Runs a program of each architecture of transformers for each task, against the eager model.

    matrix --output matrix.json [--only REGEX] [--every N] [--seconds 300]

Configurations are tiny (`tiny_config`), weights random. Each combination runs in a forked child, so
that none can disturb another, with the recipe XNNPACK fp32. The JSON file has an object for each:
`task`, `architecture`, `class`, and `result`: "ran" (outputs equal the eager model's to 1e-3),
"lowered" (it does not run, or differs) or "failed"; these two with the first line of the `reason`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from etbuild import ModelContext, ModelSpec, RecipeContext
from etbuild.options import Options
from etexport import stages
from etexport.progress import Progress
from etfast import path as fast_path
from ettransformers import entry
from ettransformers.pretrained import first_line
from ettransformers.tasks import TASKS, classes_of
from executorch.runtime import Runtime
from tiny_config import tiny_config
from torch.utils import _pytree as pytree
from transformers import CONFIG_MAPPING
from xnnpack_recipes import fp32

_TOLERANCE = 1e-3
# Of classes that the others contain.
SKIPPED_TASKS = ("feature-extraction", "sentence-similarity")


@dataclass(frozen=True)
class Combination:
    """An architecture that does a task."""

    task: str
    architecture: str
    class_name: str


def combinations() -> Iterator[Combination]:
    """All of them, sorted by task and architecture."""
    for task in sorted(set(TASKS) - set(SKIPPED_TASKS)):
        for architecture in sorted(CONFIG_MAPPING):
            names = classes_of(TASKS[task], architecture)
            if names:
                yield Combination(task, architecture, names[0])


def _spec(combination: Combination) -> ModelSpec:
    args = {"random_weights": "true", "task": combination.task, "samples": "4000"}
    config = tiny_config(combination.architecture)
    if combination.task == "text-generation" and hasattr(config, "is_decoder"):
        config.is_decoder = True
    config.architectures = [combination.class_name]
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        files = {path.name: path for path in Path(folder).iterdir()}
        return entry.build(ModelContext(args, files, f"//m:{combination.architecture}"))


def attempt(combination: Combination) -> dict[str, str]:
    """Builds, lowers and runs one combination; its result."""
    result = "failed"
    try:
        spec = _spec(combination)
        recipe = fp32(RecipeContext(Options({})))
        with fast_path.chosen("fast"):
            manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False)
        result = "lowered"
        program = Runtime.get().load_program(manager.buffer)
        for name, method in spec.methods.items():
            loaded = program.load_method(name)
            for inputs in (method.example_inputs, *method.test_inputs):
                with torch.no_grad():
                    expected = pytree.tree_leaves(method.module(*inputs))
                for got, wanted in zip(loaded.execute(inputs), expected, strict=True):
                    torch.testing.assert_close(
                        got, wanted, atol=_TOLERANCE, rtol=_TOLERANCE, equal_nan=True
                    )
    except Exception as error:  # Whatever it is, it is the result.
        return {"result": result, "reason": f"{type(error).__name__}: {first_line(error)}"[:300]}
    return {"result": "ran"}


def _child(combination: Combination, results: Any) -> None:
    results.send(attempt(combination))


def in_child(combination: Combination, seconds: float) -> dict[str, str]:
    """As `attempt`, in a process of its own that has so much time."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_child, args=(combination, sender))
    child.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return {"result": "failed", "reason": f"took more than {seconds:g} s"}
        return receiver.recv()
    except EOFError:
        child.join()
        return {"result": "failed", "reason": f"the process ended with {child.exitcode}"}
    finally:
        child.kill()
        child.join()


def main(arguments: list[str]) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="matrix", description=(__doc__ or "").split("\n")[0])
    flag = parser.add_argument
    flag("--output", type=Path, required=True, help="the JSON file")
    flag("--only", default="", help="regular expression: of task/architecture")
    flag("--every", type=int, default=1, help="take each N-th only")
    flag("--seconds", type=float, default=300, help="for one combination")
    options = parser.parse_args(arguments)
    chosen = [c for c in combinations() if re.search(options.only, f"{c.task}/{c.architecture}")]
    # A fork copies one thread.
    torch.set_num_threads(1)
    rows = []
    for combination in chosen[:: options.every]:
        row = {
            "task": combination.task,
            "architecture": combination.architecture,
            "class": combination.class_name,
            **in_child(combination, options.seconds),
        }
        rows.append(row)
        print(*row.values(), file=sys.stderr, flush=True)
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
