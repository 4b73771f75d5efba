"""Checkpoints in GGUF files."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError
from etbuild.errors import listed
from etlower.stored_weights import StoredWeight
from executorch.examples.models.llama.model_args import ModelArgs
from gguf import GGMLQuantizationType
from torchao.quantization import IntxUnpackedToInt8Tensor

from etllm.architecture import Architecture, Layer, Rows8
from etllm.gguf_file import GROUP, GgufFile
from etllm.hf_config import Sizes
from etllm.replacements import FAMILIES
from etllm.rotary import Rotary

EMBEDDING = "token_embd.weight"
HEAD = "output.weight"
# Values of general.architecture, which are those of model_type.
_KINDS = sorted(kind for kind, family in FAMILIES.items() if family.gguf_halves is not None)
# Types whose integers and scales recipes can have.
_BITS = {GGMLQuantizationType.Q4_0: torch.int4, GGMLQuantizationType.Q8_0: torch.int8}
# Parameter of a transformer block to tensor of a GGUF block.
_BLOCK = {
    "attention.wq": "attn_q",
    "attention.wk": "attn_k",
    "attention.wv": "attn_v",
    "attention.wo": "attn_output",
    "attention.q_norm_fn": "attn_q_norm",
    "attention.k_norm_fn": "attn_k_norm",
    "attention_norm": "attn_norm",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
    "ffn_norm": "ffn_norm",
}


def opened(path: Path, sizes: Sizes, label: str) -> dict[str, Any]:
    """Fields of a Checkpoint.

    Args:
      path: the file.
      sizes: what the target asks of the model.
      label: the target, for messages.

    Raises:
      BuildError: the file is damaged, or of a model that isn't supported.
    """
    file = GgufFile(path)
    arch = architecture(file, sizes, label)
    rows8 = Rows8(lambda shape: file.q8(EMBEDDING, shape), GROUP)
    stored8 = file.type_of(EMBEDDING) == GGMLQuantizationType.Q8_0
    return {
        "architecture": arch,
        "weight": lambda name, shape: weight(file, name, shape),
        "check_unused": lambda used: check_unused(file, used, arch.args.n_layers),
        "rows8": rows8 if stored8 else None,
        "stored": lambda name: stored(file, name),
    }


def architecture(file: GgufFile, sizes: Sizes, label: str) -> Architecture:
    """The model that a file's metadata describe.

    Args:
      file: the model.
      sizes: what the target asks of it.
      label: the target, for messages.

    Raises:
      BuildError: another architecture, a feature that the mapping lacks, or more than the file
        has.
    """
    kind = file.value("general.architecture", "nothing")
    if kind not in _KINDS:
        raise BuildError(
            f'{file.path}: general.architecture: got "{kind}", expected one of '
            f"{', '.join(_KINDS)}.",
            f"{label} takes other models as Hugging Face has them: config.json and .safetensors.",
        )
    family = FAMILIES[kind]
    halves = bool(family.gguf_halves)
    dim = file.integer(f"{kind}.embedding_length", minimum=1)
    heads = file.integer(f"{kind}.attention.head_count", minimum=1)
    head_dim = file.integer(f"{kind}.attention.key_length", dim // heads, minimum=1)
    rotated = file.integer(f"{kind}.rope.dimension_count", head_dim)
    scaling, experts = f"{kind}.rope.scaling.type", f"{kind}.expert_count"
    supported = {
        f"{kind}.rope.dimension_count": (rotated, head_dim),
        scaling: (file.value(scaling, "none"), "none"),
        experts: (file.integer(experts, 0), 0),
        "the tensor rope_freqs.weight": ("rope_freqs.weight" in file.names(), False),
    }
    for key, (value, expected) in supported.items():
        if value != expected:
            raise BuildError(
                f'{file.path}: metadata "{key}": got {value!r}, expected {expected!r}.',
                "This kind of model is read as Hugging Face has it: config.json and .safetensors.",
            )
    layers = file.integer(f"{kind}.block_count", minimum=1)
    context = file.integer(f"{kind}.context_length", minimum=1)
    for what, value, most in (
        ("layers", sizes.layers, layers),
        ("export.max_context_length", sizes.context, context),
    ):
        if value > most:
            raise BuildError(f"{label}: {what}: got {value}, expected at most {most}.")
    words = file.count("tokenizer.ggml.tokens")
    theta = file.real(f"{kind}.rope.freq_base", 10000.0)
    args = ModelArgs(
        dim=dim,
        n_layers=sizes.layers or layers,
        n_heads=heads,
        n_kv_heads=file.integer(f"{kind}.attention.head_count_kv", heads, minimum=1),
        head_dim=head_dim,
        hidden_dim=file.integer(f"{kind}.feed_forward_length", minimum=1),
        vocab_size=file.integer(f"{kind}.vocab_size", words, minimum=1),
        norm_eps=file.real(f"{kind}.attention.layer_norm_rms_epsilon"),
        rope_theta=theta,
        max_seq_len=sizes.most,
        max_context_len=sizes.context,
        use_kv_cache=True,
        use_hf_rope=halves,
        attention_qkv_bias=family.qkv_bias,
        use_qk_norm=family.qk_norm,
        qk_norm_before_rope=family.qk_norm,
    )
    # Before anything of these sizes is allocated.
    check_sizes(file, args)
    return Architecture(
        family=kind,
        args=args,
        rotaries=(Rotary(theta),),
        layers=(Layer(),) * args.n_layers,
        depth=layers,
        halves=halves,
        tied=HEAD not in file.names(),
        metadata=special_tokens(file),
    )


def check_sizes(file: GgufFile, args: ModelArgs) -> None:
    """Fails for sizes that the tensors do not have, before anything of that size is allocated."""
    queries, keys = args.n_heads * args.head_dim, args.n_kv_heads * args.head_dim
    first = {
        EMBEDDING: (args.vocab_size, args.dim),
        "blk.0.attn_q.weight": (queries, args.dim),
        "blk.0.attn_k.weight": (keys, args.dim),
        "blk.0.ffn_gate.weight": (args.hidden_dim, args.dim),
    }
    for name, shape in first.items():
        file.check(name, shape)
    last = f"blk.{args.n_layers - 1}.attn_q.weight"
    file.check(last, (queries, args.dim))


def weight(file: GgufFile, name: str, shape: Sequence[int]) -> torch.Tensor:
    """One of the Transformer's parameters, as float32."""
    return file.tensor(tensor_name(name, HEAD not in file.names()), shape)


def stored(file: GgufFile, name: str) -> StoredWeight | None:
    """Integers and scales of one of the Transformer's parameters; None: its type has none."""
    theirs = tensor_name(name, HEAD not in file.names())
    kind = file.type_of(theirs) if theirs in file.names() else None
    if kind not in _BITS:
        return None
    numbers, scales = file.integers(theirs)
    scales = scales.float()
    # XNNPACK takes no scale of 0.
    of_zeros = scales == 0
    numbers.view(*scales.shape, GROUP)[of_zeros] = 0
    scales[of_zeros] = 1
    zeros = torch.zeros_like(scales, dtype=torch.int8)
    weight = IntxUnpackedToInt8Tensor(
        numbers, scales, zeros, _BITS[kind], (1, GROUP), torch.float32, None
    )
    return StoredWeight(weight, f"{file.path.name} ({kind.name})", required=False)


def tensor_name(name: str, tied: bool) -> str:
    """Name in a GGUF file of one of the Transformer's parameters.

    Args:
      name: e.g. "layers.0.attention.wq.weight".
      tied: whether the output has the embedding's weights.
    """
    if name == "tok_embeddings.weight" or (name == "output.weight" and tied):
        return EMBEDDING
    if name == "output.weight":
        return HEAD
    if name == "norm.weight":
        return "output_norm.weight"
    match = re.fullmatch(r"layers\.(\d+)\.(.+)\.(weight|bias)", name)
    return f"blk.{match[1]}.{_BLOCK[match[2]]}.{match[3]}" if match else name


def check_unused(file: GgufFile, used: Collection[str], layers: int) -> None:
    """Raises BuildError where the file has tensors that the model would leave out.

    Args:
      file: the model's.
      used: the Transformer's parameters.
      layers: how many layers it has; what belongs to further ones may be left out.
    """

    def cut(name: str) -> bool:
        match = re.match(r"blk\.(\d+)\.", name)
        return match is not None and int(match[1]) >= layers

    tied = HEAD not in file.names()
    known = {tensor_name(name, tied) for name in used}
    extra = [name for name in file.names() if name not in known and not cut(name)]
    if extra:
        kind = str(file.value("general.architecture", "")).capitalize()
        raise BuildError(
            f"{file.path}: {len(extra)} tensors are not part of a {kind} model: {listed(extra)}.",
            "The model has layers that its kind lacks; its answers would be wrong.",
        )


def special_tokens(file: GgufFile) -> dict[str, int | list[int]]:
    """bos and eos tokens by the names of the metadata methods that runners read."""
    keys = [f"tokenizer.ggml.{kind}_token_id" for kind in ("eos", "eot", "eom")]
    ends = {file.integer(key) for key in keys if file.value(key) is not None}
    start = "tokenizer.ggml.bos_token_id"
    first = {} if file.value(start) is None else {"get_bos_id": file.integer(start)}
    return first | {"get_eos_ids": sorted(ends)}
