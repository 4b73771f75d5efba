"""Pairs of layers that differ in one thing, of each kind that XNNPACK packs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from etbuild import Method, ModelSpec
from torch import nn

# Kind to the class of its layer and its arguments, and to what its input has besides the channels.
KINDS: Mapping[str, tuple[type[nn.Module], dict[str, Any], tuple[int, ...]]] = {
    "linear": (nn.Linear, {"in_features": 64, "out_features": 32}, ()),
    "conv1d": (nn.Conv1d, {"in_channels": 8, "out_channels": 16, "kernel_size": 3}, (12,)),
    "conv2d": (nn.Conv2d, {"in_channels": 8, "out_channels": 16, "kernel_size": 3}, (9, 9)),
    "pointwise": (nn.Conv2d, {"in_channels": 8, "out_channels": 16, "kernel_size": 1}, (9, 9)),
    "grouped": (
        nn.Conv2d,
        {"in_channels": 8, "out_channels": 16, "kernel_size": 3, "groups": 2},
        (9, 9),
    ),
    "depthwise": (
        nn.Conv2d,
        {"in_channels": 8, "out_channels": 8, "kernel_size": 3, "groups": 8},
        (9, 9),
    ),
    "depthwise_1x1": (
        nn.Conv2d,
        {"in_channels": 8, "out_channels": 8, "kernel_size": 1, "groups": 8},
        (9, 9),
    ),
    "depthwise_twice": (
        nn.Conv2d,
        {"in_channels": 8, "out_channels": 16, "kernel_size": 3, "groups": 8},
        (9, 9),
    ),
    "transposed": (
        nn.ConvTranspose2d,
        {"in_channels": 8, "out_channels": 16, "kernel_size": 3},
        (9, 9),
    ),
    "transposed_strided": (
        nn.ConvTranspose2d,
        {"in_channels": 8, "out_channels": 16, "kernel_size": 3, "stride": 2},
        (9, 9),
    ),
    "transposed_grouped": (
        nn.ConvTranspose2d,
        {"in_channels": 8, "out_channels": 16, "kernel_size": 3, "groups": 2},
        (9, 9),
    ),
}

_CONVOLUTIONS = frozenset(KINDS) - {"linear"}
# What the second layer has that the first one doesn't, and of which kinds.
DIFFERENCES: Mapping[str, frozenset[str]] = {
    "nothing": frozenset(KINDS),
    "bias": frozenset(KINDS),
    "no_bias": frozenset(KINDS),
    "scale": frozenset(KINDS),
    "range": frozenset(KINDS),
    "offset": frozenset(KINDS),
    "relu": frozenset(KINDS),
    "clamp": frozenset(KINDS),
    "shape": frozenset({"linear", "conv1d", "conv2d", "pointwise", "transposed"}),
    "kernel": frozenset({"conv2d", "depthwise", "transposed"}),
    "padding": _CONVOLUTIONS,
    "stride": _CONVOLUTIONS,
    "dilation": _CONVOLUTIONS - {"pointwise", "depthwise_1x1", "transposed_strided"},
    "groups": frozenset({"conv2d"}),
}


class Layer(nn.Module):
    """A layer, what follows it, and its input.

    Args:
      kind: of KINDS.
      difference: of DIFFERENCES, from the layer "nothing".
      bias: whether it has one.
    """

    def __init__(self, kind: str, difference: str, *, bias: bool = True) -> None:
        super().__init__()
        make, arguments, size = KINDS[kind]
        given = dict(arguments)
        torch.manual_seed(0)
        first = make(**given)
        with torch.no_grad():
            first.bias.normal_()
        self.after: nn.Module = nn.Identity()
        if difference == "shape":
            # Equal bytes of the weight, in another shape.
            inner, outer = list(given)[:2]
            given[inner], given[outer] = given[outer], given[inner]
        elif difference == "kernel":
            given["kernel_size"] = (9, 1)
        elif difference == "groups":
            given["groups"], given["in_channels"] = 2, 2 * given["in_channels"]
        elif difference == "padding":
            given["padding"] = 1 if given["kernel_size"] > 1 or "groups" in given else 2
        elif difference in ("stride", "dilation"):
            given[difference] = 3 if given.get(difference) == 2 else 2
        elif difference == "relu":
            self.after = nn.ReLU()
        elif difference == "clamp":
            self.after = nn.Hardtanh(-0.25, 0.5)
        bias = bias and difference != "no_bias"
        self.layer = make(**given, bias=bias)
        with torch.no_grad():
            scale = 2 if difference == "scale" else 1
            self.layer.weight.copy_(first.weight.reshape(self.layer.weight.shape) * scale)
            if difference == "bias":
                self.layer.bias.normal_().mul_(5)
            elif bias and self.layer.bias.shape == first.bias.shape:
                self.layer.bias.copy_(first.bias)
        channels = next(iter(given.values()))
        shape = (4, channels) if not size else (1, channels, *(2 * n for n in size))
        self.input = torch.rand(shape) * (3 if difference == "range" else 1)
        self.input -= 2 if difference == "offset" else 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.layer(x))


class Layers(nn.Module):
    """Layers beside each other, each with its own input."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x) for layer, x in zip(self.layers, inputs, strict=True))


class Beside(nn.Module):
    """Layers that read the same input."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x) for layer in self.layers)


def spec(net: nn.Module, inputs: tuple[torch.Tensor, ...]) -> ModelSpec:
    """A model that is calibrated with its inputs."""
    return ModelSpec({"forward": Method(net.eval(), inputs)}, calibration=lambda: iter([inputs]))


def of_layers(*layers: Layer, dtype: torch.dtype = torch.float32) -> ModelSpec:
    """A model of layers, all of whose tensors have a type."""
    inputs = tuple(layer.input.to(dtype) for layer in layers)
    return spec(Layers(*layers).to(dtype), inputs)


def differences(kind: str) -> Iterator[str]:
    """Those that a kind has."""
    return (name for name, kinds in DIFFERENCES.items() if kind in kinds)
