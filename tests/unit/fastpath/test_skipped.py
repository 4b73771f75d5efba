"""With the locked versions every unit runs; on others it leaves upstream's functions alone."""

from __future__ import annotations

import cProfile
import dataclasses
import importlib
import pstats
from pathlib import Path
from typing import Any

import nets
import pytest
import recipes
import torch
from etfast import hqq, path
from etfast.unit import mismatch
from etlower import lower, stages
from etlower.progress import Progress
from etlower.quantize import quantize
from lowerings import digest
from torch.fx import GraphModule
from torch.fx.passes import tools_common

lower.make_deterministic()

UNITS = {unit.name: unit for unit in path.units()}
# Each unit has something to do in one of them.
_NETS = [
    (nets.attention, "hqq"),
    (nets.picture, "static"),
    (nets.preactivated, "static"),
    (nets.diamond, "vulkan"),
]


def _functions() -> dict[str, Any]:
    """Lists the functions that units replace."""
    from executorch.backends.apple.coreml.quantizer import _coreml_quantizer_utils
    from executorch.backends.vulkan import patterns
    from executorch.backends.xnnpack.partition.config import gemm_configs
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils
    from executorch.exir import pass_base
    from executorch.exir.backend import backend_api
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.export import _trace, exported_program
    from torch.fx import proxy
    from torch.fx.experimental.proxy_tensor import PythonKeyTracer
    from torch.fx.experimental.sym_node import SymNode
    from torchao.quantization.pt2e import qat_utils
    from torchao.quantization.pt2e.observer import HistogramObserver

    return {
        "conv_bn_annotation": xnnpack_quantizer_utils._do_annotate_conv_bn,
        "coreml_patterns": _coreml_quantizer_utils.annotate_weighted_mod_pattern,
        "conv_bn_folding": qat_utils._fold_conv_bn_qat_helper,
        "histogram_search": HistogramObserver._non_linear_param_search,
        "create_arg": PythonKeyTracer.create_arg,
        "recompile": GraphModule.recompile,
        "composite_decompositions": exported_program._override_composite_implicit_decomp,
        "aten_ir_make_fx": _trace._aot_export_joint_with_descriptors,
        "create_partitions": backend_api._get_node_list_with_same_tag,
        "hqq": getattr(importlib.import_module(hqq._MODULE), hqq._NAME),
        "config_partitioner": gemm_configs.get_source_partitions,
        "fake_tensor_cache": FakeTensorMode._validate_cache_key,
        "noop_passes": pass_base._ExportPassBase.call,
        "export_pass": pass_base._ExportPassBase._fx,
        "captured_traceback": proxy.CapturedTraceback,
        "sym_node": SymNode._mul,
        "vulkan_patterns": patterns.get_all_fusable_subgraphs,
    }


@pytest.mark.parametrize("name", sorted(UNITS))
def test_knows_the_locked_versions(name: str) -> None:
    """An update of torch or ExecuTorch that a unit does not know fails here."""
    assert UNITS[name].mismatches() == []


def test_every_unit_runs() -> None:
    """A function that upstream still has, and no longer calls, would lose the speed unseen."""
    profiler = cProfile.Profile(builtins=False)
    _functions()
    with path.installed() as used:
        profiler.enable()
        for net, recipe in _NETS:
            torch.manual_seed(0)
            stages.run(net(), recipes.ALL[recipe](), Progress(), "//t:net", etrecord=False)
        spec = nets.diamond()
        modules = {name: method.module for name, method in spec.methods.items()}
        quantize(modules, spec, recipes.coreml(), "//t:net")
        profiler.disable()
    files = {Path(file) for file, _, _ in pstats.Stats(profiler).stats}
    ran = {file.stem for file in files if file.parent.name == "etfast"}
    # It sets thresholds, and has no function that could run.
    assert used.active == [*path.UNITS] and {*used.active} - ran == {"garbage_collection"}


@pytest.mark.parametrize("name", sorted(_functions()))
def test_is_installed_and_removed(name: str) -> None:
    """One process may lower with it and without."""
    before = _functions()[name]
    with path.installed([UNITS[name]]) as used:
        assert used.active == [name]
        assert _functions()[name] is not before
    assert _functions()[name] is before


def test_all_at_once() -> None:
    """Units may rely on what another one replaces."""
    _functions()
    with path.installed() as used:
        assert used.as_json() == {"lowering": "fast", "units": [*path.UNITS], "skipped": {}}


def test_removed_after_an_error() -> None:
    """A lowering that fails leaves nothing behind."""
    before = _functions()
    with pytest.raises(ValueError, match="wrong"), path.installed():
        raise ValueError("wrong")
    assert _functions() == before


def test_choices_within_others_stand_alone() -> None:
    before = _functions()
    with path.installed():
        outer = _functions()
        with path.chosen("stock"):
            assert _functions() == before
            with path.installed([UNITS["recompile"]]) as used:
                assert used.active == ["recompile"]
                assert _functions() == before | {"recompile": _functions()["recompile"]}
        again = _functions()
        assert all((again[name] is before[name]) == (outer[name] is before[name]) for name in outer)
    assert _functions() == before


@pytest.mark.parametrize("name", sorted(name for name, unit in UNITS.items() if unit.relies_on))
def test_another_upstream(name: str) -> None:
    """One digest that differs is enough, and the reason names function and digest."""
    sources = UNITS[name].relies_on
    module, digests = list(sources.items())[-1]
    function, sha256 = list(digests.items())[-1]
    changed = {**sources, module: {**digests, function: "0" * 64}}
    unit = dataclasses.replace(UNITS[name], relies_on=changed)
    before = _functions()
    with path.installed([unit]) as used:
        assert _functions() == before
    assert used.as_json() == {
        "lowering": "fast",
        "units": [],
        "skipped": {name: f"{module}:{function} has another source (sha256 {sha256[:12]})"},
    }


@pytest.mark.parametrize(
    ("module", "name", "why"),
    [
        ("torch.nowhere", "f", "torch.nowhere:f cannot be imported"),
        ("torch.fx.graph", "Graph.gone", "torch.fx.graph:Graph.gone not found"),
    ],
)
def test_missing_functions(module: str, name: str, why: str) -> None:
    """Functions come and go between versions."""
    assert mismatch(module, name, "0") == why


def test_a_changed_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes come out of the units that are left."""

    def legalize_graph(gm: GraphModule) -> GraphModule:
        return upstream(gm)

    recipe = recipes.ALL["fp32"]
    torch.manual_seed(0)
    stock = digest(nets.tied(), recipe(), "stock")
    upstream = tools_common.legalize_graph
    monkeypatch.setattr(tools_common, "legalize_graph", legalize_graph)
    with path.installed() as used:
        assert sorted(used.skipped) == ["create_partitions"]
    torch.manual_seed(0)
    assert digest(nets.tied(), recipe(), "fast", skipped=1) == stock


def test_stock() -> None:
    """The flag and the recipe's attribute turn all of it off."""
    before = _functions()
    with path.chosen("stock") as used:
        assert _functions() == before
    assert used.as_json() == {"lowering": "stock", "units": [], "skipped": {}}
