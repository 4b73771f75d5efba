"""A model's files of any format: its architecture, and its weights by upstream's names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from etbuild import BuildError, ModelContext
from etlower.stored_weights import StoredWeight

from etllm import gguf_checkpoint, hf_checkpoint, meta_checkpoint
from etllm.architecture import Architecture, Rows8
from etllm.hf_config import Sizes
from etllm.replacements import NotReplaced

_LAYOUTS = (
    "a GGUF file; or config.json with .safetensors files, as Hugging Face has them; or params.json "
    "with a .pth file, as Meta has them"
)


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint.

    Attributes:
      architecture: what the model is made of.
      weight: a parameter of upstream's Transformer by its name and shape, as float32.
      rows8: the embedding as 8-bit rows and their scales, with nothing lost; None: it is not stored
        so.
      check_unused: fails where the files hold weights that the model, with parameters of these
        names, would leave out.
      stored: the integers of a parameter by its name; None: it is stored in floats.
    """

    architecture: Architecture
    weight: Callable[[str, Sequence[int]], torch.Tensor]
    check_unused: Callable[[Collection[str]], None]
    rows8: Rows8 | None = None
    stored: Callable[[str], StoredWeight | None] = lambda _: None


def find(ctx: ModelContext, *endings: str) -> dict[str, Path]:
    """Files of a target's data with one of some endings, an adapter's left out, by their names."""
    return {
        name: path
        for name, path in sorted(ctx.files.items())
        if name.endswith(endings) and not name.rsplit("/", 1)[-1].startswith("adapter_")
    }


def open_checkpoint(ctx: ModelContext, sizes: Sizes) -> Checkpoint:
    """Opens the checkpoint among a target's files.

    Args:
      ctx: its data has the files, and may have others.
      sizes: what the target asks of the model.

    Raises:
      NotReplaced: transformers alone reads it, or has the code for its model.
      BuildError: there is none, more than one, or its files do not fit together.
    """
    ggufs = find(ctx, ".gguf")
    tensors = find(ctx, ".safetensors")
    metas = find(ctx, ".pth", ".pt")
    present = [kind for kind in (ggufs, tensors, metas) if kind]
    if not present and find(ctx, ".bin"):
        raise NotReplaced(f"weights in {next(iter(find(ctx, '.bin')))}")
    if len(present) != 1 or len(ggufs) > 1:
        names = ", ".join(name.rsplit("/", 1)[-1] for kind in present for name in kind)
        raise BuildError(
            f"{ctx.label}: checkpoint: got {names or 'no file of weights'}, expected {_LAYOUTS}.",
            "Give the files of one checkpoint.",
        )
    if ggufs:
        return Checkpoint(**gguf_checkpoint.opened(next(iter(ggufs.values())), sizes, ctx.label))
    if tensors:
        config = _only(ctx, "config.json", "describes the model of the .safetensors files")
        generation = _optional(ctx, "generation_config.json")
        index = _optional(ctx, "model.safetensors.index.json")
        return Checkpoint(**hf_checkpoint.opened(config, generation, index, tensors, sizes))
    params = _only(ctx, "params.json", "has the sizes of the model of the .pth file")
    return Checkpoint(**meta_checkpoint.opened(params, metas, sizes, ctx.label))


def _optional(ctx: ModelContext, name: str) -> tuple[str, Path] | None:
    files = [(n, p) for n, p in ctx.files.items() if n == name or n.endswith("/" + name)]
    return files[0] if len(files) == 1 else None


def _only(ctx: ModelContext, name: str, what: str) -> tuple[str, Path]:
    names = [n for n in ctx.files if n == name or n.endswith("/" + name)]
    if len(names) != 1:
        raise BuildError(
            f"{ctx.label}: checkpoint: got {len(names)} files {name}, expected one, which {what}.",
            'Give et_llm all files of the checkpoint, e.g. checkpoint = glob(["qwen/*"]).',
        )
    return names[0], ctx.files[names[0]]
