"""Products of rows with the matrix of the group that each row is in: experts of a mixture."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import argument_of
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _is_of_batches(node: Node) -> bool:
    """Tells whether it is a product in batches, which has no groups."""
    return node.args[0].meta["val"].dim() == 3 and argument_of(node, 2, "offs") is None  # type: ignore[union-attr]


def _of_batches(x: Any, y: Any, offs: None = None, bias: None = None, out_dtype: Any = None) -> Any:
    import torch

    product = torch.bmm(x, y)
    return product if out_dtype is None else product.to(out_dtype)


def _is_of_rows(node: Node) -> bool:
    """Tells whether rows that lie group by group get the matrices of their groups."""
    rows, matrices = (each.meta["val"] for each in node.args[:2])  # type: ignore[union-attr]
    is_grouped = rows.dim() == 2 and matrices.dim() == 3  # Others are gradients of it.
    return is_grouped and argument_of(node, 3, "bias") is None


def _of_rows(rows: Any, matrices: Any, offs: Any, bias: None = None, out_dtype: Any = None) -> Any:
    """Multiplies rows.

    Args:
      rows: [n, k], the rows of the first group first.
      matrices: [groups, k, m].
      offs: [groups]: the number of the first row behind each group. Rows behind the last group
        give zeros.
      bias: none.
      out_dtype: type of the result; None: that of `rows`.

    Returns:
      [n, m].
    """
    import torch

    numbers = torch.arange(rows.shape[0], device=rows.device)
    is_before_end = (numbers.unsqueeze(1) < offs).to(rows.dtype)
    # Of each row, 1 for its group.
    is_in = torch.cat([is_before_end[:, :1], is_before_end[:, 1:] - is_before_end[:, :-1]], 1)
    groups = matrices.shape[0]
    if isinstance(rows.shape[0], int) and rows.shape[0] <= groups:
        # Fewer matrices are read than there are.
        own = (numbers.unsqueeze(1) >= offs).sum(1).clamp(max=groups - 1)
        product = torch.bmm(rows.unsqueeze(1), matrices.index_select(0, own)).squeeze(1)
        product = product * is_in.sum(1, keepdim=True)
    else:
        # Layers whose weights are stored, so that delegates and quantizers take them.
        products = (
            torch.nn.functional.linear(rows * is_in[:, n : n + 1], matrices[n].t())
            for n in range(groups)
        )
        # `sum` would begin with a zero, which gets a scale where it is quantized.
        product = functools.reduce(torch.add, products)
    return product if out_dtype is None else product.to(out_dtype)


RULES: Mapping[str, tuple[Rule, ...]] = {
    # ATen's, and that of the library transformers for types and devices that ATen's does not take.
    "grouped_product": (
        Rule(
            ("_grouped_mm.default", "transformers.grouped_mm_fallback.default"),
            _is_of_rows,
            _of_rows,
            whole=True,
        ),
        Rule(("_grouped_mm.default",), _is_of_batches, _of_batches),
    ),
}
REASONS: Mapping[str, str] = {"grouped_product": "no library has a kernel for it"}
