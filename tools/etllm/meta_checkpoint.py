"""Checkpoints in Meta's layout, which is upstream's: params.json and one .pth file."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, load_checkpoint
from etbuild.dtypes import FLOATS
from etbuild.errors import listed
from executorch.examples.models.llama.model_args import ModelArgs

from etllm.architecture import Architecture, Layer
from etllm.hf_config import Sizes, features_beyond_upstream
from etllm.json_values import MOST_LAYERS, MOST_WIDTH, JsonValues
from etllm.rotary import Rotary

# What a params.json may say: names of ModelArgs that the layers here compute, by kind of value.
_WHOLE = {
    "dim": MOST_WIDTH,
    "head_dim": MOST_WIDTH,
    "hidden_dim": MOST_WIDTH,
    "multiple_of": MOST_WIDTH,
    "n_heads": MOST_WIDTH,
    "n_kv_heads": MOST_WIDTH,
    "n_layers": MOST_LAYERS,
}
_REAL = (
    "ffn_dim_multiplier",
    "high_freq_factor",
    "norm_eps",
    "partial_rotary_factor",
    "rope_freq_base",
    "rope_scale_factor",
    "rope_theta",
)
_FLAGS = (
    "attention_qkv_bias",
    "qk_norm_before_rope",
    "use_hf_rope",
    "use_qk_norm",
    "use_scaled_rope",
)
_TAKEN = frozenset({*_WHOLE, *_REAL, *_FLAGS, "vocab_size"})
# What says nothing about what a model computes, or is of no use here.
_LEFT_OUT = frozenset({"attention_multiplier", "max_batch_size", "max_seq_len", "max_context_len"})
_DTYPES = tuple(getattr(torch, name) for name in FLOATS.values())
# Llama 3's own: low frequency factor and original context.
_LOW, _CONTEXT = 1.0, 8192
_DERIVED = re.compile(r"(^|\.)rope\.freqs$")


def opened(
    params: tuple[str, Path], files: Mapping[str, Path], sizes: Sizes, label: str
) -> dict[str, Any]:
    """Fields of a Checkpoint.

    Args:
      params: name and path of params.json.
      files: the file of weights by name; several are the shards of a parallel model.
      sizes: what the target asks of the model.
      label: the target, for messages.
    """
    if len(files) != 1:
        raise BuildError(
            f"{label}: checkpoint: got {len(files)} files of weights ({', '.join(files)}) beside "
            f"{params[0]}, expected one.",
            "Merge the shards of a parallel model into one file.",
        )
    name, path = next(iter(files.items()))
    held = load_checkpoint(path)
    held = held.get("model", held) if isinstance(held, dict) else held
    if not isinstance(held, dict) or not all(isinstance(v, torch.Tensor) for v in held.values()):
        raise BuildError(f"{name}: expected a dict of tensors by name.", "Save the state_dict.")
    values = JsonValues.read(params[1], params[0])
    arch = architecture(values, held, sizes)

    def weight(parameter: str, shape: Sequence[int]) -> torch.Tensor:
        source = parameter
        if parameter == "output.weight" and arch.tied:
            source = "tok_embeddings.weight"
        if source not in held:
            raise BuildError(
                f'{name}: expected a tensor "{source}" of shape {tuple(shape)}; there are '
                f"{len(held)} tensors and none of that name.",
                "Take the checkpoint as Meta has it; one of Hugging Face's comes with config.json.",
            )
        value = held[source]
        if value.dtype not in _DTYPES:
            raise BuildError(
                f'{name}: tensor "{source}": got {value.dtype}, expected one of '
                f"{', '.join(map(str, _DTYPES))}: numbers of another type need scales.",
                "Take the checkpoint in floating point: recipes quantize it.",
            )
        if tuple(value.shape) != tuple(shape):
            raise BuildError(
                f'{name}: tensor "{source}": got shape {tuple(value.shape)}, expected '
                f"{tuple(shape)}.",
                f"{params[0]} and the weights belong to different models.",
            )
        return value.to(torch.float32).contiguous()

    def check_unused(used: Collection[str]) -> None:
        def cut(tensor: str) -> bool:
            match = re.match(r"layers\.(\d+)\.", tensor)
            return match is not None and arch.args.n_layers <= int(match[1]) < arch.depth

        extra = [n for n in held if n not in used and not cut(n) and not _DERIVED.search(n)]
        if extra:
            raise BuildError(
                f"{name}: {len(extra)} tensors are not part of the model that {params[0]} "
                f"describes: {listed(sorted(extra))}.",
                "The two files belong to different models, or the model has further features.",
            )

    return {"architecture": arch, "weight": weight, "check_unused": check_unused}


def architecture(
    params: JsonValues, held: Mapping[str, torch.Tensor], sizes: Sizes
) -> Architecture:
    """The model that a params.json describes, with the number of tokens from the weights.

    Raises:
      BuildError: a key is unknown, or its value isn't supported.
    """
    values = {k: v for k, v in params.values.items() if k not in _LEFT_OUT}
    fields = {f.name: f for f in dataclasses.fields(ModelArgs)}
    default = ModelArgs()
    for key, value in values.items():
        if key in _TAKEN:
            continue
        if key not in fields:
            close = difflib.get_close_matches(key, list(_TAKEN), n=1)
            hint = f'Do you mean "{close[0]}"?' if close else "Remove it."
            raise params.error(key, "a key of upstream's ModelArgs", hint)
        if value != getattr(default, key):
            raise params.error(key, f"{getattr(default, key)!r}; nothing else is supported")
    values = {k: v for k, v in values.items() if v is not None}
    for key in ("dim", "n_layers", "n_heads"):
        params.integer(key, minimum=1)
    for key in values:
        if key in _WHOLE:
            params.integer(key, minimum=1, maximum=_WHOLE[key])
        elif key in _REAL:
            params.real(key)
        elif key in _FLAGS:
            params.flag(key, False)
    _check_heads(params)
    layers = params.integer("n_layers", minimum=1)
    if sizes.layers > layers:
        raise params.error("n_layers", f"at least layers ({sizes.layers}) of the target")
    if f"layers.{layers - 1}.attention_norm.weight" not in held:
        count = sum(bool(re.fullmatch(r"layers\.\d+\.attention_norm\.weight", n)) for n in held)
        raise params.error("n_layers", f"the number of layers of the weights, which is {count}")
    embedding = held.get("tok_embeddings.weight")
    words = embedding.shape[0] if embedding is not None else 0
    if values.get("vocab_size", -1) == -1:
        values["vocab_size"] = words
    else:
        params.integer("vocab_size", minimum=1)
    args = ModelArgs(**values)
    args.n_layers = sizes.layers or layers
    args.max_seq_len, args.max_context_len = sizes.most, sizes.context
    args.use_kv_cache = True
    scaled = (float(args.rope_scale_factor), _LOW, float(args.high_freq_factor), _CONTEXT)
    rotary = Rotary(
        args.rope_freq_base,
        args.partial_rotary_factor,
        llama3=scaled if args.use_scaled_rope else None,
    )
    stack = (Layer(),) * args.n_layers
    return Architecture(
        family="llama",
        args=args,
        rotaries=(rotary,),
        layers=stack,
        depth=layers,
        halves=args.use_hf_rope,
        tied="output.weight" not in held,
        only_here=features_beyond_upstream(args, stack),
    )


def _check_heads(params: JsonValues) -> None:
    """Fails for heads whose sizes don't come out even."""
    heads = params.integer("n_heads", minimum=1)
    kv_heads = params.integer("n_kv_heads", heads, minimum=1)
    if heads % kv_heads:
        raise params.error("n_kv_heads", f"a divisor of n_heads ({heads})")
    head = params.integer("head_dim", params.integer("dim", minimum=1) // heads)
    share = params.real("partial_rotary_factor", 1.0)
    if head < 2 or head % 2:
        key = "head_dim" if params.given("head_dim") else "dim"
        raise params.error(key, f"an even size of each of the {heads} heads")
    if share > 1.0 or int(head * share) < 2 or int(head * share) % 2:
        raise params.error("partial_rotary_factor", "a share of each head with an even size")
