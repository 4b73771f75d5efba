"""The architectures whose layers et_llm's replace: the one table of them, by model_type.

`et_llm` builds whatever transformers has a language model for. Where this table has the type that
config.json names, layers of et_llm take the place of transformers', as they are faster
(`//tests/bench:own_layers`). A model that needs more than these layers have keeps those of
transformers, as all others do.

To add an architecture: an entry here, its class's defaults in `family_defaults.py`, and a tiny
checkpoint in `tests/llm/tiny_checkpoint.py`, which tests compare with transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from etbuild import BuildError

from etllm.json_values import JsonValues

# Tells whether a layer, by its number, sees a window only.
SeesWindow = Callable[[JsonValues, int], bool]
_PATTERN, _GEMMA3_PATTERN = "sliding_window_pattern", 6


class NotReplaced(BuildError):
    """A checkpoint needs what et_llm's layers lack, and transformers' modeling code has.

    Args:
      feature: what that is, with file and key: 'config.json: "model_type": "mixtral"'.

    Attributes:
      feature: the same.
    """

    def __init__(self, feature: str) -> None:
        super().__init__(
            f"{feature}: layers of et_llm do not have it.",
            f"Take a checkpoint of one of the families {', '.join(sorted(FAMILIES))}.",
        )
        self.feature = feature


@dataclass(frozen=True)
class Family:
    """The common traits of an architecture's models that their config.json doesn't say.

    Attributes:
      classes: values of upstream's `base.model_class` that are of this family.
      qkv_bias: whether queries, keys and values have a bias.
      qk_norm: whether queries and keys are normalized before they are turned.
      fused: whether checkpoints hold queries, keys and values in one matrix, and gate and up.
      offset_norm: whether norms multiply by 1 + weight.
      post_norms: whether attention and feed-forward have a norm after them, too.
      scaled_embedding: whether embeddings are multiplied by the root of their width.
      partial_rotary: whether a rotary embedding may turn a part of each head.
      window_rotary: whether layers that see a window have a rotary embedding of their own.
      sees_window: which layers do where config.json has no layer_types; None: none.
      rope_types: names of rotary embeddings that mean another one.
      activations: the same of activations.
      keys: of config.json, which the class takes though none of its fields has the name.
      ignored: keys that the class has, and that change nothing in its code.
      gguf_halves: how queries and keys lie in GGUF files: in halves, or (False) in pairs; None:
        such files are not read.
    """

    classes: tuple[str, ...] = ()
    qkv_bias: bool = False
    qk_norm: bool = False
    fused: bool = False
    offset_norm: bool = False
    post_norms: bool = False
    scaled_embedding: bool = False
    partial_rotary: bool = False
    window_rotary: bool = False
    sees_window: SeesWindow | None = None
    rope_types: Mapping[str, str] = field(default_factory=dict)
    activations: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    gguf_halves: bool | None = None


def has_window(config: JsonValues) -> bool:
    """Tells whether some layers may see a window only."""
    is_used = "use_sliding_window" not in config.values or config.flag("use_sliding_window", False)
    return is_used and config.given("sliding_window")


def turned(config: JsonValues, count: int) -> list[bool]:
    """Tells for each of so many layers whether it has a rotary embedding."""
    if "no_rope_layers" not in config.values:
        return [True] * count
    flags = config.values["no_rope_layers"]
    if flags is None:
        step = config.integer("no_rope_layer_interval", minimum=1)
        return [(i + 1) % step != 0 for i in range(count)]
    if not isinstance(flags, list) or len(flags) != count or any(f not in (0, 1) for f in flags):
        raise config.error("no_rope_layers", f"a list of {count} numbers, 1 or 0")
    return [flag == 1 for flag in flags]


def _all(config: JsonValues, _: int) -> bool:
    return has_window(config)


def _even(_: JsonValues, layer: int) -> bool:
    return layer % 2 == 0


def _most(config: JsonValues, layer: int) -> bool:
    return (layer + 1) % config.integer(_PATTERN, _GEMMA3_PATTERN, minimum=1) != 0


def _later(config: JsonValues, layer: int) -> bool:
    return has_window(config) and layer >= config.integer("max_window_layers", 0)


def _not_turned(config: JsonValues, layer: int) -> bool:
    return has_window(config) and not turned(config, config.integer("num_hidden_layers"))[layer]


_GEMMA = {"offset_norm": True, "scaled_embedding": True}

# By model_type of config.json.
FAMILIES = {
    # What its first files mean by the activation's name.
    "gemma": Family(activations={"gelu": "gelu_pytorch_tanh"}, **_GEMMA),
    "gemma2": Family(post_norms=True, sees_window=_even, **_GEMMA),
    "gemma3_text": Family(
        post_norms=True,
        qk_norm=True,
        window_rotary=True,
        sees_window=_most,
        keys=(_PATTERN,),
        ignored=("attn_logit_softcapping",),
        **_GEMMA,
    ),
    "granite": Family(),
    "llama": Family(
        ("llama2", "llama3", "llama3_1", "llama3_2", "smollm2", "stories110m"),
        gguf_halves=False,
    ),
    "mistral": Family(sees_window=_all),
    "phi3": Family(
        ("phi_4_mini",),
        fused=True,
        partial_rotary=True,
        sees_window=_all,
        rope_types={"su": "longrope", "yarn": "longrope"},
    ),
    "qwen2": Family(
        ("qwen2_5_0_5b", "qwen2_5_1_5b", "qwen2_5_coder_32b"),
        qkv_bias=True,
        sees_window=_later,
        gguf_halves=True,
    ),
    "qwen3": Family(
        ("qwen3_0_6b", "qwen3_1_7b", "qwen3_4b"),
        qk_norm=True,
        sees_window=_later,
        gguf_halves=True,
    ),
    "smollm3": Family(sees_window=_not_turned),
}
