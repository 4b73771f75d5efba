"""`scaled_dot_product_attention` of shapes and masks that lowering or delegates get wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import argument_of, aten
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _is_masked(node: Node) -> bool:
    """Tells whether attention has a mask, which may hide rows entirely."""
    return argument_of(node, 3, "attn_mask", None) is not None


def _without_hidden_rows(
    x: Any, keys: Any, values: Any, attn_mask: Any, *rest: Any, **named: Any
) -> Any:
    """Attention that is zero where a mask hides all, whatever a softmax makes of that."""
    import torch

    result = _with_heads(x, keys, values, attn_mask, *rest, **named)
    if attn_mask.dtype == torch.bool:
        return result * torch.amax(attn_mask.to(x.dtype), -1, keepdim=True)
    return torch.where(torch.all(torch.isinf(attn_mask), -1, keepdim=True), 0.0, result)


def _has_no_heads(node: Node) -> bool:
    """Tells whether all of an attention's tensors lack the dimension of heads."""
    ranks = {each.meta["val"].dim() for each in node.args[:3]}  # type: ignore[union-attr]
    return len(ranks) == 1 and min(ranks) < _HEADS


def _with_heads(x: Any, keys: Any, values: Any, *rest: Any, **named: Any) -> Any:
    """Attention of four dimensions, the first of which have one element."""
    import torch

    given = [x, keys, values]
    for _ in range(_HEADS - x.dim()):
        given = [torch.unsqueeze(each, 0) for each in given]
    result = aten("scaled_dot_product_attention.default")(*given, *rest, **named)
    for _ in range(_HEADS - x.dim()):
        result = torch.squeeze(result, 0)
    return result


def _shares_other_values(node: Node) -> bool:
    """Tells whether heads share values of another size than that of the keys."""
    keys, values = (each.meta["val"] for each in node.args[1:3])  # type: ignore[union-attr]
    is_shared = bool(node.kwargs.get("enable_gqa", False))
    return is_shared and bool(keys.shape[-1] != values.shape[-1])


def _with_repeated_heads(x: Any, keys: Any, values: Any, *rest: Any, **named: Any) -> Any:
    """Attention each of whose heads has keys and values of its own."""
    count = x.shape[-3] // keys.shape[-3]

    def repeated(value: Any) -> Any:
        *batches, length, size = value.shape
        shape = [*batches, count, length, size]
        return value.unsqueeze(-3).expand(shape).reshape(*batches[:-1], x.shape[-3], length, size)

    named = {**named, "enable_gqa": False}
    attention = aten("scaled_dot_product_attention.default")
    return attention(x, repeated(keys), repeated(values), *rest, **named)


def _views_attention(node: Node) -> bool:
    """Tells whether a view is of attention that has been decomposed, and lies otherwise then."""
    import torch

    source, shape = node.args[0], node.args[0].meta["val"].shape
    while _is_elementwise(source, shape):
        source = source.all_input_nodes[0]
    if not str(source.target).startswith("aten.scaled_dot_product_attention") or len(shape) != 4:
        return False
    if not all(isinstance(size, int) for size in (*shape, *node.meta["val"].shape)):
        return True
    decomposed = torch.empty([shape[dim] for dim in (2, 0, 1, 3)], device="meta")
    try:
        decomposed.permute(1, 2, 0, 3).view(node.meta["val"].shape)
    except RuntimeError:
        return True
    return False


def _is_elementwise(node: Node, shape: Any) -> bool:
    sources = node.all_input_nodes
    keeps = node.op == "call_function" and len(sources) > 0 and _shape(sources[0]) == shape
    return keeps and "attention" not in str(node.target)


def _shape(node: Node) -> Any:
    return getattr(node.meta.get("val"), "shape", None)


def _of_copied_rows(operator: str) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        rows = x.clone(memory_format=torch.contiguous_format)
        return aten(operator)(rows, *rest, **kwargs)

    return function


_HEADS = 4
_VIEWS = ("flatten.using_ints", "reshape.default", "unflatten.int", "view.default")

RULES: Mapping[str, tuple[Rule, ...]] = {
    "attention_heads": (
        Rule(("scaled_dot_product_attention.default",), _has_no_heads, _with_heads, whole=True),
        Rule(
            ("scaled_dot_product_attention.default",),
            _shares_other_values,
            _with_repeated_heads,
            whole=True,
        ),
    ),
    "attention_view": tuple(
        Rule((name,), _views_attention, _of_copied_rows(name)) for name in _VIEWS
    ),
    "hidden_rows": (
        Rule(
            ("scaled_dot_product_attention.default",),
            _is_masked,
            _without_hidden_rows,
            whole=True,
        ),
    ),
}
REASONS: Mapping[str, str] = {
    "attention_heads": "upstream's lowering takes lengths for heads, or keys' sizes for values'",
    "attention_view": "upstream's attention has another order in memory, and no such view of it",
    "hidden_rows": "of scores that are all hidden the delegate takes the mean, and eager 0",
}
