"""Checkpoints in Hugging Face's layout: config.json, .safetensors files, an index."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError
from etbuild.errors import listed
from etlower.stored_weights import StoredWeight, described

from etllm import torchao_tensors
from etllm.architecture import Architecture, Rows8
from etllm.hf_config import Sizes, architecture
from etllm.json_values import JsonValues
from etllm.replacements import FAMILIES
from etllm.tensor_files import TensorFiles

_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
_WHOLE = {
    "tok_embeddings": "model.embed_tokens",
    "norm": "model.norm",
    "output": "lm_head",
}
# Part of a layer in upstream's Transformer to that of a Hugging Face model.
_PARTS = {
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
    "attention.q_norm_fn": "self_attn.q_norm",
    "attention.k_norm_fn": "self_attn.k_norm",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj",
}
# Of models that have a norm after attention, too, where the usual name is that norm's.
_POST_NORM_PARTS = _PARTS | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffn_norm": "post_feedforward_layernorm",
}
# Of families with fused matrices, whose rows lie in this order.
FUSED_PARTS = {
    "attention.wq": "self_attn.qkv_proj",
    "attention.wk": "self_attn.qkv_proj",
    "attention.wv": "self_attn.qkv_proj",
    "feed_forward.w1": "mlp.gate_up_proj",
    "feed_forward.w3": "mlp.gate_up_proj",
}
# Buffers that old files hold and that follow from the configuration.
_DERIVED = re.compile(r"\.rotary_emb\.inv_freq$")


def opened(
    config: tuple[str, Path],
    generation: tuple[str, Path] | None,
    index: tuple[str, Path] | None,
    tensors: Mapping[str, Path],
    sizes: Sizes,
) -> dict[str, Any]:
    """Fields of a Checkpoint.

    Args:
      config: name and path of config.json.
      generation: those of generation_config.json.
      index: those of model.safetensors.index.json.
      tensors: the .safetensors files by name.
      sizes: what the target asks of the model.
    """
    values = JsonValues.read(config[1], config[0])
    more = JsonValues.read(generation[1], generation[0]) if generation else None
    arch = architecture(values, more, sizes)
    files = TensorFiles(tensors, JsonValues.read(index[1], index[0]) if index else None)
    arch = dataclasses.replace(arch, tied=_is_tied(values, arch, files))
    names = WeightNames(arch)

    def weight(name: str, shape: Sequence[int]) -> torch.Tensor:
        theirs, rows = names.source(name)
        value = files.tensor(theirs, rows, names.whole_shape(name, shape))
        # What norms of these models multiply by is 1 more than what their files hold.
        return value + 1.0 if arch.args.rms_norm_add_unit_offset and "norm" in name else value

    def check_unused(used: Collection[str]) -> None:
        known = {names.source(name)[0] for name in used}
        extra = [n for n in files.file_by_tensor if n not in known and not names.may_be_left_out(n)]
        if extra:
            raise BuildError(
                f"{config[0]}: {len(extra)} tensors of the checkpoint are not part of a model of "
                f'the kind "{arch.family}": {listed(extra)}.',
                "The model has layers that its family lacks; its answers would be wrong.",
            )

    def stored(name: str) -> StoredWeight | None:
        theirs, rows = names.source(name)
        if theirs not in files.quantized:
            return None
        weight = files.quantized_tensor(theirs)
        weight = weight if rows is None else torchao_tensors.rows(weight, rows)
        return StoredWeight(weight, files.file_by_tensor[theirs], required=True)

    return {
        "architecture": arch,
        "weight": weight,
        "check_unused": check_unused,
        "stored": stored,
        "rows8": _rows8(files),
    }


def _rows8(files: TensorFiles) -> Rows8 | None:
    """The embedding, where it is quantized."""
    if _EMBEDDING not in files.quantized:
        return None
    value, where = files.quantized_tensor(_EMBEDDING), files.file_by_tensor[_EMBEDDING]
    if value.target_dtype != torch.int8 or bool((value.zero_point != 0).any()):
        raise BuildError(
            f'{where}: tensor "{_EMBEDDING}": got {described(value)}, expected 8-bit weights '
            "without zero points.",
            "Quantize the embedding with 8 bits, or not at all.",
        )
    return Rows8(lambda _: (value.qdata, value.scale), value.block_size[-1], required=where)


def _is_tied(config: JsonValues, arch: Architecture, files: TensorFiles) -> bool:
    """Returns whether the output has the embedding's weights: only if both are equal."""
    if _HEAD not in files.file_by_tensor:
        if not arch.tied:
            raise config.error(
                "tie_word_embeddings",
                f"true, as the checkpoint has no {_HEAD}",
                "Correct the key, or give the target all files of the checkpoint.",
            )
        return True
    shape = (arch.args.vocab_size, arch.args.dim)
    return arch.tied and all(
        torch.equal(*(files.tensor(name, rows, shape) for name in (_EMBEDDING, _HEAD)))
        for rows in _slices(shape[0])
    )


def _slices(count: int, step: int = 1 << 14) -> list[slice]:
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


class WeightNames:
    """Names of upstream's parameters in a Hugging Face checkpoint.

    Args:
      its: the model.

    Example:

        WeightNames(its).source("layers.0.attention.wq.weight")
        # ("model.layers.0.self_attn.q_proj.weight", None)
    """

    def __init__(self, arch: Architecture) -> None:
        self._family, self._args, self._depth = FAMILIES[arch.family], arch.args, arch.depth
        self._tied = arch.tied
        self._parts = _POST_NORM_PARTS if self._family.post_norms else _PARTS
        if self._family.fused:
            self._parts = self._parts | FUSED_PARTS

    def source(self, name: str) -> tuple[str, slice | None]:
        """Name of the tensor that holds a parameter, and which of its rows are it; None: all."""
        path, _, kind = name.rpartition(".")
        if path == "output" and self._tied:
            path = "tok_embeddings"
        if path in _WHOLE:
            return f"{_WHOLE[path]}.{kind}", None
        _, number, part = path.split(".", 2)
        rows = self._rows(part) if self._family.fused else None
        return f"model.layers.{number}.{self._parts[part]}.{kind}", rows

    def may_be_left_out(self, name: str) -> bool:
        """Tells whether the model needn't have a tensor: of layers that are cut off, or derived."""
        match = re.match(r"model\.layers\.(\d+)\.", name)
        cut = match is not None and self._args.n_layers <= int(match[1]) < self._depth
        return cut or bool(_DERIVED.search(name)) or (self._tied and name == _HEAD)

    def whole_shape(self, name: str, shape: Sequence[int]) -> Sequence[int]:
        """Shape of the tensor that holds a parameter of this shape."""
        part = name.rpartition(".")[0].split(".", 2)[-1]
        if not self._family.fused or part not in FUSED_PARTS:
            return shape
        parts = [p for p, theirs in FUSED_PARTS.items() if theirs == FUSED_PARTS[part]]
        return (sum(self._count(p) for p in parts), *shape[1:])

    def _rows(self, part: str) -> slice | None:
        if part not in FUSED_PARTS:
            return None
        start = 0
        for other, theirs in FUSED_PARTS.items():
            if other == part:
                break
            start += self._count(other) if theirs == FUSED_PARTS[part] else 0
        return slice(start, start + self._count(part))

    def _count(self, part: str) -> int:
        args = self._args
        if part.startswith("feed_forward"):
            return args.hidden_dim
        return (args.n_heads if part == "attention.wq" else args.n_kv_heads) * args.head_dim
