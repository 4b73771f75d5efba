"""Programs for QNN: sizes with shared weights, signatures, chips and refusals, by QNN itself."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nets
import payloads
import pytest
from etbuild import BuildError, ModelContext, Options, RecipeContext
from etlower import stages
from etlower.progress import Progress

_FOLDER = Path("tests/backends/qualcomm")


@pytest.fixture(autouse=True)
def sdk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The bundled libraries, as a lowering finds them."""
    package = importlib.util.find_spec("onnxruntime_qnn")
    assert package is not None
    assert package.submodule_search_locations
    folder = package.submodule_search_locations[0]
    monkeypatch.setenv("EXECUTORCH_SDK_QUALCOMM", folder)
    monkeypatch.setenv("QNN_SDK_ROOT", os.environ.get("QNN_SDK_ROOT", ""))
    yield


def _recipe(name: str, **options: str) -> Any:
    recipes = importlib.import_module("qualcomm_recipes")
    return getattr(recipes, name)(RecipeContext(Options(options, "//:r"), "//:r"))


def _here(net: str, name: str, **options: str) -> bytes:
    spec = getattr(nets, net)(ModelContext())
    return bytes(stages.run(spec, _recipe(name, **options), Progress(), "//:net", False).buffer)


def _forked(work: Callable[[], Any]) -> Any:
    """Returns what a function does, or its BuildError, in a process of its own.

    QNN's libraries keep the chip of the first backend that a process starts.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        try:
            sender.send(work())
        except BuildError as error:
            sender.send(error.what)

    process = context.Process(target=run)
    process.start()
    sender.close()
    result = receiver.recv()
    process.join()
    return result


def _lowered(net: str, name: str, **options: str) -> Any:
    return _forked(lambda: _here(net, name, **options))


@pytest.mark.parametrize("recipe", ["a16w4", "fp16"])
def test_shared_weights_are_stored_once(recipe: str) -> None:
    """Both methods have one payload, which is smaller than two."""
    shared = _FOLDER / f"methods_{recipe}.pte"
    alone = _FOLDER / f"methods_{recipe}_alone.pte"
    of_methods = _by_method(shared)
    assert of_methods["prefill"] == of_methods["decode"]
    # One context has the graphs of both; QNN keeps their names.
    for context in of_methods["prefill"]:
        assert all(name in context for name in (b"prefill", b"decode"))
    of_methods = _by_method(alone)
    assert not set(of_methods["prefill"]) & set(of_methods["decode"])
    # As measured: 357,752 to 229,248 bytes in fp16, 488,368 to 389,888 in a16w4.
    most = {"a16w4": 0.85, "fp16": 0.7}[recipe]
    assert shared.stat().st_size < most * alone.stat().st_size


def test_a_twin_runs() -> None:
    """A test of several methods runs a program without shared weights, and says so."""
    twin = _run("methods_fp16_test")
    assert "runs a twin of the program, lowered without weights that methods share" in twin
    assert "twin" not in _run("mobile_fp16_test")


def _run(test: str) -> str:
    """Returns what an et_program_test says that passed."""
    result = subprocess.run([_FOLDER / test], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "ran in Qualcomm's HTP simulator" in result.stdout
    return result.stdout


def _by_method(program: Path) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for payload in payloads.delegates(program):
        found.setdefault(payload.method, []).append(payload.data)
    return found


def test_signatures_differ() -> None:
    """Each context of all programs has a signature of its own: they load in one process."""
    found: dict[bytes, bytes] = {}
    for program in sorted(_FOLDER.glob("*.pte")):
        for payload in payloads.delegates(program):
            assert found.setdefault(payload.data[4:12], payload.data) == payload.data
    assert len(found) > 3


def test_chips() -> None:
    """QNN starts for each chip that the recipes name, and says which take floats."""
    _recipe("fp16")
    from executorch.backends.qualcomm.serialization.qc_schema import QnnExecuTorchBackendType
    from executorch.backends.qualcomm.utils.utils import get_soc_to_chipset_map

    compiler = importlib.import_module("qualcomm_compiler")

    def takes_floats(chip: str) -> bool:
        specs = _recipe("fp16", soc_model=chip).lowering_recipe.partitioners[0]._specs.alone
        manager = compiler.manager_of(QnnExecuTorchBackendType.kHtpBackend, specs)
        return compiler.takes_floats(manager)

    chips = sorted(get_soc_to_chipset_map())
    without = {chip for chip in chips if not _forked(lambda chip=chip: takes_floats(chip))}
    assert without == {"QCM6490", "SAR2230P", "SSG2115P", "SSG2125P", "SW6100", "SXR1230P"}


def test_floats_are_refused() -> None:
    said = _lowered("mobile", "fp16", soc_model="QCM6490")
    assert 'soc_model: got "QCM6490", whose HTP takes no 16-bit floats' in said


def test_chips_that_share_no_weights() -> None:
    with pytest.raises(BuildError, match=r'weight_sharing: got "true", and the HTP of SM8450'):
        _recipe("fp16", soc_model="SM8450", weight_sharing="true")


def test_refused_operator() -> None:
    """Operators kept whole for QNN, and refused by it, are decomposed for ExecuTorch's kernels."""
    assert "aten::_adaptive_avg_pool2d" in _forked(lambda: _operators("pooled", "fp16"))


@pytest.mark.parametrize("recipe", ["fp16", "int8"])
def test_what_the_compiler_refuses_stays(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator is found, and left to ExecuTorch's kernels; without a kernel it is named."""
    _recipe(recipe)
    ours = importlib.import_module("qualcomm_compiler")
    compiled = ours._compiled

    def without_tanh(compiler: Any, programs: Any, specs: Any) -> Any:
        def refusing(parts: Any, of_parts: Any) -> Any:
            for nodes in (part.graph.nodes for each in parts.values() for part in each):
                assert not any("tanh" in str(node.target) for node in nodes), "no such operator"
            return compiler(parts, of_parts)

        return compiled(refusing, programs, specs)

    monkeypatch.setattr(ours, "_compiled", without_tanh)
    lowered = _forked(lambda: _operators("curved", recipe))
    assert "aten::tanh" in lowered
    monkeypatch.setattr(importlib.import_module("qualcomm_partitioner"), "_MOST_REFUSED", 0)
    said = _lowered("curved", recipe)
    assert (
        "QNN's compiler for SM8650 refuses the operator aten.tanh.default(float32 [1, 8]) in the "
        'layer "1": no such operator' in said
    )


def _operators(net: str, recipe: str) -> list[str]:
    """Operators that stay with ExecuTorch."""
    spec = getattr(nets, net)(ModelContext())
    manager = stages.run(spec, _recipe(recipe), Progress(), "//:net", False)
    [plan] = manager.executorch_program.execution_plan
    return [operator.name for operator in plan.operators]


@pytest.mark.parametrize("recipe", ["fp16", "int8"])
def test_dynamic_shapes(recipe: str) -> None:
    """Before the quantizer, whose passes take no functions of sizes."""
    said = _lowered("dynamic", recipe)
    assert "has dynamic shapes" in said
    assert "and QNN takes static ones only" in said


def test_one_backend_for_a_lowering() -> None:
    """Checks and partitions of all methods use one of QNN's backends; another process's bytes."""

    def once() -> tuple[int, bytes]:
        program = _here("unlike", "fp16")
        return len(importlib.import_module("qualcomm_compiler")._managers), program

    (count, program), (_, again) = _forked(once), _forked(once)
    assert count == 1
    assert program == again
