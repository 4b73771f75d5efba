"""Normalizations by statistics of a training, by small epsilons, or over several dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import aten
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _normalizes_pictures(node: Node) -> bool:
    """Tells whether pictures are normalized by their own means, not by those of a training."""
    return bool(node.meta["val"].dim() == 4 and node.args[5])


def _instance_norm(x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    import torch

    epsilon = rest[4]
    return torch.nn.functional.group_norm(x, x.shape[1], weight, bias, epsilon)


def _is_norm_of_several(node: Node) -> bool:
    return len(node.args[1]) > 1  # type: ignore[arg-type]


def _norm_of_one(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    """A norm over several dimensions, as one over a dimension that has all of them."""
    first = x.dim() - len(shape)
    flat = x.flatten(first)
    weight = None if weight is None else weight.flatten()
    norm = aten("rms_norm.default")(flat, [flat.shape[-1]], weight, eps)
    return norm.reshape(x.shape)


def _has_statistics(node: Node) -> bool:
    """Tells whether an instance normalization goes by the means of a training."""
    return not node.args[5]


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *rest: Any) -> Any:
    """The batch norm that an instance normalization by the means of a training is."""
    import torch

    epsilon = rest[2]
    return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, eps=epsilon)


RULES: Mapping[str, tuple[Rule, ...]] = {
    "instance_norm": (
        Rule(("instance_norm.default",), _normalizes_pictures, _instance_norm, whole=True),
        Rule(("instance_norm.default",), _has_statistics, _batch_norm, whole=True),
    ),
    "norm_dimensions": (
        Rule(("rms_norm.default",), _is_norm_of_several, _norm_of_one, whole=True),
    ),
}
REASONS: Mapping[str, str] = {
    "instance_norm": "the delegate leaves out small epsilons and statistics of a training",
    "norm_dimensions": "the delegate takes one dimension only",
}
