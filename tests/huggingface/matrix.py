"""Runs a program of each architecture of transformers for each task, against the eager model.

    matrix --json results.json [--only REGEX] [--each-architecture] [--seconds 300]

Configurations are tiny (`tiny_config`), weights random. Each combination runs in a forked child, so
that none can disturb another, with the XNNPACK recipe fp32, and decoders with 8da4w, too. The JSON
file has an object for each: `task`, `architecture`, `class`, `recipe`, the target's `arguments` if
it needs some, and `result`: "ran", "lowered" (it does not run, or differs) or "failed"; these two
with the first line of the `reason`. A program ran if its outputs equal the eager model's: to 1e-3;
with 8da4w their error's standard deviation is below 0.7 of the outputs' own. Where images are read
beside text, the parts also answer as the whole model does. Combinations that the file has are not
measured again.
"""

from __future__ import annotations

import argparse
import copy
import inspect
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
from etbuild import Method, ModelContext, ModelSpec, RecipeContext
from etbuild.options import Options
from etfast import path as fast_path
from etllm.transformers import entry
from etllm.transformers.inputs import value_of
from etllm.transformers.pretrained import first_line, parameters_of, with_method
from etllm.transformers.tasks import TASKS, classes_of
from etlower import stages
from etlower.progress import Progress
from executorch.runtime import Runtime
from own_sizes import OWN_ARGUMENTS
from tiny_config import tiny_config
from torch.utils import _pytree as pytree
from transformers import CONFIG_MAPPING
from xnnpack_recipes import fp32, int8_dynamic_act_int4_weight

_TOLERANCE = 1e-3
# Of 4 bits in layers as narrow as these; a program that computes something else is near 1.4.
_QUANTIZED_ERROR = 0.7
_RECIPES = {"fp32": fp32, "8da4w": int8_dynamic_act_int4_weight}
# Of classes that the others contain.
SKIPPED_TASKS = ("feature-extraction", "sentence-similarity")
# Arguments that say which tokens are an image's.
_KINDS = ("mm_token_type_ids", "token_type_ids")
QUANTIZED_TASKS = ("text-generation",)


@dataclass(frozen=True)
class Combination:
    """An architecture that does a task, and the name of the recipe it is lowered with."""

    task: str
    architecture: str
    class_name: str
    recipe: str = "fp32"


def combinations() -> Iterator[Combination]:
    """All of them, sorted by recipe, task and architecture; fp32 first."""
    for recipe, tasks in (("fp32", set(TASKS) - set(SKIPPED_TASKS)), ("8da4w", QUANTIZED_TASKS)):
        for task in sorted(tasks):
            for architecture in sorted(CONFIG_MAPPING):
                names = classes_of(TASKS[task], architecture)
                if names:
                    yield Combination(task, architecture, names[0], recipe)


def of_each_architecture() -> Iterator[Combination]:
    """The first task of each architecture, in the order in which a target's task is looked for."""
    order = list(TASKS)
    first: dict[tuple[str, str], Combination] = {}
    for combination in sorted(combinations(), key=lambda each: order.index(each.task)):
        first.setdefault((combination.recipe, combination.architecture), combination)
    yield from sorted(first.values(), key=lambda each: (each.recipe != "fp32", each.architecture))


def _spec(combination: Combination) -> ModelSpec:
    args = {"random_weights": "true", "task": combination.task, "samples": "4000"}
    args |= OWN_ARGUMENTS.get(combination.architecture, {})
    config = tiny_config(combination.architecture)
    if combination.task == "image-text-to-text" and value_of(config, "image_size") is None:
        args["image_size"] = "64x64"
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
        if "vision_encoder" in spec.methods:
            _compare_parts(spec)
        # Before the recipe, which may change the modules.
        expected = {name: _eager(method) for name, method in spec.methods.items()}
        recipe = _RECIPES[combination.recipe](RecipeContext(Options({})))
        with fast_path.chosen("fast"):
            manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False)
        result = "lowered"
        program = Runtime.get().load_program(manager.buffer)
        for name, method in spec.methods.items():
            loaded = program.load_method(name)
            for inputs, outputs in zip(_inputs(method), expected[name], strict=True):
                for got, wanted in zip(loaded.execute(inputs), outputs, strict=True):
                    _compare(got, wanted, combination.recipe)
    except Exception as error:  # Whatever it is, it is the result.
        return {"result": result, "reason": f"{type(error).__name__}: {first_line(error)}"[:300]}
    return {"result": "ran"}


def _compare_parts(spec: ModelSpec) -> None:
    """A model's methods answer as it does by itself to a prompt with an image.

    Of some it is not asked: they have no token for an image, or look for the tokens around it.
    """
    modules = copy.deepcopy({name: method.module for name, method in spec.methods.items()})
    encoder, embed = modules["vision_encoder"], modules["token_embedding"]
    pixels = spec.methods["vision_encoder"].example_inputs[0]
    model = encoder.model
    places = with_method(model, "get_rope_index")
    marked = places is None or "mm_token_type_ids" in parameters_of(places, "get_rope_index")
    token = getattr(model.config, "image_token_id", None)
    if token is None or not marked:
        return
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            # Else differences would not show.
            if parameter.dim() > 1:
                parameter.copy_(torch.randn_like(parameter) * 0.1)
        seen = encoder(pixels)
        before, after = torch.tensor([[5, 7, 9, 11]]), torch.tensor([[20, 21]])
        image = torch.full((1, seen.shape[1]), token)
        position = 0
        for part in (embed(before), seen, embed(after)):
            got = modules["text_decoder"](part, torch.tensor([position]))
            position += part.shape[1]
        tokens = torch.cat([before, image, after], dim=1)
        encoded = encoder.arguments(pixels.float() * encoder.scale)
        takes = inspect.signature(model.forward).parameters
        kinds = {name: (tokens == image[0, 0]).long() for name in _KINDS if name in takes}
        whole = model(input_ids=tokens, **encoded, **kinds).logits[:, -1]
    torch.testing.assert_close(got, whole, atol=_TOLERANCE, rtol=_TOLERANCE)


def _inputs(method: Method) -> list[Any]:
    return [method.example_inputs, *method.test_inputs]


def _eager(method: Method) -> list[list[torch.Tensor]]:
    """Outputs of a copy: a run would fill buffers, which have to begin empty."""
    module = copy.deepcopy(method.module)
    with torch.no_grad():
        return [pytree.tree_leaves(module(*inputs)) for inputs in _inputs(method)]


def _compare(got: torch.Tensor, expected: torch.Tensor, recipe: str) -> None:
    if recipe == "fp32":
        torch.testing.assert_close(got, expected, atol=_TOLERANCE, rtol=_TOLERANCE, equal_nan=True)
        return
    # A padding token alone gives zeros.
    error = float((got - expected).std() / expected.std().clamp(min=1e-6))
    if not error < _QUANTIZED_ERROR:
        raise AssertionError(f"error: got {error:.2f} of the outputs, expected {_QUANTIZED_ERROR}")


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


def warm_up() -> None:
    """Lowers one layer: the imports and caches that each child would else fill for itself.

    It does not run the program, as XNNPACK's threads would not be in a fork.
    """
    # Imported at a model's export, and slow.
    import transformers.exporters.exporter_executorch  # noqa: F401

    for make in _RECIPES.values():
        method = Method(torch.nn.Linear(32, 32).eval(), (torch.ones(1, 32),), strict=False)
        recipe = make(RecipeContext(Options({})))
        with fast_path.chosen("fast"):
            stages.run(
                ModelSpec({"forward": method}), recipe, Progress(), "//m:net", etrecord=False
            )


def _key(row: dict[str, str]) -> tuple[str, str, str]:
    return row["recipe"], row["task"], row["architecture"]


def main(arguments: list[str]) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="matrix", description=(__doc__ or "").split("\n")[0])
    flag = parser.add_argument
    flag("--json", type=Path, required=True, help="the results; a file that is there is completed")
    flag("--only", default="", help="regular expression: of recipe/task/architecture")
    flag("--each-architecture", action="store_true", help="one task of each")
    flag("--seconds", type=float, default=300, help="for one combination")
    options = parser.parse_args(arguments)
    # A fork copies one thread.
    torch.set_num_threads(1)
    warm_up()
    rows = json.loads(options.json.read_text()) if options.json.exists() else []
    measured = {_key(row) for row in rows}
    for combination in of_each_architecture() if options.each_architecture else combinations():
        row = {
            "task": combination.task,
            "architecture": combination.architecture,
            "class": combination.class_name,
            "recipe": combination.recipe,
        }
        if combination.architecture in OWN_ARGUMENTS:
            row["arguments"] = OWN_ARGUMENTS[combination.architecture]
        if _key(row) in measured or not re.search(options.only, "/".join(_key(row))):
            continue
        row |= in_child(combination, options.seconds)
        rows.append(row)
        print(*row.values(), file=sys.stderr, flush=True)
        options.json.write_text(json.dumps(sorted(rows, key=_key), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
