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


@register_attention(PREFIX_ATTENTION)
class PrefixAttention(GroupedAttention):
    """Grouped-query attention over the part of a KV cache that has tokens.

    Its mask is that of the positions up to `seen`, once for each head that shares keys:
    (groups * n, seen).

    Attributes:
      k_cache: keys, (context, KV heads, head size): what a call reads is one piece of memory.
      v_cache: values likewise.
    """

    def _cache_shapes(self) -> tuple[Sequence[int], Sequence[int]]:
        shape = self.context, self.kv_heads, self.size
        return shape, shape

    def _store(self, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> None:
        self.k_cache.index_copy_(0, positions, k)
        self.v_cache.index_copy_(0, positions, v)

    def _attended(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        keys, values = (prefix(cache, mask.shape[1]) for cache in (self.k_cache, self.v_cache))
        weights = self._weights(torch.bmm(q, keys.permute(1, 2, 0)), mask)
        return torch.bmm(weights, values.permute(1, 0, 2))


def seen(input_pos: torch.Tensor, count: int, context: int) -> Any:
    """The number of positions of the caches that a call reads.

    Args:
      input_pos: int64 position of the first of its tokens, (1,).
      count: number of its tokens.
      context: number of positions.
    """
    end = torch.div(input_pos + (count + _STEP - 1), _STEP, rounding_mode="floor") * _STEP
    return length(end, context)
