"""A checkpoint as a module: upstream's Transformer with layers that a delegate takes whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from etlower import stored_weights
from etlower.stored_weights import StoredWeight
from executorch.examples.models.llama.llama_transformer import Transformer, construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from torch import nn

from etllm.architecture import Architecture
from etllm.layers import (
    ATTENTION,
    Block,
    Int8Embedding,
    Norm,
    Scaled,
    causal_mask,
    later,
    score_limits,
    too_early,
    window_mask,
)
from etllm.prefix_attention import PREFIX_ATTENTION, PrefixAttention, seen

EMBEDDING = "tok_embeddings.weight"
# Makes a module of the embedding's shape that replaces a table of floats.
MakeEmbedding = Callable[[Sequence[int]], nn.Module]


def construct(args: ModelArgs, prefixes: bool = False) -> Transformer:
    """Upstream's Transformer without weights, with the layers of `etllm.layers`.

    Args:
      args: its configuration; attention_type becomes ours.
      prefixes: whether a call reads the part of the KV cache that has tokens, whose size only some
        delegates take; else all of it.

    Returns:
      The module on "meta", its buffers on the CPU.
    """
    args.attention_type = PREFIX_ATTENTION if prefixes else ATTENTION
    # On "meta" the weights take no memory until the checkpoint's are assigned.
    with torch.device("meta"):
        model = construct_transformer(args)
        for i, layer in enumerate(model.layers):
            if needs_block(args):
                model.layers[i] = Block(args, layer.attention)
            else:
                layer.attention_norm = Norm(layer.attention_norm)
                layer.ffn_norm = Norm(layer.ffn_norm)
        model.norm = Norm(model.norm)
    return model


def needs_block(args: ModelArgs) -> bool:
    """Tells whether a layer has what upstream's TransformerBlock lacks."""
    return (
        args.act_fn.value != "silu"
        or args.post_attention_norm
        or args.post_ffn_norm
        or args.residual_multiplier is not None
    )


def assign(
    model: Transformer,
    weight: Callable[[str, Sequence[int]], torch.Tensor],
    embedding: MakeEmbedding | None = None,
    stored: Callable[[str], StoredWeight | None] = lambda _: None,
) -> Transformer:
    """Gives a model its weights, in place.

    Args:
      model: from `construct`.
      weight: a parameter by name and shape.
      embedding: makes the embedding; None: a table of floats.
      stored: the integers of a linear layer's weight by its name; None: it has none.

    Returns:
      The model, which needs no gradients.
    """
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    if embedding is not None:
        model.tok_embeddings = embedding(shapes.pop(EMBEDDING))
    weights = {name: weight(name, shape) for name, shape in shapes.items()}
    model.load_state_dict(weights, strict=False, assign=True)
    for name, module in model.named_modules():
        integers = stored(f"{name}.weight") if isinstance(module, nn.Linear) else None
        if integers is not None:
            stored_weights.keep(module.weight, integers)
    return model.requires_grad_(False)


def finish(model: Transformer, arch: Architecture) -> Transformer:
    """Puts in what follows from the architecture and isn't a weight, in place.

    Args:
      model: with its weights and, where it has one, its adapter.
      its: what it is made of.
    """
    args = arch.args
    for layer, kind in zip(model.layers, arch.layers, strict=True):
        layer.attention.rotary, layer.attention.window = kind.rotary, kind.window
        layer.attention.stretch = arch.rotaries[kind.rotary or 0].scale
    cos, sin = arch.rotaries[0].tables(args.head_dim, args.max_context_len, arch.halves)
    model.rope.freqs_cos, model.rope.freqs_sin = cos, sin
    choose_masks(model)
    if args.embedding_scale_factor != 1.0:
        model.tok_embeddings = Scaled(model.tok_embeddings, args.embedding_scale_factor)
    if args.logits_scaling is not None or args.final_logit_softcapping is not None:
        factor = 1.0 / (args.logits_scaling or 1.0)
        model.output = Scaled(model.output, factor, args.final_logit_softcapping)
    return model


def choose_masks(model: Transformer) -> None:
    """Lets all layers hide tokens in one way that is right for their weights, in place.

    Args:
      model: with its weights and adapters.
    """
    small = all(
        layer.attention.scores_are_small(layer.attention_norm.weight) for layer in model.layers
    )
    for layer in model.layers:
        layer.attention.limits = not small


def cast(model: CausalLM, dtype: torch.dtype) -> CausalLM:
    """Lets a model compute in another type, in place.

    Positions stay in 32 bits, and so does the mean of a norm: 16 do not hold their numbers.

    Args:
      model: with its weights.
      dtype: torch.float16 or torch.bfloat16.
    """
    model.dtype = dtype
    for module in model.modules():
        if isinstance(module, Int8Embedding):
            module.dtype = dtype
            continue
        for parameter in module.parameters(recurse=False):
            parameter.data = parameter.data.to(dtype)
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_floating_point() and name != "columns":
                setattr(module, name, buffer.to(dtype))
        if hasattr(module, "bitwidth"):
            # Upstream's embedding of 2 or 4 bits.
            module.dtype = dtype
    return model


class CausalLM(nn.Module):
    """Logits of the last of some tokens that continue what the KV cache holds.

    Args:
      transformer: a Transformer with the attention of `etllm.layers`.
      its: what it is made of, where layers differ; None: they are all alike.

    Attributes:
      dtype: what it computes in; see `cast`.
    """

    def __init__(self, transformer: Transformer, arch: Architecture | None = None) -> None:
        super().__init__()
        self.transformer, self.dtype = transformer, torch.float32
        context = transformer.max_context_len
        columns = torch.arange(context, dtype=torch.float32).view(1, -1)
        self.register_buffer("columns", columns, persistent=False)
        layers = arch.layers if arch else ()
        self.windows = sorted({layer.window for layer in layers} - {0})
        # Heads that share keys, where calls read prefixes; else 0.
        first = transformer.layers[0].attention
        has_prefixes = isinstance(first, PrefixAttention)
        self.groups = first.heads // first.kv_heads if has_prefixes else 0
        self.tables = len(arch.rotaries) if arch and len(arch.rotaries) > 1 else 0
        for i, rotary in enumerate(arch.rotaries if arch and self.tables else ()):
            cos, sin = rotary.tables(arch.args.head_dim, context, arch.halves)
            self.register_buffer(f"cos_{i}", cos, persistent=False)
            self.register_buffer(f"sin_{i}", sin, persistent=False)

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        """Reads int64 tokens (1, n) at int64 position input_pos (1,); logits (1, vocabulary)."""
        positions = torch.arange(tokens.shape[1]) + input_pos
        columns = self.columns
        if self.groups:
            count = seen(input_pos, tokens.shape[1], columns.shape[1])
            columns = torch.arange(count, dtype=torch.float32).view(1, -1)
        masks = self._masks(positions, columns)
        if self.groups > 1:
            masks = {window: torch.cat([mask] * self.groups) for window, mask in masks.items()}
        if self.dtype != torch.float32:
            masks = {window: mask.to(self.dtype) for window, mask in masks.items()}
        options = {"input_pos": positions, "mask": masks[0]}
        if self.windows:
            options["masks"] = masks
        if self.tables:
            options["rotaries"] = [
                (getattr(self, f"cos_{i}")[positions], getattr(self, f"sin_{i}")[positions])
                for i in range(self.tables)
            ]
        return self.transformer(tokens, options)

    def _masks(self, positions: torch.Tensor, columns: torch.Tensor) -> dict[int, torch.Tensor]:
        """The masks of a call's positions by window."""
        if self.transformer.layers[0].attention.limits:
            hidden = later(positions, columns)
            early = {w: too_early(positions, columns, w) for w in self.windows}
            hides = {0: hidden} | {w: torch.maximum(hidden, early[w]) for w in self.windows}
            return {w: score_limits(each, self.dtype) for w, each in hides.items()}
        mask = causal_mask(positions, columns)
        return {0: mask} | {
            window: mask + window_mask(positions, columns, window) for window in self.windows
        }
