"""Resizing by factors that leave a dimension as large as it is, and antialiased resizing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import argument_of, aten
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _factors(x: Any, factors: Sequence[float]) -> list[float]:
    """Factors of a resizing, 1 for dimensions whose sizes stay."""
    sizes = zip(x.shape[2:], factors, strict=True)
    return [1.0 if type(n) is int and int(n * factor) == n else factor for n, factor in sizes]


def _keeps_a_size(node: Node) -> bool:
    """Tells whether a resizing by a factor leaves a dimension as large as it is."""
    *_, factors = node.args
    if not isinstance(factors, list | tuple):
        return False
    return _factors(node.args[0].meta["val"], factors) != list(factors)


def _resized(operator: str) -> Callable[..., Any]:
    def function(x: Any, *args: Any) -> Any:
        *rest, factors = args
        return aten(operator)(x, *rest, _factors(x, factors))

    return function


def _is_antialiased(node: Node) -> bool:
    """Tells whether sizes and type of an antialiased resizing are such that products give it."""
    import torch

    x, result = node.args[0].meta["val"], node.meta["val"]
    sizes = (*x.shape, *result.shape)
    return x.dtype == torch.float32 and all(type(n) is int and n > 0 for n in sizes)


def _weights(node: Node) -> list[Any]:
    """Matrices by which an antialiased resizing multiplies the rows, and the columns.

    They are the operator's results for a unit matrix, a dimension at a time.
    """
    import torch

    operator: Any = node.target
    aligned = argument_of(node, 2, "align_corners")
    if operator._overloadname == "vec":
        factors = argument_of(node, 3, "scale_factors") or (None, None)
    else:
        factors = [argument_of(node, 3, "scales_h"), argument_of(node, 4, "scales_w")]
    x, result = node.args[0].meta["val"], node.meta["val"]
    found = []
    for place, size in enumerate(x.shape[2:]):
        sizes, scales = [size, size], [None, None]
        sizes[place] = result.shape[2 + place]
        scales[place] = factors[place]
        resize = operator.overloadpacket.default
        if place == 0 and result.shape[-1] == 1 and x.is_contiguous():
            # Of a single column in rows, torch's kernel takes the first row for all.
            unit = torch.eye(size).reshape(size, 1, size, 1)
            made = resize(unit, [sizes[0], 1], aligned, *scales)[:, 0, :, 0].t()
        else:
            made = resize(torch.eye(size)[None, None], sizes, aligned, *scales)[0, 0]
        # Also where sizes of one leave the order in memory open.
        found.append(made.clone(memory_format=torch.contiguous_format))
    return found


def _antialiased(rows: Any, columns: Any, x: Any, *_: Any, **__: Any) -> Any:
    return rows @ x @ columns


# Interpolation with factors, which are the last argument.
_RESIZING = (
    "_upsample_bilinear2d_aa.vec",
    "upsample_bilinear2d.vec",
    "upsample_linear1d.vec",
    "upsample_nearest2d.vec",
    "upsample_trilinear3d.vec",
)

_ANTIALIASED = (
    "_upsample_bicubic2d_aa.default",
    "_upsample_bicubic2d_aa.vec",
    "_upsample_bilinear2d_aa.default",
    "_upsample_bilinear2d_aa.vec",
)

RULES: Mapping[str, tuple[Rule, ...]] = {
    "antialiasing": (Rule(_ANTIALIASED, _is_antialiased, _antialiased, constants=_weights),),
    "kept_size": tuple(
        Rule((name,), _keeps_a_size, _resized(name), whole=True) for name in _RESIZING
    ),
}
REASONS: Mapping[str, str] = {
    "antialiasing": "there is no kernel for bicubic ones, and the runtime of ExecuTorch 1.3.1 "
    "computes something else for bilinear ones",
    "kept_size": "kernels scale a dimension whose size stays, and eager does not",
}
