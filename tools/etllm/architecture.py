"""Architecture of a decoder, whatever its checkpoint's format says it in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from executorch.examples.models.llama.model_args import ModelArgs

from etllm.rotary import Rotary


@dataclass(frozen=True)
class Layer:
    """The settings in which layers of one model may differ.

    Attributes:
      rotary: its rotary embedding, as an index into `Architecture.rotaries`; None: it has none.
      window: how many tokens back a token sees, its own included; 0: all.
    """

    rotary: int | None = 0
    window: int = 0


@dataclass(frozen=True)
class Rows8:
    """An embedding that a checkpoint holds in 8 bits.

    Attributes:
      read: int8 rows and scales (rows, groups) of a shape.
      group: columns that share a scale.
      required: the file, if a program with another scheme is an error; else "".
    """

    read: Callable[[Sequence[int]], tuple[torch.Tensor, torch.Tensor]]
    group: int
    required: str = ""


@dataclass(frozen=True)
class Architecture:
    """A model of a known family.

    Attributes:
      family: its name in config.json ("qwen3"), for messages.
      args: upstream's ModelArgs, which have all sizes and most features.
      rotaries: the rotary embeddings that its layers use.
      layers: one for each layer.
      depth: how many layers the checkpoint has; the model may be cut to its first ones.
      halves: how queries and keys lie; see `Rotary.tables`.
      tied: whether the output has the embedding's weights.
      only_here: features that upstream's own Transformer doesn't compute; mostly empty.
      metadata: bos and eos tokens by the names of metadata methods.
    """

    family: str
    args: ModelArgs
    rotaries: tuple[Rotary, ...]
    layers: tuple[Layer, ...]
    depth: int
    halves: bool
    tied: bool
    only_here: tuple[str, ...] = ()
    metadata: dict[str, int | list[int]] = field(default_factory=dict)
