"""Questions about the calls of a graph that several rules ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Node


def argument_of(node: Node, position: int, name: str, default: Any = None) -> Any:
    """An argument of a call, which may be given by its place or by its name."""
    given: Any = node.args[position] if len(node.args) > position else default
    return node.kwargs.get(name, given)


def aten(operator: str) -> Any:
    """An operator of ATen's by its name: "gather.default"."""
    import torch

    packet, _, overload = operator.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def dtype_of(node: Node) -> Any:
    """The type of a node's value."""
    return node.meta["val"].dtype


def always(node: Node) -> bool:
    """Tells of every node that it is to be written out."""
    return True


def is_scalar(node: Node) -> bool:
    """Tells whether a node's value has no dimension."""
    return node.meta["val"].dim() == 0


def has_no_dimension(node: Node) -> bool:
    """Tells whether what a call is given has no dimension."""
    return node.args[0].meta["val"].dim() == 0


def gives_half(node: Node) -> bool:
    """Tells whether a result has 16-bit floats."""
    import torch

    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)


def in_common_type(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands, the tensors of which have the type of the result."""
    import torch

    dtype = torch.result_type(x, y)
    return tuple(v.to(dtype) if isinstance(v, torch.Tensor) else v for v in (x, y))  # type: ignore[return-value]
