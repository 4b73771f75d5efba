"""Benchmark: what each unit of the fast path saves, by leaving out one at a time.

    ./bazelw run //tests/bench:units -- [--model NAME …] [--layers N] [--unit NAME …] [--rounds N]
        [--cold] [--json FILE]

Each lowering is a forked child of one process that has imported everything and lowered a small
model, as a worker does; `--cold` leaves out that lowering, as a process of a single request does.
A figure is CPU seconds, user and system, from quantization to the written program: other work on
the machine changes it little. A round lowers with all units, without each, and without any; the
next round does so backwards. The smallest figure of all rounds counts.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import actions

ALL, NONE = "all units", "no unit"


def llama(layers: int) -> tuple[Any, Any]:
    """The first layers of SmolLM2-135M with a KV cache, in 4 bits."""
    import xnnpack_recipes
    from etbuild import ModelContext, Options, RecipeContext
    from etllm.entry import build

    [gguf] = Path("..").glob("*smollm2/model.gguf")
    data = {"model.gguf": gguf, "smollm2.yaml": Path("models/smollm2.yaml")}
    arguments = {"backends": "xnnpack", "layers": str(layers)}
    label = "//tests/bench:llama"
    spec = build(ModelContext(arguments, data, label))
    return spec, xnnpack_recipes.int8_dynamic_act_int4_weight(
        RecipeContext(Options({}, label), label)
    )


def mobile(layers: int) -> tuple[Any, Any]:
    """A convolutional network of inverted residuals, in 8 bits; its depth is its own."""
    import xnnpack_recipes
    from etbuild import Method, ModelSpec, Options, RecipeContext
    from nets import make

    label = "//tests/bench:mobile"
    spec = ModelSpec({"forward": Method(*make("mobile", 32))})
    return spec, xnnpack_recipes.int8_static_per_channel(RecipeContext(Options({}, label), label))


MODELS: dict[str, Callable[[int], tuple[Any, Any]]] = {"llama": llama, "mobile": mobile}


def main() -> None:
    """Runs the rounds; prints and writes their figures."""
    parser = argparse.ArgumentParser(prog="units", description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS, help="default: all")
    parser.add_argument("--layers", type=int, default=10, help="of the llama; default 10, all: 30")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--unit", action="append", help="a unit to leave out; default: each")
    parser.add_argument("--cold", action="store_true", help="nothing was lowered before")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    from etfast import path
    from etlower import lower

    lower.make_deterministic()
    if not options.cold:
        for lowering in ("fast", "stock"):
            lower.preload(lowering)
    names = [ALL, NONE, *(options.unit or path.UNITS)]
    models = {}
    for model in options.model or MODELS:
        make = partial(MODELS[model], options.layers)
        runs: list[dict[str, Any]] = []
        for number in range(options.rounds):
            for name in names if number % 2 == 0 else names[::-1]:
                runs.append({"without": name, **_lower(make, name)})
                print(f"{model}, {name}: {runs[-1]['cpu_seconds']:.2f} s", flush=True)
        models[model] = figures(runs)
    print("\n" + table(models))
    result = {"machine": actions.machine(), "cold": options.cold, "models": models}
    actions.write_json(options.json, result)
    sys.exit(0 if all(model["same_bytes"] for model in models.values()) else 1)


def _lower(make: Callable[[], tuple[Any, Any]], name: str) -> dict[str, Any]:
    """Lowers a model in a child.

    Args:
      make: returns the model's specification and the recipe.
      name: the unit to leave out, ALL or NONE.

    Returns:
      `cpu_seconds`, and the `sha256` of the program.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            with os.fdopen(write_end, "w") as out:
                json.dump(_lower_here(make, name), out)
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{name}: the lowering failed.")
    return json.loads(text)


def _lower_here(make: Callable[[], tuple[Any, Any]], name: str) -> dict[str, Any]:
    import torch
    from etfast import path
    from etlower import stages
    from etlower.progress import Progress

    torch.manual_seed(0)
    spec, recipe = make()
    chosen = {ALL: path.UNITS, NONE: ()}.get(name, [u for u in path.UNITS if u != name])
    start = time.process_time()
    with path.installed(path.units(chosen)) as used:
        manager = stages.run(spec, recipe, Progress(), "//t:net", etrecord=False)
        program = io.BytesIO()
        manager.write_to_file(program)
    seconds = time.process_time() - start
    assert not used.skipped, used.skipped
    return {"cpu_seconds": seconds, "sha256": hashlib.sha256(program.getvalue()).hexdigest()}


def figures(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Computes what the units save.

    Args:
      runs: with `without` (a unit, ALL or NONE), `cpu_seconds` and `sha256`.

    Returns:
      `cpu_seconds` with all units, `stock_cpu_seconds` with none, by unit the `seconds` that it
      saves and their `share` of the time without it, whether all runs wrote the `same_bytes`.
    """
    seconds: dict[str, float] = {}
    for run in runs:
        name = run["without"]
        seconds[name] = min(run["cpu_seconds"], seconds.get(name, run["cpu_seconds"]))
    fast, stock = seconds.pop(ALL), seconds.pop(NONE)
    return {
        "cpu_seconds": fast,
        "stock_cpu_seconds": stock,
        "units": {
            name: {"seconds": without - fast, "share": (without - fast) / without}
            for name, without in sorted(seconds.items())
        },
        "same_bytes": len({run["sha256"] for run in runs}) == 1,
        "runs": [*runs],
    }


def table(models: Mapping[str, Mapping[str, Any]]) -> str:
    """The figures of `figures` by model as Markdown, what saves most first."""
    units = {name for model in models.values() for name in model["units"]}
    rows = [["unit", *(f"{name}, s | share" for name in models)], ["---"] * (1 + 2 * len(models))]
    first = next(iter(models.values()))["units"]
    for unit in sorted(units, key=lambda unit: (-first[unit]["share"], unit)):
        saved = [model["units"][unit] for model in models.values()]
        cells = [f"{one['seconds']:.1f} | {one['share']:.1%}" for one in saved]
        rows.append([f"`{unit}`", *cells])
    for title, key in (("all units", "cpu_seconds"), ("no unit", "stock_cpu_seconds")):
        rows.append([f"with {title}", *(f"{model[key]:.1f} | " for model in models.values())])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    main()
