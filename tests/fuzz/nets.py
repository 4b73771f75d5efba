"""Lowers small random nets with the fast path and with upstream's functions, and runs the programs.

    bazel run //tests/fuzz:nets -- --seconds 3600            # nets of one seed after the other
    bazel run //tests/fuzz:nets -- --seed 42 --count 1       # one net with all recipes
    bazel run //tests/fuzz:nets -- --seed 42 --source        # its source

Both ways must give the same bytes or the same refusal; the program must give eager PyTorch's
numbers at all sizes in its range, with its weights inside and beside it. For a net that doesn't,
the shortest net of its seed that doesn't is printed, as Python.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import importlib.util
import io
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
_REPOSITORY = Path(__file__).absolute().parents[2]
sys.path[:0] = [str(_REPOSITORY), str(_REPOSITORY / "backends/xnnpack")]

import torch  # noqa: E402  (needs the path set above)
import xnnpack_recipes  # noqa: E402
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext  # noqa: E402
from etfast import path  # noqa: E402
from etlink.link import link  # noqa: E402
from etlink.lowered import Lowered  # noqa: E402
from etlink.split import split  # noqa: E402
from etlower import capture, kernels, lower, stages  # noqa: E402
from etlower.progress import Progress  # noqa: E402
from executorch.exir import ExecutorchBackendConfig  # noqa: E402
from executorch.export import ExportRecipe  # noqa: E402
from executorch.runtime import Runtime  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from tests.fuzz.net_source import generate  # noqa: E402

_LABEL = "//fuzz:net"
_STATEMENTS = 7
_SECONDS_PER_NET = 300
# Part of the largest number that a result may be off by, and of how many of the results. An int8
# kernel may round the other way, and a value near a threshold then takes the other branch.
_TOLERANCES = {"portable": (1e-4, 0.0), "fp32": (1e-4, 0.0), "int8": (0.1, 0.1)}
RECIPES = tuple(_TOLERANCES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="nets", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="no net is begun after these")
    parser.add_argument("--seed", type=int, default=1, help="of the first net")
    parser.add_argument("--count", type=int, default=10**9, help="most nets")
    parser.add_argument("--size", type=int, default=_STATEMENTS, help="statements of a net")
    parser.add_argument("--recipe", action="append", choices=RECIPES, help="default: all")
    parser.add_argument("--verbose", action="store_true", help="what became of each net")
    parser.add_argument("--source", action="store_true", help="print the net, do nothing")
    options = parser.parse_args(arguments)
    if options.source:
        print(generate(options.seed, options.size))
        return 0
    for lowering in ("fast", "stock"):
        lower.preload(lowering)
    end = time.monotonic() + options.seconds
    outcomes: Counter[str] = Counter()
    failures = 0
    for seed in range(options.seed, options.seed + options.count):
        if time.monotonic() > end:
            break
        for recipe in options.recipe or RECIPES:
            outcome, faults = checked(seed, options.size, recipe)
            outcomes[f"{recipe}: {outcome}"] += 1
            if options.verbose:
                print(f"{seed} {recipe}: {outcome}", flush=True)
            if faults:
                failures += 1
                _show(seed, options.size, recipe, faults)
    print("\n".join(f"{count:6} {outcome}" for outcome, count in sorted(outcomes.items())))
    return 1 if failures else 0


def _show(seed: int, size: int, recipe: str, faults: Sequence[str]) -> None:
    """Prints the shortest net of a seed with this fault."""
    kind = _kind(faults)
    for shorter in range(1, size):
        _, found = checked(seed, shorter, recipe)
        if found and _kind(found) == kind:
            size, faults = shorter, found
            break
    print(f"FAILED: --seed {seed} --size {size} --recipe {recipe}")
    print("\n".join(f"  {fault}" for fault in faults))
    print(generate(seed, size), flush=True)


def _kind(faults: Sequence[str]) -> str:
    return faults[0].partition(":")[0]


def checked(seed: int, size: int, recipe: str) -> tuple[str, list[str]]:
    """Checks a net in a separate process, because kernels may crash.

    Returns:
      What became of it ("equal", "refused", …), and its faults.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        # Of this process: what else a machine does must not decide.
        signal.setitimer(signal.ITIMER_PROF, _SECONDS_PER_NET)
        try:
            answer = _check(seed, size, recipe)
        except BaseException:
            answer = "error", [f"fuzzer: {traceback.format_exc()}"]
        with os.fdopen(writer, "w", encoding="utf-8") as out:
            json.dump(answer, out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answers:
        text = answers.read()
    _, status = os.waitpid(child, 0)
    if text:
        outcome, faults = json.loads(text)
        return outcome, faults
    return "ended", [f"ended: the process, by signal {os.waitstatus_to_exitcode(status)}"]


def _recipe(name: str) -> ExportRecipe:
    if name == "portable":
        return ExportRecipe(name="portable")
    builder = {"fp32": "fp32", "int8": "int8_static_per_tensor"}[name]
    label = f"//backends/xnnpack:{builder}"
    return getattr(xnnpack_recipes, builder)(RecipeContext(Options({}, label), label))


def _module(source: str, folder: Path) -> ModuleType:
    file = folder / "net.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("net", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["net"] = module
    spec.loader.exec_module(module)
    return module


def _check(seed: int, size: int, recipe: str) -> tuple[str, list[str]]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as scratch:
        folder = Path(scratch)
        net = _module(generate(seed, size), folder)
        digests, said = {}, {}
        programs: dict[str, Any] = {}
        for lowering in ("stock", "fast"):
            try:
                digests[lowering] = _lowered(net, recipe, lowering, folder, programs)
            except Exception as error:
                said[lowering] = _said(error)
        if said.get("stock") != said.get("fast"):
            return "differs", [f"refusal: {way}: {said.get(way)}" for way in ("stock", "fast")]
        if said:
            return f"refused: {said['fast'][:60]}", []
        faults = []
        if digests["stock"] != digests["fast"]:
            faults.append("bytes: the fast path's program differs from upstream's")
        index = folder / "lowered"
        link(Lowered(index), folder / "embedded.pte")
        link(Lowered(index), folder / "separate.pte", folder / "separate.ptd")
        files = {
            "upstream": (folder / "program.pte", None),
            "embedded": (folder / "embedded.pte", None),
            "separate": (folder / "separate.pte", folder / "separate.ptd"),
        }
        for name, (program, data) in files.items():
            if data and not data.exists():
                data = None
            fault = _run(net, recipe, programs["forward"], program, data)
            if fault:
                faults.append(f"{name}: {fault}")
        return "differs" if faults else "equal", faults


def _said(error: Exception) -> str:
    """An error without the places in source code that it came from."""
    first = error.what if isinstance(error, BuildError) else str(error).split("\n\n")[0]
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+', '', first)[:500]}"


def _lowered(
    net: ModuleType, recipe: str, lowering: str, folder: Path, programs: dict[str, Any]
) -> str:
    """Lowers a net and takes it apart; returns the sha256 of its program."""
    torch.manual_seed(0)
    inputs = net.inputs(*net.EXAMPLE)
    spec = ModelSpec({"forward": Method(net.Net().eval(), inputs, net.SHAPES)})
    names = capture.WeightNames()

    def exported(found: Any) -> None:
        programs.update({name: copy.deepcopy(program) for name, program in found.items()})
        names.keep(found)

    with path.chosen(lowering), names.watching():
        watch = stages.Watch(exported=exported)
        manager = stages.run(spec, _recipe(recipe), Progress(), _LABEL, etrecord=False, watch=watch)
    if missing := kernels.missing(manager):
        raise BuildError(f"no kernel for {', '.join(entry['operator'] for entry in missing)}", "")
    out = io.BytesIO()
    manager.write_to_file(out)
    if lowering == "fast":
        program = folder / "program.pte"
        program.write_bytes(out.getvalue())
        hints = capture.hints(manager, names, program, folder, ExecutorchBackendConfig())
        split(program, folder / "lowered", _LABEL, lower.versions(), hints)
    return hashlib.sha256(out.getvalue()).hexdigest()


def _run(net: ModuleType, recipe: str, exported: Any, program: Path, data: Path | None) -> str:
    """Runs a program at all sizes, one after the other; returns what is wrong with it."""
    # Quantized numbers are compared with those of the quantized graph.
    eager = exported.module() if recipe == "int8" else net.Net().eval()
    method = None
    for case in net.CASES:
        inputs = net.inputs(*case)
        with torch.no_grad():
            expected = pytree.tree_leaves(eager(*copy.deepcopy(inputs)))
        try:
            if method is None:
                loaded = Runtime.get().load_program(program, data_path=data)
                method = loaded.load_method("forward")
            got = method.execute(pytree.tree_leaves(inputs))
        except Exception as error:
            return f"{case}: {_said(error)}"
        fault = _difference(expected, got, *_TOLERANCES[recipe])
        if fault:
            return f"{case}: {fault}"
    return ""


def _difference(expected: Sequence[Any], got: Sequence[Any], part: float, many: float) -> str:
    if len(expected) != len(got):
        return f"{len(got)} outputs, expected {len(expected)}"
    for number, (expected_value, value) in enumerate(zip(expected, got, strict=True)):
        if not isinstance(expected_value, torch.Tensor):
            if expected_value != value:
                return f"output {number}: got {value}, expected {expected_value}"
            continue
        if expected_value.shape != value.shape or expected_value.dtype != value.dtype:
            return (
                f"output {number}: got {value.dtype} {tuple(value.shape)}, expected "
                f"{expected_value.dtype} {tuple(expected_value.shape)}"
            )
        if not expected_value.numel():
            continue
        a, b = expected_value.double(), value.double()
        off = (a - b).abs() > part * a.abs().nan_to_num().max() + 1e-6
        off |= a.isnan() != b.isnan()
        if off.double().mean() > many:
            worst = int((a - b).abs().nan_to_num(nan=1e30).argmax())
            return (
                f"output {number}: {int(off.sum())} of {off.numel()} numbers differ: got "
                f"{b.flatten()[worst]}, expected {a.flatten()[worst]}"
            )
    return ""


if __name__ == "__main__":
    sys.exit(main())
