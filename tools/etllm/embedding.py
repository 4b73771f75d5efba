"""Token tables that are quantized, by `quantization.embedding_quantize` of a YAML file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import torch
from etbuild import BuildError
from torch import nn

from etllm.architecture import Rows8
from etllm.decoder import MakeEmbedding
from etllm.layers import Int8Embedding
from etllm.settings import Settings

_KEY = "quantization.embedding_quantize"
# Upstream's operators of 2 and 4 bits are in ExecuTorch's quantized kernels.
_PACKED = (2, 4)


def maker(
    settings: Settings,
    width: int,
    table: Callable[[Sequence[int]], torch.Tensor],
    rows8: Rows8 | None = None,
) -> MakeEmbedding | None:
    """Returns the function that makes the embedding; None: a table of floats.

    Args:
      settings: the YAML file.
      width: of the model.
      table: float32 values of the embedding, of a shape.
      rows8: see `Checkpoint`.

    Raises:
      BuildError: the value is malformed, or its group doesn't fit the model's width.
    """
    text = settings.llm.quantization.embedding_quantize
    required = rows8 is not None and rows8.required
    if not text:
        if required:
            raise _other_scheme(settings, rows8, width)
        return None
    match = re.fullmatch(r"\s*([248])\s*,\s*(\d+|none|None)\s*", text)
    if match is None:
        raise settings.error(
            _KEY, 'bits (2, 4 or 8) and columns that share a scale ("8,32"; 0: a whole row)'
        )
    bits = int(match[1])
    group = int(match[2]) if match[2].isdigit() and int(match[2]) else width
    if width % group or group % (8 // bits):
        raise settings.error(_KEY, f"columns that the model's width, {width}, is a multiple of")
    if rows8 is not None and (bits, group) == (8, rows8.group):
        return lambda shape: Int8Embedding(*rows8.read(shape))
    if required:
        raise _other_scheme(settings, rows8, width)
    if bits in _PACKED:
        use_hqq = settings.llm.quantization.use_hqq
        return lambda shape: _packed(table(shape), bits, group, use_hqq)
    return lambda shape: Int8Embedding(*in_8_bits(table(shape), group))


def _other_scheme(settings: Settings, rows8: Rows8, width: int) -> BuildError:
    group = 0 if rows8.group == width else rows8.group
    return settings.error(
        _KEY, f'"8,{group}": {rows8.required} holds the embedding with 8 bits and these scales'
    )


def in_8_bits(table: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A table as 8-bit integers and scales.

    Args:
      table: float32, (tokens, width).
      group: columns that share a scale.

    Returns:
      int8 of the same shape and float16 scales (tokens, width / group).
    """
    grouped = table.view(table.shape[0], -1, group)
    scales = (grouped.abs().amax(-1) / 127.0).to(torch.float16)
    # What is too small for a scale becomes 0.
    steps = scales.float().unsqueeze(-1)
    steps = torch.where(steps > 0, steps, math.inf)
    numbers = (grouped / steps).round().clamp(-128, 127)
    return numbers.to(torch.int8).view(table.shape), scales


def _packed(table: torch.Tensor, bits: int, group: int, use_hqq: bool) -> nn.Module:
    """Upstream's embedding of 2 or 4 bits."""
    # Its operators, for whoever runs the program in this process, too.
    import executorch.kernels.quantized  # noqa: F401
    from executorch.examples.models.llama.source_transformation.quantize import (
        EmbeddingQuantHandler,
    )

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding.from_pretrained(table)

    handler = EmbeddingQuantHandler(
        Holder(), bitwidth=bits, group_size=group, packed=True, quantize_with_hqq=use_hqq
    )
    return handler.quantized_model().embedding
