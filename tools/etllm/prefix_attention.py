"""Attention whose cost follows the tokens that are there, not the context that there may be.

A call reads the first rows of each cache where they lie (`etlower.prefixes`), up to the last token
that it knows, in steps of some rows, so that sizes change seldom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from etlower.prefixes import length, prefix
from executorch.examples.models.llama.attention import register_attention

from etllm.layers import GroupedAttention

PREFIX_ATTENTION = "grouped_with_prefix"
# Delegates prepare anew for each size that they have not just seen.
_STEP = 64
# XNNPACK joins no more tensors at once.
_CAT = 5


@register_attention(PREFIX_ATTENTION)
class PrefixAttention(GroupedAttention):
    """Grouped-query attention over the part of a KV cache that has tokens.

    Its mask is that of the positions up to `seen`, once for each head that shares keys:
    (groups * n, seen).

    Attributes:
      k_cache: keys, (KV heads, context, head size): what a call reads of a head is one piece of
        memory, in the order in which a product of matrices takes it.
      v_cache: values likewise.
    """

    def _cache_shapes(self) -> tuple[Sequence[int], Sequence[int]]:
        shape = self.kv_heads, self.context, self.size
        return shape, shape

    def _store(self, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> None:
        self.k_cache.index_copy_(1, positions, k.permute(1, 0, 2))
        self.v_cache.index_copy_(1, positions, v.permute(1, 0, 2))

    def _attended(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        heads = q.split(1) if self.kv_heads > 1 else [q]
        return _joined([self._of_head(i, each, mask) for i, each in enumerate(heads)])

    def _of_head(self, head: int, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Attends to the keys of a KV head with queries of (1, groups * n, head size)."""
        rows = mask.shape[1]
        keys = prefix(self.k_cache, rows, head)
        weights = self._weights(torch.bmm(q, keys.permute(0, 2, 1)), mask)
        return torch.bmm(weights, prefix(self.v_cache, rows, head))


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors of (1, …) as one, in steps that delegates take."""
    if len(tensors) == 1:
        return tensors[0]
    if len(tensors) <= _CAT:
        return torch.cat(tensors)
    step = -(-len(tensors) // _CAT)
    return torch.cat([_joined(tensors[i : i + step]) for i in range(0, len(tensors), step)])


def seen(input_pos: torch.Tensor, count: int, context: int) -> Any:
    """The number of positions of the caches that a call reads.

    Args:
      input_pos: int64 position of the first of its tokens, (1,).
      count: number of its tokens.
      context: number of positions.
    """
    end = torch.div(input_pos + (count + _STEP - 1), _STEP, rounding_mode="floor") * _STEP
    return length(end, context)
