"""Layers of decoders in a form that a delegate takes whole.

They compute what ExecuTorch's own attention and norm compute, from the same weights. Only the
operators differ: no slices of a dynamic shape, no repeated keys and values, no mask or rotation
that each layer looks up again. So a layer falls into 2 delegated parts instead of 11, which makes
lowering several times faster and halves the time of a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from executorch.examples.models.llama.attention import Attention, register_attention
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.examples.models.llama.norm import RMSNorm
from executorch.examples.models.llama.rope import Rope
from torch import nn
from torch.nn import functional

from etllm.rotary import half_turns

ATTENTION = "grouped_with_cache"
# Added to the score of a token that may not be seen; fits into float16, and exp() of it is 0.
_HIDDEN = -1e4
# For which scores that is enough, whatever a recipe makes of the weights that they come from.
_SMALL_SCORES = 2500.0
# The score of a token that may not be seen, where scores may be larger: as small as float16 allows,
# or as softmax kernels of delegates take, whose exp() of much smaller numbers overflows.
_LEAST_SCORE = {torch.float16: -65504.0}
_LEAST_SCORE_OF_WIDE = -1e12


@register_attention(ATTENTION)
class GroupedAttention(Attention):
    """Grouped-query attention over a KV cache of its own.

    Args:
      args: the model's configuration; batches of one.
      layer_id: number of the layer; unused.
      rope: the rotary embedding; unused, its tables come with each call.

    Attributes:
      k_cache: keys of all positions: (KV heads, head size, context), as a product of matrices
        takes them, so that no call turns the whole cache.
      v_cache: values: (KV heads, context, head size).
      rotary: which of a call's rotary embeddings turns queries and keys; None: none.
      window: which of a call's masks applies; see `forward`.
      stretch: what the rotary embedding multiplies the length of queries and keys by.
      limits: whether masks are the largest scores that tokens may have; else they are added.
    """

    def __init__(self, args: ModelArgs, layer_id: int, rope: Rope) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = args.n_heads, args.n_kv_heads, args.head_dim
        bias = args.attention_qkv_bias
        self.wq = nn.Linear(args.dim, self.heads * self.size, bias=bias)
        self.wk = nn.Linear(args.dim, self.kv_heads * self.size, bias=bias)
        self.wv = nn.Linear(args.dim, self.kv_heads * self.size, bias=bias)
        self.wo = nn.Linear(self.heads * self.size, args.dim, bias=False)
        self.context = args.max_context_len
        keys, values = self._cache_shapes()
        self.register_buffer("k_cache", torch.zeros(keys, device="cpu"))
        self.register_buffer("v_cache", torch.zeros(values, device="cpu"))
        turned = int(self.size * args.partial_rotary_factor)
        turn = half_turns(self.size, turned) if args.use_hf_rope else quarter_turns(self.size)
        self.register_buffer("turn", turn, persistent=False)
        if args.use_qk_norm:
            self.q_norm_fn = Norm(RMSNorm(self.size, eps=args.norm_eps))
            self.k_norm_fn = Norm(RMSNorm(self.size, eps=args.norm_eps))
        self.norms = args.use_qk_norm
        self.scale, self.cap = args.attention_multiplier, args.attn_logit_softcapping
        self.rotary: int | None = 0
        self.window = 0
        self.stretch = 1.0
        self.limits = False

    def _cache_shapes(self) -> tuple[Sequence[int], Sequence[int]]:
        keys = self.kv_heads, self.size, self.context
        return keys, (self.kv_heads, self.context, self.size)

    def scores_are_small(self, norm: torch.Tensor) -> bool:
        """Returns whether the weights prove that hiding a token by adding to its score is enough.

        A score is at most the product of the lengths of a query and a key.

        Args:
          norm: weight of the norm that x comes from.
        """
        if self.cap is not None:
            return self.cap <= _SMALL_SCORES
        scale = self.size**-0.5 if self.scale is None else self.scale
        queries = self._longest(self.wq, self.heads, norm, "q_norm_fn")
        keys = self._longest(self.wk, self.kv_heads, norm, "k_norm_fn")
        products = queries.view(self.kv_heads, -1) * keys.view(-1, 1)
        return float(products.amax()) * scale * self.stretch**2 <= _SMALL_SCORES

    def _longest(
        self, linear: nn.Linear, heads: int, norm: torch.Tensor, own_norm: str
    ) -> torch.Tensor:
        """Returns the largest length of each head's vectors: (heads,); infinite with an adapter."""
        if self.norms:
            weight = getattr(self, own_norm).weight.float()
            return weight.abs().amax().expand(heads) * self.size**0.5
        if type(linear) is not nn.Linear:
            return torch.full((heads,), torch.inf)
        # What a norm gives is as long as the root of its width, before its weight.
        weight = (linear.weight.float() * norm.float()).view(heads, self.size, -1)
        largest = torch.linalg.eigvalsh(torch.bmm(weight, weight.transpose(1, 2)))[:, -1]
        length = (largest.clamp(min=0.0) * norm.numel()).sqrt()
        if linear.bias is not None:
            length = length + linear.bias.float().view(heads, -1).norm(dim=1)
        return length

    def forward(
        self,
        x: torch.Tensor,
        freqs_cos: torch.Tensor,
        freqs_sin: torch.Tensor,
        *,
        input_pos: torch.Tensor,
        mask: torch.Tensor,
        rotaries: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
        masks: Mapping[int, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, None]:
        """Attends to what the cache holds and to x itself.

        Args:
          x: (1, n, width).
          freqs_cos: cosines of the n positions, each twice: (n, head size).
          freqs_sin: sines likewise.
          input_pos: the n positions, int64.
          mask: what is added to the scores, or their limits: (n, context).
          rotaries: where layers differ: cosines and sines of each rotary embedding.
          masks: where layers differ: a mask by window.

        Returns:
          (1, n, width), and None, for no update of the options.
        """
        if rotaries and self.rotary is not None:
            freqs_cos, freqs_sin = rotaries[self.rotary]
        mask = mask if masks is None else masks[self.window]
        q = self._normed(self.wq(x), "q_norm_fn")
        q = self._rotated(q, self.heads, freqs_cos, freqs_sin)
        k = self._normed(self.wk(x), "k_norm_fn")
        k = self._rotated(k, self.kv_heads, freqs_cos, freqs_sin)
        v = self.wv(x).view(-1, self.kv_heads, self.size)
        self._store(k, v, input_pos)
        # The heads that share keys become rows of one matrix: (KV heads, groups * n, head size).
        scale = self.size**-0.5 if self.scale is None else self.scale
        groups = self.heads // self.kv_heads
        q = (q * scale).view(-1, self.kv_heads, groups, self.size)
        q = q.permute(1, 2, 0, 3).reshape(self.kv_heads, -1, self.size)
        y = self._attended(q, mask)
        y = y.view(self.kv_heads, groups, -1, self.size).permute(2, 0, 1, 3)
        return self.wo(y.reshape(1, -1, self.heads * self.size)), None

    def _store(self, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> None:
        """Writes keys and values of (n, KV heads, head size)."""
        self.k_cache.index_copy_(2, positions, k.permute(1, 2, 0))
        self.v_cache.index_copy_(1, positions, v.permute(1, 0, 2))

    def _attended(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Attends with queries of (KV heads, groups * n, head size); the same shape."""
        groups = self.heads // self.kv_heads
        scores = torch.bmm(q, self.k_cache).view(self.kv_heads, groups, -1, self.context)
        weights = self._weights(scores, mask).view(self.kv_heads, -1, self.context)
        return torch.bmm(weights, self.v_cache)

    def _weights(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.cap is not None:
            scores = torch.tanh(scores / self.cap) * self.cap
        scores = torch.minimum(scores, mask) if self.limits else scores + mask
        return torch.softmax(scores, dim=-1)

    def _normed(self, x: torch.Tensor, norm: str) -> torch.Tensor:
        """x of (1, n, heads * head size), each head normalized if the model has norms for it."""
        return getattr(self, norm)(x.view(-1, self.size)) if self.norms else x

    def _rotated(
        self, x: torch.Tensor, heads: int, cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        """x of (1, n, heads * head size), rotated by its positions: (n, heads, head size)."""
        if self.rotary is None:
            return x.view(-1, heads, self.size)
        turned = torch.mm(x.view(-1, self.size), self.turn).view(-1, heads, self.size)
        cos, sin = cos.view(-1, 1, self.size), sin.view(-1, 1, self.size)
        return x.view(-1, heads, self.size) * cos + turned * sin


class Norm(nn.Module):
    """Root mean square norm whose mean is a pooling over the last dimension.

    Args:
      like: the norm that it stands for.
    """

    def __init__(self, like: RMSNorm) -> None:
        super().__init__()
        self.weight, self.width, self.eps = like.weight, like.dim, like.eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Norm of (n, width) or (1, n, width), of the same shape."""
        # Squares may be too large for 16 bits.
        wide = x if x.dtype == torch.float32 else x.to(torch.float32)
        squares = (wide * wide).view(1, -1, 1, self.width)
        mean = squares.mean((-2, -1), keepdim=True).view(*[1] * (x.dim() - 2), -1, 1)
        normed = wide * torch.rsqrt(mean + self.eps)
        return (normed if x.dtype == torch.float32 else normed.to(x.dtype)) * self.weight


class FeedForward(nn.Module):
    """Gate, up and down with any activation.

    Args:
      args: the model's configuration.
    """

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.w1 = nn.Linear(args.dim, args.hidden_dim, bias=False)
        self.w2 = nn.Linear(args.hidden_dim, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, args.hidden_dim, bias=False)
        self.activation = args.act_fn.get_function()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (1, n, width)."""
        return self.w2(self.activation(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """A layer with what upstream's TransformerBlock lacks; their names are the same.

    Args:
      args: the model's configuration.
      attention: its attention.
    """

    def __init__(self, args: ModelArgs, attention: Attention) -> None:
        super().__init__()

        def norm() -> Norm:
            return Norm(RMSNorm(args.dim, eps=args.norm_eps))

        self.attention, self.feed_forward = attention, FeedForward(args)
        self.attention_norm, self.ffn_norm = norm(), norm()
        self.post_attention_norm = norm() if args.post_attention_norm else nn.Identity()
        self.post_ffn_norm = norm() if args.post_ffn_norm else nn.Identity()
        self.multiplier = args.residual_multiplier

    def forward(
        self, x: torch.Tensor, freqs_cos: torch.Tensor, freqs_sin: torch.Tensor, options: Mapping
    ) -> tuple[torch.Tensor, None]:
        """x of (1, n, width); the options are arguments of the attention."""
        added, _ = self.attention(self.attention_norm(x), freqs_cos, freqs_sin, **options)
        x = self._sum(x, self.post_attention_norm(added))
        return self._sum(x, self.post_ffn_norm(self.feed_forward(self.ffn_norm(x)))), None

    def _sum(self, x: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
        return x + (added if self.multiplier is None else added * self.multiplier)


class Scaled(nn.Module):
    """A module whose outputs are multiplied, and then capped.

    Args:
      module: the module.
      factor: the factor.
      cap: c of c * tanh(x / c); None: no cap.
    """

    def __init__(self, module: nn.Module, factor: float, cap: float | None = None) -> None:
        super().__init__()
        self.module, self.factor, self.cap = module, factor, cap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Applies the module to x; the result has the same shape."""
        y = self.module(x)
        y = y if self.factor == 1.0 else y * self.factor
        return y if self.cap is None else torch.tanh(y / self.cap) * self.cap


class Int8Embedding(nn.Module):
    """A token table of 8-bit integers with a scale for every group of columns.

    Uses plain ATen operators only, so it runs on a runtime without the quantized kernels.

    Args:
      rows: int8, (tokens, width).
      scales: float16, (tokens, groups).

    Attributes:
      dtype: of its results.
    """

    def __init__(self, rows: torch.Tensor, scales: torch.Tensor) -> None:
        super().__init__()
        self.dtype = torch.float32
        self.groups, self.width = scales.shape[1], rows.shape[1]
        self.register_buffer("rows", rows)
        self.register_buffer("scales", scales)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Rows of int64 tokens (1, n) as floats (1, n, width)."""
        rows = functional.embedding(tokens, self.rows).to(self.dtype)
        scales = functional.embedding(tokens, self.scales).to(self.dtype)
        rows = rows.view(1, -1, self.groups, self.width // self.groups)
        return (rows * scales.view(1, -1, self.groups, 1)).view(1, -1, self.width)


def causal_mask(positions: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Returns what is added to scores so that a token sees no later one.

    Args:
      positions: int64 positions of the n tokens.
      columns: float32 0, 1, 2, … of all positions of the context: (1, context).

    Returns:
      (n, context): 0 up to the token's own position, a large negative number after it.
    """
    return later(positions, columns) * _HIDDEN


def window_mask(positions: torch.Tensor, columns: torch.Tensor, window: int) -> torch.Tensor:
    """Returns what else is added to scores so that a token sees `window` tokens, its own included.

    The arguments and the result are those of `causal_mask`.
    """
    return too_early(positions, columns, window) * _HIDDEN


def score_limits(hidden: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The largest scores that tokens may have: of those that may not be seen, the least of all.

    Args:
      hidden: 1.0 for each of these, else 0.0: (n, context).
      dtype: of the scores.
    """
    return (2.0 * hidden - 1.0) * _LEAST_SCORE.get(dtype, _LEAST_SCORE_OF_WIDE)


def later(positions: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """1.0 for tokens behind a token, else 0.0; the arguments are those of `causal_mask`."""
    return (columns - positions.to(torch.float32).view(-1, 1)).clamp(0.0, 1.0)


def too_early(positions: torch.Tensor, columns: torch.Tensor, window: int) -> torch.Tensor:
    """1.0 for tokens before a window, else 0.0; the arguments are those of `window_mask`."""
    distance = positions.to(torch.float32).view(-1, 1) - columns
    return (distance - (window - 1)).clamp(0.0, 1.0)


def quarter_turns(size: int) -> torch.Tensor:
    """The matrix that turns each pair (a, b) of a row into (-b, a).

    Args:
      size: length of a row, even.

    Returns:
      (size, size), float32; `row @ quarter_turns(size)`.

    Example:

        quarter_turns(2)    # [[0, 1], [-1, 0]]
    """
    matrix = torch.zeros(size, size, device="cpu")
    even = torch.arange(0, size, 2, device="cpu")
    matrix[even + 1, even] = -1.0
    matrix[even, even + 1] = 1.0
    return matrix
