"""A Llama model from a GGUF file, as a program that answers token by token.

The file says everything about the model: sizes, number of layers, rotary base, special tokens.
Its weights go onto ExecuTorch's own Llama classes; how they are quantized for a device is the
recipe's business.

One method, `forward(tokens, input_pos)`, reads a prompt in pieces of up to `prefill` tokens and
then takes one token at a time; the KV cache is the program's own state. With
`methods = "prefill_128,decode"` the same becomes several methods that share weights and cache,
which needs a recipe and a runtime that share mutable buffers between methods.

With `adapter_config.json` and `adapter_model.safetensors` in `data` the model has a LoRA adapter.
With both in `adapter`, and `adapter_entry_point = "models.llama:adapter"`, a program with
`adapter_data = "by_name"` takes other values without being lowered again.

Example (BUILD):

    et_model(
        name = "llama",
        srcs = ["llama.py"],
        entry_point = "models.llama:build",
        args = {"max_seq_len": "512", "prefill": "128"},
        data = ["@smollm2//:model.gguf"],
        deps = ["@rules_executorch//tools/etllm"],
    )
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from etbuild import BuildError, ModelContext, ModelSpec, Options
from etllm import decoder, gguf_checkpoint, lora, methods
from etllm.gguf_checkpoint import EMBEDDING
from etllm.gguf_file import GgufFile
from etllm.layers import Int8Embedding
from etllm.rotary import Rotary
from executorch.examples.models.llama.llama_transformer import Transformer
from executorch.examples.models.llama.model_args import ModelArgs
from gguf import GGMLQuantizationType


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


def build(ctx: ModelContext) -> ModelSpec:
    """The entry point of the `et_model`.

    Args:
      ctx: data: "model.gguf", and for an adapter the two files of `etllm.lora`. args, all
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
    if lora.is_given(ctx.files):
        lora.attach(model, lora.of_target(ctx, model, file.integer("llama.block_count")))
    made = methods.make(args.methods, decoder.CausalLM(model).eval(), params.vocab_size)
    dynamic = any(shape.dynamic for shape in args.methods.values())
    return ModelSpec(made, _metadata(file, params) | {"enable_dynamic_shape": dynamic})


def adapter(ctx: ModelContext) -> dict[str, torch.Tensor | None]:
    """The adapter_entry_point of the `et_model`: reads the adapter, and of the model its header.

    Args:
      ctx: as for `build`.

    Returns:
      The adapter's tensors by their names in the module that `build` makes; None for those in
      the file that it does not use.

    Raises:
      BuildError: a file or an argument is wrong; the message names it.
    """
    args = Args.of(ctx)
    file = GgufFile(ctx.file("model.gguf"))
    model = decoder.construct(model_args(file, args, ctx.label))
    found = lora.of_target(ctx, model, file.integer("llama.block_count"))
    return lora.named_tensors(found, "transformer")


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
    params = ModelArgs(
        dim=dim,
        n_layers=args.layers or layers,
        n_heads=heads,
        n_kv_heads=file.integer("llama.attention.head_count_kv", heads, minimum=1),
        head_dim=head_dim,
        hidden_dim=file.integer("llama.feed_forward_length", minimum=1),
        vocab_size=file.integer("llama.vocab_size", file.count("tokenizer.ggml.tokens"), minimum=1),
        norm_eps=file.real("llama.attention.layer_norm_rms_epsilon"),
        rope_theta=file.real("llama.rope.freq_base", 10000.0),
        max_seq_len=max(shape.most for shape in args.methods.values()),
        max_context_len=args.max_seq_len,
        use_kv_cache=True,
    )
    gguf_checkpoint.check_sizes(file, params)
    return params


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
    model = decoder.construct(params)
    cos, sin = Rotary(params.rope_freq_base).tables(params.head_dim, params.max_context_len, False)
    model.rope.freqs_cos, model.rope.freqs_sin = cos, sin
    names = [name for name, _ in model.named_parameters()]
    gguf_checkpoint.check_unused(file, names, params.n_layers)
    if embedding == "auto":
        stored = EMBEDDING in file.names() and file.type_of(EMBEDDING)
        embedding = "int8" if stored == GGMLQuantizationType.Q8_0 else "float32"
    make = None
    if embedding == "int8":

        def make(shape: Sequence[int]) -> Int8Embedding:
            return Int8Embedding(*file.q8(EMBEDDING, shape))

    return decoder.assign(model, lambda *which: gguf_checkpoint.weight(file, *which), make)


def _metadata(file: GgufFile, params: ModelArgs) -> dict[str, int | bool | list[int]]:
    """Constant methods by the names that ExecuTorch's LLM runners read."""
    return gguf_checkpoint.special_tokens(file) | {
        # What one call may read; runners cut a longer prompt to pieces of this size.
        "get_max_seq_len": params.max_seq_len,
        "get_max_context_len": params.max_context_len,
        "get_vocab_size": params.vocab_size,
        "get_n_layers": params.n_layers,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": False,
    }
