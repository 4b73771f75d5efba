"""A Llama model from a GGUF file, as a program that answers token by token.

The file says everything about the model: sizes, number of layers, rotary base, special tokens.
Its weights go onto ExecuTorch's own Llama classes; how they are quantised for a device is the
recipe's business.

One method, `forward(tokens, input_pos)`, reads a prompt in pieces of up to `prefill` tokens and
then takes one token at a time; the KV cache is the program's own state. With
`methods = "prefill_128,decode"` the same becomes several methods that share weights and cache,
which needs a recipe and a runtime that share mutable buffers between methods.

With `adapter_config.json` and `adapter_model.safetensors` in `data` the model has a LoRA adapter.

Example (BUILD):

    et_model(
        name = "llama",
        srcs = ["llama.py"],
        entry_point = "models.llama:build",
        args = {"max_seq_len": "512", "prefill": "128"},
        data = ["@smollm2//:model.gguf"],
        deps = ["@rules_executorch//tools/decoder"],
    )
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from etbuild import BuildError, ModelContext, ModelSpec, Options
from etdecoder import lora, methods
from etdecoder.gguf_file import GgufFile
from etdecoder.layers import ATTENTION, Int8Embedding, Norm, causal_mask
from executorch.examples.models.llama.llama_transformer import Transformer, construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from gguf import GGMLQuantizationType
from torch import nn

_EMBEDDING = "token_embd.weight"
_HEAD = "output.weight"
# Parameter of a transformer block to tensor of a GGUF block.
_BLOCK = {
    "attention.wq": "attn_q",
    "attention.wk": "attn_k",
    "attention.wv": "attn_v",
    "attention.wo": "attn_output",
    "attention_norm": "attn_norm",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
    "ffn_norm": "ffn_norm",
}


@dataclass(frozen=True)
class Args:
    """The target's `args`, checked.

    Attributes:
      layers: number of layers, counted from the first; 0: all of the file's.
      max_seq_len: tokens that the KV cache holds.
      prefill: most tokens of one call.
      embedding: "auto", "float32" or "int8".
      methods: how many tokens each method reads, by its name.
    """

    layers: int
    max_seq_len: int
    prefill: int
    embedding: str
    methods: Mapping[str, methods.Shape]

    @classmethod
    def of(cls, ctx: ModelContext) -> Args:
        given = Options(ctx.args, ctx.label)
        given.only("embedding", "layers", "max_seq_len", "methods", "prefill")
        context = given.integer("max_seq_len", 512, minimum=2)
        prefill = given.integer("prefill", min(128, context), minimum=2)
        return cls(
            layers=given.integer("layers", 0, minimum=1),
            max_seq_len=context,
            prefill=prefill,
            embedding=given.text("embedding", "auto", ("auto", "float32", "int8")),
            methods=methods.parse(given.text("methods", "forward"), prefill, context, ctx.label),
        )


class CausalLM(nn.Module):
    """Logits of the last of some tokens that continue what the KV cache holds.

    Args:
      transformer: ExecuTorch's Transformer with a KV cache.
    """

    def __init__(self, transformer: Transformer) -> None:
        super().__init__()
        self.transformer = transformer
        columns = torch.arange(transformer.max_context_len, dtype=torch.float32).view(1, -1)
        self.register_buffer("columns", columns, persistent=False)

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        """Reads int64 tokens (1, n) at int64 position input_pos (1,); logits (1, vocabulary)."""
        positions = torch.arange(tokens.shape[1]) + input_pos
        mask = causal_mask(positions, self.columns)
        return self.transformer(tokens, {"input_pos": positions, "mask": mask})


def build(ctx: ModelContext) -> ModelSpec:
    """The entry point of the `et_model`.

    Args:
      ctx: data: "model.gguf", and for an adapter the two files of `etdecoder.lora`. args, all
        optional: `layers` (the first so many; default: all), `max_seq_len` (tokens that a
        conversation may have, which is the size of the KV cache; default 512), `prefill` (tokens
        that one call may read; default 128), `embedding` ("int8", "float32", or "auto": int8 where
        the file stores it so, which loses nothing), `methods` (names with commas, see
        `methods.parse`; default "forward").

    Returns:
      The model with its metadata methods.

    Raises:
      BuildError: a file or an argument is wrong; the message names it.
    """
    args = Args.of(ctx)
    file = GgufFile(ctx.file("model.gguf"))
    params = model_args(file, args, ctx.label)
    model = transformer(file, params, args.embedding)
    # Either file asks for an adapter, so that a forgotten one is an error.
    if {path.rsplit("/", 1)[-1] for path in ctx.files} & {lora.CONFIG, lora.WEIGHTS}:
        paths = ctx.file(lora.CONFIG), ctx.file(lora.WEIGHTS)
        lora.attach(model, lora.load_adapter(*paths, model, file.integer("llama.block_count")))
    made = methods.make(args.methods, CausalLM(model).eval(), params.vocab_size)
    dynamic = any(shape.dynamic for shape in args.methods.values())
    return ModelSpec(made, _metadata(file, params) | {"enable_dynamic_shape": dynamic})


def model_args(file: GgufFile, args: Args, label: str) -> ModelArgs:
    """The configuration that the file's metadata describe, cut to what the target asks for.

    Args:
      file: the model.
      args: the target's arguments.
      label: the target, for messages.

    Returns:
      Arguments of ExecuTorch's Transformer.

    Raises:
      BuildError: another architecture, a feature that the mapping lacks, or an argument that
        exceeds what the file has.
    """
    kind = file.value("general.architecture", "nothing")
    if kind != "llama":
        raise BuildError(
            f'{file.path}: expected general.architecture "llama", found "{kind}".',
            f"{label} takes GGUF files of Llama models only.",
        )
    dim = file.integer("llama.embedding_length", minimum=1)
    heads = file.integer("llama.attention.head_count", minimum=1)
    head_dim = file.integer("llama.attention.key_length", dim // heads, minimum=1)
    rotated = file.integer("llama.rope.dimension_count", head_dim)
    wanted = {
        "llama.rope.dimension_count": (rotated, head_dim),
        "llama.rope.scaling.type": (file.value("llama.rope.scaling.type", "none"), "none"),
        "llama.expert_count": (file.integer("llama.expert_count", 0), 0),
    }
    for key, (found, expected) in wanted.items():
        if found != expected:
            raise BuildError(
                f'{file.path}: metadata "{key}": expected {expected!r}, found {found!r}.',
                "models/llama.py doesn't map this kind of Llama model.",
            )
    layers = file.integer("llama.block_count", minimum=1)
    context = file.integer("llama.context_length", minimum=1)
    for name, given, most in (
        ("layers", args.layers, layers),
        ("max_seq_len", args.max_seq_len, context),
        ("prefill", args.prefill, args.max_seq_len),
    ):
        if given > most:
            raise BuildError(f'{label}: argument "{name}": got {given}, wanted at most {most}.')
    tokens = file.value("tokenizer.ggml.tokens", [])
    words = len(tokens) if isinstance(tokens, list) else 0
    params = ModelArgs(
        dim=dim,
        n_layers=args.layers or layers,
        n_heads=heads,
        n_kv_heads=file.integer("llama.attention.head_count_kv", heads, minimum=1),
        head_dim=head_dim,
        hidden_dim=file.integer("llama.feed_forward_length", minimum=1),
        vocab_size=file.integer("llama.vocab_size", words, minimum=1),
        norm_eps=file.real("llama.attention.layer_norm_rms_epsilon"),
        rope_theta=file.real("llama.rope.freq_base", 10000.0),
        max_seq_len=max(shape.most for shape in args.methods.values()),
        max_context_len=args.max_seq_len,
        use_kv_cache=True,
        attention_type=ATTENTION,
    )
    _check_sizes(file, params)
    return params


def _check_sizes(file: GgufFile, params: ModelArgs) -> None:
    """Fails for metadata that the tensors don't bear out: a model of that size could be of any."""
    queries, keys = params.n_heads * params.head_dim, params.n_kv_heads * params.head_dim
    first = {
        _EMBEDDING: (params.vocab_size, params.dim),
        "blk.0.attn_q.weight": (queries, params.dim),
        "blk.0.attn_k.weight": (keys, params.dim),
        "blk.0.ffn_gate.weight": (params.hidden_dim, params.dim),
    }
    for name, shape in first.items():
        file.check(name, shape)
    last = f"blk.{params.n_layers - 1}.attn_q.weight"
    file.check(last, (queries, params.dim))


def transformer(file: GgufFile, params: ModelArgs, embedding: str = "auto") -> Transformer:
    """ExecuTorch's Transformer with the file's weights.

    Args:
      file: the model.
      params: its configuration, from `model_args`.
      embedding: "int8", "float32" or "auto"; see `build`.

    Returns:
      The module on the CPU, float32.

    Raises:
      BuildError: a tensor is missing, has another shape, or has no place in the model.
    """
    # On "meta" the weights take no memory until the file's are assigned; buffers are on the CPU.
    with torch.device("meta"):
        model = construct_transformer(params)
    _fit_for_delegates(model)
    tied = _HEAD not in file.names()
    names = {name: _gguf_name(name, tied) for name, _ in model.named_parameters()}
    _check_unused(file, set(names.values()), params.n_layers)
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    if embedding == "auto":
        stored = _EMBEDDING in file.names() and file.type_of(_EMBEDDING)
        embedding = "int8" if stored == GGMLQuantizationType.Q8_0 else "float32"
    if embedding == "int8":
        name = "tok_embeddings.weight"
        del names[name]
        model.tok_embeddings = Int8Embedding(*file.q8(_EMBEDDING, shapes[name]))
    weights = {name: file.tensor(source, shapes[name]) for name, source in names.items()}
    model.load_state_dict(weights, strict=False, assign=True)
    return model.requires_grad_(False)


def _fit_for_delegates(model: Transformer) -> None:
    """Puts in the parts of `etdecoder.layers` that go with its attention."""
    model.norm = Norm(model.norm)
    for layer in model.layers:
        layer.attention_norm = Norm(layer.attention_norm)
        layer.ffn_norm = Norm(layer.ffn_norm)
    rope = model.rope
    rope.freqs_cos = rope.freqs_cos.repeat_interleave(2, dim=-1)
    rope.freqs_sin = rope.freqs_sin.repeat_interleave(2, dim=-1)


def _gguf_name(name: str, tied: bool) -> str:
    """Name in a GGUF file of one of the Transformer's parameters."""
    if name == "tok_embeddings.weight" or (name == "output.weight" and tied):
        return _EMBEDDING
    if name == "output.weight":
        return _HEAD
    if name == "norm.weight":
        return "output_norm.weight"
    match = re.fullmatch(r"layers\.(\d+)\.(.+)\.weight", name)
    return f"blk.{match[1]}.{_BLOCK[match[2]]}.weight" if match else name


def _check_unused(file: GgufFile, used: set[str], layers: int) -> None:
    """Raises BuildError where the file has tensors that the model would leave out."""

    def cut(name: str) -> bool:
        match = re.match(r"blk\.(\d+)\.", name)
        return match is not None and int(match[1]) >= layers

    extra = [name for name in file.names() if name not in used and not cut(name)]
    if extra:
        raise BuildError(
            f"{file.path}: {len(extra)} tensors have no place in a Llama model: "
            f"{', '.join(extra[:6])}{' …' if len(extra) > 6 else ''}.",
            "models/llama.py doesn't map this kind of model; its answers would be wrong.",
        )


def _metadata(file: GgufFile, params: ModelArgs) -> dict[str, int | bool | list[int]]:
    """Constant methods by the names that ExecuTorch's LLM runners read."""
    keys = [f"tokenizer.ggml.{kind}_token_id" for kind in ("eos", "eot", "eom")]
    ends = {file.integer(key) for key in keys if file.value(key) is not None}
    start = "tokenizer.ggml.bos_token_id"
    first = {} if file.value(start) is None else {"get_bos_id": file.integer(start)}
    return first | {
        "get_eos_ids": sorted(ends),
        # What one call may read; runners cut a longer prompt to pieces of this size.
        "get_max_seq_len": params.max_seq_len,
        "get_max_context_len": params.max_context_len,
        "get_vocab_size": params.vocab_size,
        "get_n_layers": params.n_layers,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": False,
    }
