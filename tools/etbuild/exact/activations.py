"""Activations that delegates compute with other factors, bounds or formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import always, argument_of, dtype_of
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


# Factors of SELU.
_SELU = (1.6732632423543772, 1.0507009873554805)


def _has_scales(node: Node) -> bool:
    return (argument_of(node, 2, "scale", 1), argument_of(node, 3, "input_scale", 1)) != (1, 1)


def _elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    """The smooth half by an ELU of its own, which is zero for the other numbers."""
    import torch

    smooth = torch.nn.functional.elu((x * input_scale).clamp(max=0), alpha)
    return (x.clamp(min=0) + smooth) * scale


def _expm1(x: Any) -> Any:
    return (x * 0.5).tanh() * (x.exp() + 1.0)


def _elu_by_expm1(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    smooth = _expm1((x * input_scale).clamp(max=0))
    return (x.clamp(min=0) + smooth * alpha) * scale


def _celu_by_expm1(x: Any, alpha: float = 1) -> Any:
    import torch

    if alpha < 0:
        return torch.where(x > 0, x, _expm1(x / alpha) * alpha)
    return _elu_by_expm1(x, alpha, 1, 1 / alpha)


def _selu_by_expm1(x: Any) -> Any:
    return _elu_by_expm1(x, *_SELU)


def _celu(x: Any, alpha: float = 1) -> Any:
    import torch

    if alpha < 0:
        return torch.where(x > 0, x, torch.expm1(x / alpha) * alpha)
    return _elu(x, alpha, 1, 1 / alpha)


def _selu(x: Any) -> Any:
    return _elu(x, *_SELU)


def _is_unquantized_tanh(node: Node) -> bool:
    """Tells whether a GELU is the approximation, in 32-bit floats of a graph without integers."""
    import torch

    approximates = node.kwargs.get("approximate") == "tanh" and dtype_of(node) == torch.float32
    quantized = ("quantized_decomposed.", "torchao.")
    return approximates and not any(
        str(other.target).startswith(quantized) for other in node.graph.nodes
    )


def _gelu(x: Any, *, approximate: str) -> Any:
    """As torch computes it: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))."""
    cube = x * x * x
    inner = x + cube * 0.044715
    return (x * 0.5) * ((inner * math.sqrt(2 / math.pi)).tanh() + 1.0)


def _is_apart(node: Node) -> bool:
    """Tells whether a result follows no layer over pictures, rows or features, or not alone."""
    source = node.args[0]
    layer = str(source.target).removeprefix("aten.").partition(".")[0]
    dims = {"conv1d": 3, "conv2d": 4, "conv_transpose2d": 4, "linear": None}
    is_layer = layer in dims and dims[layer] in (None, source.meta["val"].dim())
    return not is_layer or len(source.users) > 1


def _hard_sigmoid(x: Any) -> Any:
    return (x * (1 / 6) + 0.5).clamp(0, 1)


def _hard_swish(x: Any) -> Any:
    return x * _hard_sigmoid(x)


def _is_apart_from_linear(node: Node) -> bool:
    """Tells whether what a function is given is no linear layer's result."""
    return not str(node.args[0].target).startswith("aten.linear.")


def _is_swish(node: Node) -> bool:
    """Tells whether a product is that of a value, which is no linear layer's, and its sigmoid."""
    sigmoids = [n for n in node.all_input_nodes if str(n.target).startswith("aten.sigmoid")]
    return any(n.args[0] in node.args and _is_apart_from_linear(n) for n in sigmoids)


def _silu(x: Any) -> Any:
    return (x * 1.0) * x.sigmoid()


def _product_apart(x: Any, y: Any) -> Any:
    return (x * 1.0) * y


def _has_default_bound(node: Node) -> bool:
    return len(node.args) < 3


def _hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    return x.clamp(min_val, max_val)


def _has_elements(node: Node) -> bool:
    return 0 not in [size for size in node.meta["val"].shape if isinstance(size, int)]


def _log_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    x = x if dtype is None else x.to(dtype)
    below = x - x.amax(dim, keepdim=True)
    return below - below.exp().sum(dim, keepdim=True).log()


RULES: Mapping[str, tuple[Rule, ...]] = {
    "elu": (
        Rule(("elu.default",), _has_scales, _elu),
        Rule(("celu.default",), always, _celu),
        Rule(("selu.default",), always, _selu),
    ),
    "expm1": (
        Rule(("expm1.default",), always, _expm1),
        Rule(("elu.default",), always, _elu_by_expm1),
        Rule(("celu.default",), always, _celu_by_expm1),
        Rule(("selu.default",), always, _selu_by_expm1),
    ),
    "gelu": (Rule(("gelu.default",), _is_unquantized_tanh, _gelu),),
    "hard_sigmoid": (
        Rule(("hardsigmoid.default",), _is_apart, _hard_sigmoid),
        Rule(("hardswish.default",), _is_apart, _hard_swish),
    ),
    "hardtanh": (Rule(("hardtanh.default", "hardtanh_.default"), _has_default_bound, _hardtanh),),
    "log_softmax": (Rule(("log_softmax.int",), _has_elements, _log_softmax),),
    "swish": (
        Rule(("silu.default",), _is_apart_from_linear, _silu),
        Rule(("mul.Tensor",), _is_swish, _product_apart),
    ),
}
REASONS: Mapping[str, str] = {
    "elu": "the delegate leaves out the factors",
    "expm1": "the delegate takes four terms of a series, up to 4e-5 apart",
    "gelu": "the delegate computes the exact GELU for the approximation, up to 5e-4 apart",
    "hard_sigmoid": "the kernels have it as a part of a layer only",
    "hardtanh": "the delegate's lowering fails where a bound has its default",
    "log_softmax": "the delegate takes the logarithm of steps, the least of which is zero",
    "swish": "the delegate fuses it, and gets it wrong in 16 bits",
}
