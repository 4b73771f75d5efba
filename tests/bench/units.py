"""Benchmark: what each unit of the fast path saves, by leaving out one at a time.

    ./bazelw run //tests/bench:units -- [--model NAME …] [--layers N] [--unit NAME …] [--rounds N]
        [--cold] [--json FILE]

Each lowering is a forked child of one process that has imported everything and lowered a small
model, as a worker does; `--cold` leaves out that lowering, as a process of a single request does.
A figure is CPU seconds of this child, user and system, from the model's entry point to the written
program: other work on the machine changes it little. What a unit gives to a second core, in a fork
of the child, isn't counted. A round lowers with all units and without each, the next one
does so backwards. A unit saves the difference to the lowering with all units in the same round;
the median of the rounds counts. The first round also lowers without any. A unit that saves more
than a tenth in it is of use, and the other rounds leave it alone.

The noise of a model is the standard error of such a median, out of the pooled standard deviation of
the differences. A unit that saves less than twice of it in every model is of no use.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import actions

ALL, NONE = "all units", "no unit"
_YAML = Path("models/smollm2.yaml")


def _decoder(layers: int, yaml: Path) -> Any:
    """The first layers of SmolLM2-135M with a KV cache."""
    from etbuild import ModelContext
    from etllm.entry import build

    [gguf] = Path("..").glob("*smollm2/model.gguf")
    data = {"model.gguf": gguf, yaml.name: yaml}
    arguments = {"backends": "xnnpack", "layers": str(layers)}
    return build(ModelContext(arguments, data, "//tests/bench:llama"))


def _context(**options: str) -> Any:
    from etbuild import Options, RecipeContext

    label = "//tests/bench:recipe"
    return RecipeContext(Options(options, label), label)


def llama(layers: int) -> tuple[Any, Any]:
    """A language model in 4 bits for XNNPACK."""
    import xnnpack_recipes

    recipe = xnnpack_recipes.int8_dynamic_act_int4_weight(_context())
    return _decoder(layers, _YAML), recipe


def llama_hqq(layers: int) -> tuple[Any, Any]:
    """Two of its layers and its embedding, whose weights HQQ quantizes."""
    import xnnpack_recipes

    asked = _YAML.read_text(encoding="utf-8").replace("use_hqq: false", "use_hqq: true")
    with tempfile.TemporaryDirectory() as folder:
        yaml = Path(folder) / _YAML.name
        yaml.write_text(asked, encoding="utf-8")
        spec = _decoder(2, yaml)
    recipe = xnnpack_recipes.int8_dynamic_act_int4_weight(_context())
    for config in recipe.quantization_recipe.ao_quantization_configs:
        config.ao_base_config.intx_choose_qparams_algorithm = "hqq_scale_only"
    return spec, recipe


def mobile(layers: int) -> tuple[Any, Any]:
    """A convolutional network of inverted residuals, in 8 bits; its depth is its own."""
    import xnnpack_recipes
    from etbuild import Method, ModelSpec
    from nets import make

    spec = ModelSpec({"forward": Method(*make("mobile", 32))})
    return spec, xnnpack_recipes.int8_static_per_channel(_context())


def mobile_vulkan(layers: int) -> tuple[Any, Any]:
    """The same in floats for Vulkan, which looks for rotary embeddings in it."""
    import vulkan_recipes
    from etbuild import Method, ModelSpec
    from nets import make

    spec = ModelSpec({"forward": Method(*make("mobile", 32))})
    return spec, vulkan_recipes.fp32(_context())


MODELS: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "llama": llama,
    "mobile": mobile,
    "llama_hqq": llama_hqq,
    "mobile_vulkan": mobile_vulkan,
}

# The share of a lowering that is far above all noise.
_CLEAR = 0.1
# Models that exist for one unit, which the others don't use.
_FOR_UNIT = {"llama_hqq": "hqq", "mobile_vulkan": "vulkan_patterns"}


def main() -> None:
    """Runs the rounds; prints and writes their figures."""
    parser = argparse.ArgumentParser(prog="units", description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS, help="default: all")
    parser.add_argument("--layers", type=int, default=30, help="of the llama; default: all 30")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--unit", action="append", help="a unit to leave out; default: each")
    parser.add_argument("--cold", action="store_true", help="nothing was lowered before")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    from etfast import path
    from etlower import lower

    lower.make_deterministic()
    if not options.cold:
        for recipes in ("vulkan_recipes", "xnnpack_recipes"):
            importlib.import_module(recipes)
        for lowering in ("fast", "stock"):
            lower.preload(lowering)
    models = {}
    for model in options.model or MODELS:
        make = partial(MODELS[model], options.layers)
        units = [_FOR_UNIT[model]] if model in _FOR_UNIT else path.UNITS
        names = [ALL, *(options.unit or units)]
        runs: list[dict[str, Any]] = []
        for number in range(options.rounds):
            if number == 1:
                names = [ALL, *unclear(runs)]
            for name in [NONE, *names] if number == 0 else names[:: -1 if number % 2 else 1]:
                runs.append({"round": number, "without": name, **_lower(make, name)})
                print(f"{model}, {name}: {runs[-1]['cpu_seconds']:.2f} s", flush=True)
        models[model] = figures(runs)
    print("\n" + table(models))
    print("of no use: " + (", ".join(of_no_use(models)) or "none"))
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
    chosen = {ALL: path.UNITS, NONE: ()}.get(name, [u for u in path.UNITS if u != name])
    start = time.process_time()
    with path.installed(path.units(chosen)) as used:
        spec, recipe = make()
        manager = stages.run(spec, recipe, Progress(), "//t:net", etrecord=False)
        program = io.BytesIO()
        manager.write_to_file(program)
    seconds = time.process_time() - start
    assert not used.skipped, used.skipped
    return {"cpu_seconds": seconds, "sha256": hashlib.sha256(program.getvalue()).hexdigest()}


def figures(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums up what the units save.

    Args:
      runs: with `round`, `without` (a unit, ALL or NONE), `cpu_seconds` and `sha256`.

    Returns:
      `cpu_seconds` with all units, `stock_cpu_seconds` with none, the `noise_seconds`, by unit the
      `seconds` that it saves and their `share` of the time without it, whether all runs wrote the
      `same_bytes`.
    """
    whole = {run["round"]: run["cpu_seconds"] for run in runs if run["without"] == ALL}
    saved: dict[str, list[float]] = {}
    for run in runs:
        if run["without"] not in (ALL, NONE):
            difference = run["cpu_seconds"] - whole[run["round"]]
            saved.setdefault(run["without"], []).append(difference)
    fast = statistics.median(whole.values())
    stock = statistics.median(run["cpu_seconds"] for run in runs if run["without"] == NONE)
    medians = {name: statistics.median(values) for name, values in sorted(saved.items())}
    return {
        "cpu_seconds": fast,
        "stock_cpu_seconds": stock,
        "noise_seconds": _noise([values for values in saved.values() if len(values) > 1]),
        "units": {
            name: {"seconds": seconds, "share": seconds / (fast + seconds)}
            for name, seconds in medians.items()
        },
        "same_bytes": len({run["sha256"] for run in runs}) == 1,
        "runs": [*runs],
    }


def _noise(differences: Sequence[Sequence[float]]) -> float | None:
    """Computes the standard error of a median, in seconds; None without differences.

    Args:
      differences: of each unit, in seconds, at least two.
    """
    degrees = sum(len(values) - 1 for values in differences)
    if not degrees:
        return None
    squares = sum(statistics.variance(values) * (len(values) - 1) for values in differences)
    # That of a mean, and more by the square root of pi / 2.
    rounds = min(len(values) for values in differences)
    return (squares / degrees / rounds * math.pi / 2) ** 0.5


def unclear(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lists the units that save so little in these runs that noise may hide it."""
    return [name for name, saved in figures(runs)["units"].items() if saved["share"] <= _CLEAR]


def of_no_use(models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lists the units that save less than twice the noise in every model."""
    names = sorted({name for model in models.values() for name in model["units"]})
    return [
        name
        for name in names
        if all(
            model["units"][name]["seconds"] < 2 * (model["noise_seconds"] or 0.0)
            for model in models.values()
            if name in model["units"]
        )
    ]


def table(models: Mapping[str, Mapping[str, Any]]) -> str:
    """Writes the figures of `figures` by model as Markdown, what saves most first."""
    units = {name for model in models.values() for name in model["units"]}
    rows = [["unit", *(f"{name}, s | share" for name in models)], ["---"] * (1 + 2 * len(models))]

    def best(unit: str) -> float:
        return max(m["units"][unit]["share"] for m in models.values() if unit in m["units"])

    for unit in sorted(units, key=lambda unit: (-best(unit), unit)):
        saved = [model["units"].get(unit) for model in models.values()]
        cells = [f"{one['seconds']:.2f} | {one['share']:.1%}" if one else "– | –" for one in saved]
        rows.append([f"`{unit}`", *cells])
    titles = {
        "noise": "noise_seconds",
        "with all units": "cpu_seconds",
        "with no unit": "stock_cpu_seconds",
    }
    for title, key in titles.items():
        values = [model[key] for model in models.values()]
        rows.append([title, *("? | " if value is None else f"{value:.2f} | " for value in values)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    main()
