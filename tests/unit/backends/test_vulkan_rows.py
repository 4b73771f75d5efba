"""Rows that Vulkan's layers with 4-bit weights multiply: in one batch, and in parts."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import vulkan_rows
from etbuild import BuildError
from executorch import exir
from executorch.backends.vulkan.patterns import fusable_patterns
from torch import nn
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerGroup
from torchao.utils import unwrap_tensor_subclass

_CONFIGS = (Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig)
_JOINED = vulkan_rows.in_one_batch("//:recipe")


class Calls(nn.Module):
    """A layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x).relu())


def _exported(net: nn.Module, config: Any, x: torch.Tensor, shapes: Any = None) -> Any:
    torch.manual_seed(0)
    quantize_(net.eval(), config(torch.int4, PerGroup(32)))
    unwrap_tensor_subclass(net)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(net, (x,), dynamic_shapes=shapes)


def _multiplied(program: Any) -> list[list[int]]:
    """The shapes that layers of Vulkan's give, once upstream has fused them."""
    vulkan_rows.install()
    config = exir.EdgeCompileConfig(_check_ir_validity=False)
    edge = exir.to_edge(program, compile_config=config)
    fused = edge.exported_program()
    pattern = fusable_patterns["quantized_linear"]
    for node in list(fused.graph.nodes):
        if match := pattern.detector_fn(node):
            pattern.create_replacement_fn(fused, fused.graph_module, match)
    fused.graph.eliminate_dead_code()
    names = ("et_vk.linear_q4gsw.default", "et_vk.linear_dq8ca_q4gsw.default")
    layers = [n for n in fused.graph.nodes if getattr(n.target, "__name__", "") in names]
    return [_rows(layer.args[0]) for layer in layers]


def _rows(x: Any) -> list[int]:
    """The shape of a value, or of a slice that upstream's pass has not traced yet."""
    if "val" in x.meta:
        return [*x.meta["val"].shape]
    given, dimension, start, end = x.args
    shape = _rows(given)
    return [*shape[:dimension], end - start, *shape[dimension + 1 :]]


@pytest.mark.few(4)
@pytest.mark.parametrize("config", _CONFIGS)
@pytest.mark.parametrize("shape", [(2, 6, 32), (2, 3, 2, 32), (32,), (1, 6, 32), (6, 32)])
def test_rows_are_joined(config: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    program = _exported(Calls(), config, x)
    expected = program.module()(x)
    torch.testing.assert_close(_JOINED("forward", program).module()(x), expected)
    rows = [1, 6, 32] if len(shape) == 3 and shape[0] == 1 else [x.numel() // 32, 32]
    assert _multiplied(program) == [rows, rows]


def test_quantized_rows_are_multiplied_in_parts() -> None:
    """As many at once as there are features."""
    dynamic, static = _CONFIGS
    x = torch.randn(1, 70, 32)
    parts = [[1, 32, 32], [1, 32, 32], [1, 6, 32]]
    assert _multiplied(_exported(Calls(), dynamic, x)) == parts * 2
    assert _multiplied(_exported(Calls(), static, x)) == [[1, 70, 32]] * 2


def test_flat_pictures_are_rows() -> None:
    net = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 8, bias=False))
    program = _exported(net, IntxWeightOnlyConfig, torch.randn(3, 16, 4, 4))
    assert _multiplied(program) == [[3, 64]]


@pytest.mark.parametrize("most", [32, 33])
def test_rows_that_vary(most: int) -> None:
    shapes = ({0: torch.export.Dim("n", min=2, max=most)},)
    for config in _CONFIGS:
        program = _exported(Calls(), config, torch.randn(4, 32), shapes)
        if most == 32 or config is IntxWeightOnlyConfig:
            _JOINED("forward", program)
            continue
        with pytest.raises(BuildError, match="up to 33 rows of 32 features") as error:
            _JOINED("forward", program)
        assert "int4_weight_only" in str(error.value)
