"""A Hugging Face config.json, mapped to upstream's ModelArgs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from executorch.examples.models.llama.model_args import ModelArgs

from etllm.architecture import Architecture, Layer
from etllm.family_defaults import DEFAULTS
from etllm.json_values import MOST_LAYERS, JsonValues
from etllm.replacements import FAMILIES, Family, NotReplaced, has_window, turned
from etllm.rotary import Rotary, longrope_scale

# Names of activations to upstream's.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_approx",
    "silu": "silu",
    "swish": "silu",
}
# Settings that change what a model computes.
_NOT_OWN = ("attention_bias", "mlp_bias", "quantization_config", "use_bidirectional_attention")
_FULL, _SLIDING = "full_attention", "sliding_attention"
# Keys that a class takes though none of its own fields has the name.
_OF_ALL = (
    "head_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_parameters",
    "rope_scaling",
)


@dataclass(frozen=True)
class Sizes:
    """The sizes that a target asks of a model.

    Attributes:
      context: tokens that the KV cache holds.
      most: most tokens of one call.
      layers: how many of the first layers; 0: all.
    """

    context: int
    most: int
    layers: int = 0


def architecture(config: JsonValues, generation: JsonValues | None, sizes: Sizes) -> Architecture:
    """The model that a config.json describes.

    Args:
      config: its values.
      generation: those of generation_config.json, which knows all tokens that end an answer.
      sizes: what the target asks for.

    Raises:
      NotReplaced: et_llm's layers do not have its architecture or one of its features.
      BuildError: a value is missing or makes no sense, or the target asks for more than the model
        has.
    """
    kind = config.text("model_type", "nothing")
    if kind not in FAMILIES:
        raise NotReplaced(config.pair("model_type"))
    family = FAMILIES[kind]
    for key in _NOT_OWN:
        if config.values.get(key) and not _is_of_torchao(config.values[key]):
            raise NotReplaced(config.pair(key))
    config = _completed(config, kind)
    layers, rotaries = _layers(config, family, sizes)
    args = _model_args(config, kind, family, len(layers), sizes)
    args.partial_rotary_factor = rotaries[0].share
    only_here = features_beyond_upstream(args, layers)
    return Architecture(
        family=kind,
        args=args,
        rotaries=rotaries,
        layers=layers,
        depth=config.integer("num_hidden_layers", minimum=1, maximum=MOST_LAYERS),
        halves=True,
        tied=config.flag("tie_word_embeddings", False),
        only_here=only_here,
        metadata=_metadata(config, generation),
    )


def _is_of_torchao(quantization: object) -> bool:
    return isinstance(quantization, dict) and quantization.get("quant_method") == "torchao"


def _completed(config: JsonValues, kind: str) -> JsonValues:
    """The values that transformers takes: those of the file, and a default for what it omits."""
    known, family = DEFAULTS[kind], FAMILIES[kind]
    taken = {*known, *_OF_ALL, *family.keys} - {*family.ignored}
    of_file = {key: value for key, value in config.values.items() if key in taken}
    return JsonValues({**known, **of_file}, config.where)


def _model_args(
    config: JsonValues, kind: str, family: Family, layers: int, sizes: Sizes
) -> ModelArgs:
    width = config.integer("hidden_size", minimum=1)
    heads = config.integer("num_attention_heads", minimum=1)
    kv_heads = config.integer("num_key_value_heads", heads, minimum=1)
    head = config.integer("head_dim", width // heads, minimum=2)
    if heads % kv_heads:
        raise config.error("num_key_value_heads", f"a divisor of num_attention_heads ({heads})")
    if head % 2:
        raise config.error("head_dim", "an even number")
    most = config.integer("max_position_embeddings", minimum=1)
    if sizes.context > most:
        raise config.error(
            "max_position_embeddings",
            f"at least export.max_context_length ({sizes.context}) of the YAML file",
        )
    key = "hidden_activation" if "hidden_activation" in DEFAULTS[kind] else "hidden_act"
    activation = config.text(key)
    activation = family.activations.get(activation, activation)
    if activation not in _ACTIVATIONS:
        raise NotReplaced(config.pair(key))
    query_scale = config.real("query_pre_attn_scalar", float(head))
    multiplier = config.real("attention_multiplier", query_scale**-0.5)
    args = ModelArgs(
        dim=width,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=kv_heads,
        head_dim=head,
        hidden_dim=config.integer("intermediate_size", minimum=1),
        vocab_size=config.integer("vocab_size", minimum=1),
        norm_eps=config.real("rms_norm_eps"),
        max_seq_len=sizes.most,
        max_context_len=sizes.context,
        use_kv_cache=True,
        use_hf_rope=True,
        attention_qkv_bias=family.qkv_bias,
        use_qk_norm=family.qk_norm,
        qk_norm_before_rope=family.qk_norm,
        rms_norm_add_unit_offset=family.offset_norm,
        post_attention_norm=family.post_norms,
        post_ffn_norm=family.post_norms,
        act_fn=_ACTIVATIONS[activation],  # type: ignore[arg-type]
        embedding_scale_factor=config.real(
            "embedding_multiplier", math.sqrt(width) if family.scaled_embedding else 1.0
        ),
        attention_multiplier=None if multiplier == head**-0.5 else multiplier,
        residual_multiplier=_none_if_1(config.real("residual_multiplier", 1.0)),
        logits_scaling=_none_if_1(config.real("logits_scaling", 1.0)),
    )
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if config.given(name):
            setattr(args, name, config.real(name))
    return args


def _none_if_1(value: float) -> float | None:
    return None if value == 1.0 else value


def _layers(
    config: JsonValues, family: Family, sizes: Sizes
) -> tuple[tuple[Layer, ...], tuple[Rotary, ...]]:
    """Returns each layer's own settings, and the rotary embeddings."""
    count = config.integer("num_hidden_layers", minimum=1, maximum=MOST_LAYERS)
    if sizes.layers > count:
        raise config.error("num_hidden_layers", f"at least layers ({sizes.layers}) of the target")
    kinds = _layer_types(config, family, count)
    windows = [0] * count
    if _SLIDING in kinds:
        window = config.integer("sliding_window", minimum=1)
        windows = [window if k == _SLIDING else 0 for k in kinds]
    scaling, rope = config.inner("rope_scaling"), config.inner("rope_parameters")
    if family.window_rotary:
        full = rope.inner(_FULL).values if rope.values else {"rope_type": "default"}
        full, local = {**full, **scaling.values}, rope.inner(_SLIDING)
        theta = config.real("rope_local_base_freq")
        rotaries = (
            _rotary(config, family, JsonValues(full, rope.where), config.real("rope_theta"), sizes),
            _rotary(config, family, local, theta, sizes),
        )
        chosen: list[int | None] = [1 if k == _SLIDING else 0 for k in kinds]
    else:
        # Of two places, transformers reads the older one.
        rope = scaling if scaling.values else rope
        rotaries = (_rotary(config, family, rope, config.real("rope_theta"), sizes),)
        chosen = [0 if is_turned else None for is_turned in turned(config, count)]
    layers = tuple(Layer(r, w) for r, w in zip(chosen, windows, strict=True))
    return layers[: sizes.layers or count], rotaries


def _layer_types(config: JsonValues, family: Family, count: int) -> list[str]:
    if config.given("layer_types"):
        kinds = config.values["layer_types"]
        if not isinstance(kinds, list) or len(kinds) != count:
            raise config.error("layer_types", f"a list of {count} kinds")
        if any(k not in (_FULL, _SLIDING) for k in kinds):
            raise NotReplaced(config.pair("layer_types"))
        if _SLIDING in kinds and "use_sliding_window" in config.values and not has_window(config):
            raise config.error("use_sliding_window", f"true, as layer_types has {_SLIDING}")
        return kinds
    sees_window = family.sees_window
    return [_SLIDING if sees_window and sees_window(config, i) else _FULL for i in range(count)]


def _rotary(
    config: JsonValues, family: Family, rope: JsonValues, theta: float, sizes: Sizes
) -> Rotary:
    """A rotary embedding; `theta` is its base where `rope` has none."""
    key = "rope_type" if rope.given("rope_type") else "type"
    kind = rope.text(key, "default")
    kind = family.rope_types.get(kind, kind)
    for name, value in rope.values.items():
        if isinstance(value, dict):
            raise rope.error(name, "nothing: layers of this family have one rotary embedding")
    theta = rope.real("rope_theta", theta)
    share = rope.real("partial_rotary_factor", config.real("partial_rotary_factor", 1.0))
    if share != 1.0 and not family.partial_rotary:
        where = rope if rope.given("partial_rotary_factor") else config
        raise NotReplaced(where.pair("partial_rotary_factor"))
    heads = config.integer("num_attention_heads", minimum=1)
    head = config.integer("head_dim", config.integer("hidden_size", minimum=1) // heads, minimum=2)
    width = int(head * share)
    if share > 1.0 or width < 2 or width % 2:
        raise config.error("partial_rotary_factor", "a share of each head with an even size")
    pairs = width // 2
    most = config.integer("max_position_embeddings", minimum=1)
    # Of two places, transformers reads the outer one.
    original = "original_max_position_embeddings"
    outer = config if config.given(original) else rope
    if kind == "default":
        return Rotary(theta, share)
    if kind == "linear":
        return Rotary(theta, share, [rope.real("factor")] * pairs)
    if kind == "llama3":
        low, high = rope.real("low_freq_factor"), rope.real("high_freq_factor")
        if low >= high:
            raise rope.error("high_freq_factor", f"more than low_freq_factor ({low:g})")
        length = outer.integer(original, most, minimum=1)
        return Rotary(theta, share, llama3=(rope.real("factor"), low, high, length))
    if kind == "longrope":
        length = outer.integer(original, most, minimum=2)
        if sizes.context > length:
            raise outer.error(
                original,
                f"at least export.max_context_length ({sizes.context}) of the YAML file: beyond "
                "it, longrope turns all tokens by other factors than those in the KV cache",
                f"Set export.max_context_length to {length}.",
            )
        scale = longrope_scale(rope.real("factor", most / length), length)
        scale = rope.real("attention_factor", scale)
        return Rotary(theta, share, rope.reals("short_factor", pairs), scale)
    raise NotReplaced(rope.pair(key))


def features_beyond_upstream(args: ModelArgs, layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """Features that upstream's own Transformer doesn't compute, by names for messages."""
    features = {
        "an activation other than silu": args.act_fn.value != "silu",
        "scaled embeddings": args.embedding_scale_factor != 1.0,
        "norms after attention and feed-forward": args.post_attention_norm,
        "capped scores or logits": bool(
            args.attn_logit_softcapping or args.final_logit_softcapping
        ),
        "scaled scores, residuals or logits": bool(
            args.attention_multiplier or args.residual_multiplier or args.logits_scaling
        ),
        "layers without a rotary embedding": any(layer.rotary is None for layer in layers),
        "layers with different rotary embeddings": any(layer.rotary for layer in layers),
        "sliding windows": any(layer.window for layer in layers),
    }
    return tuple(name for name, is_there in features.items() if is_there)


def _metadata(config: JsonValues, generation: JsonValues | None) -> dict[str, int | list[int]]:
    metadata: dict[str, int | list[int]] = {}
    for source in filter(None, (generation, config)):
        if "get_bos_id" not in metadata and source.given("bos_token_id"):
            metadata["get_bos_id"] = source.integer("bos_token_id")
        if "get_eos_ids" not in metadata and source.given("eos_token_id"):
            ends = source.values["eos_token_id"]
            ends = ends if isinstance(ends, list) else [ends]
            if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in ends):
                raise source.error("eos_token_id", "a token's number, or a list of them")
            metadata["get_eos_ids"] = sorted(set(ends))
    return metadata
