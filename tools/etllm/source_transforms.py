"""Upstream's source transforms: KV cache and layers in other forms, on its own Transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from executorch.examples.models.llama.llama_transformer import Transformer, construct_transformer
from torch import nn

from etllm.architecture import Architecture
from etllm.settings import Settings

_STATIC, _SCALE = "model.static_quantize_kv_cache", "model.static_quantize_kv_cache_scale"
_SPIN = "quantization.use_spin_quant"
# Sizes of upstream's Hadamard transform: a power of 2, or 28 times one.
_HADAMARD = 28


def requested(settings: Settings) -> list[str]:
    """Keys of the YAML file that ask for a transform.

    Raises:
      BuildError: another key excludes one of them.
    """
    keys = [key for key in (_STATIC, _SPIN) if settings.value(key)]
    if settings.file.has(_SCALE) and _STATIC not in keys:
        raise settings.error(_SCALE, f"no such key without {_STATIC}: true")
    if keys and settings.llm.model.dtype_override.value != "fp32":
        raise settings.error(
            "model.dtype_override", f"fp32 beside {keys[0]}, whose operators take 32 bits"
        )
    if keys and settings.llm.model.local_global_attention:
        raise settings.error(
            keys[0], "false beside local_global_attention", "Remove one of the two keys."
        )
    return keys


def check_fits(arch: Architecture, settings: Settings, keys: Sequence[str]) -> None:
    """Fails where upstream's Transformer, which transforms need, doesn't compute the model."""
    if arch.only_here:
        raise settings.error(
            keys[0],
            f'false for a model of the kind "{arch.family}": upstream\'s Transformer, which it '
            f"changes, lacks {' and '.join(arch.only_here)}",
            "Remove the key.",
        )
    hidden = arch.args.hidden_dim
    size = hidden // _HADAMARD if hidden % _HADAMARD == 0 else hidden
    if _SPIN in keys and size & (size - 1):
        raise settings.error(
            _SPIN,
            f"no such key for a model whose layers are {hidden} wide inside: the Hadamard "
            f"transform takes a power of 2, or {_HADAMARD} times one",
        )


def construct(arch: Architecture) -> Transformer:
    """Upstream's Transformer with its own attention, without weights."""
    args = arch.args
    args.attention_type = "mha"
    # The cache's positions come as one number, whatever the shapes.
    args.enable_dynamic_shape = True
    with torch.device("meta"):
        model = construct_transformer(args)
    return model


def transform(
    model: Transformer, arch: Architecture, keys: Sequence[str], settings: Settings
) -> Transformer:
    """Applies the transforms and puts in the rotary tables.

    Args:
      model: from `construct`, with its weights.
      its: what it is made of.
      keys: from `requested`.
      settings: the YAML file.
    """
    # Registers the operators.
    from executorch.examples.models.llama.source_transformation import custom_kv_cache, spin_quant
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401

    args = arch.args
    cos, sin = arch.rotaries[0].tables(args.head_dim, args.max_context_len, arch.halves)
    turned = int(args.head_dim * args.partial_rotary_factor)
    # Upstream has one column a pair where neighbors make pairs, and no columns that aren't turned.
    columns = slice(0, turned) if arch.halves else slice(0, turned, 2)
    model.rope.freqs_cos = cos[:, columns].contiguous()
    model.rope.freqs_sin = sin[:, columns].contiguous()
    steps: list[Callable[[nn.Module], nn.Module]] = []
    if _STATIC in keys:
        replace = custom_kv_cache.replace_kv_cache_with_static_quantized_kv_cache
        steps.append(lambda model: replace(model, scale=settings.value(_SCALE)))
    if _SPIN in keys:
        steps.append(spin_quant.inject_fast_hadamard_transform_native_for_spin_quant)
    for step in steps:
        model = step(model)
    return model


class UpstreamCausalLM(nn.Module):
    """Logits of the last of some tokens that continue what the KV cache holds.

    Args:
      transformer: upstream's Transformer with upstream's attention.
    """

    def __init__(self, transformer: Transformer) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        """Reads int64 tokens (1, n) at int64 position input_pos (1,); logits (1, vocabulary)."""
        return self.transformer(tokens, {"input_pos": input_pos})
