"""Families of decoders that differ by weights and configuration only."""

from __future__ import annotations

from dataclasses import dataclass

from etbuild import BuildError

_SUPPORTED_HINT = (
    "Give et_llm other_families = True: transformers' code then makes the model. Or take one of a "
    "supported family."
)


@dataclass(frozen=True)
class Family:
    """The common traits of a family's models that their config.json doesn't say.

    Attributes:
      classes: values of upstream's `base.model_class` that are of this family.
      qkv_bias: whether queries, keys and values have a bias.
      qk_norm: whether queries and keys are normalized before they are turned.
      fused: whether checkpoints hold queries, keys and values in one matrix, and gate and up.
      offset_norm: whether norms multiply by 1 + weight.
      post_norms: whether attention and feed-forward have a norm after them, too.
      scaled_embedding: whether embeddings are multiplied by the root of their width.
    """

    classes: tuple[str, ...] = ()
    qkv_bias: bool = False
    qk_norm: bool = False
    fused: bool = False
    offset_norm: bool = False
    post_norms: bool = False
    scaled_embedding: bool = False


_GEMMA = {"offset_norm": True, "scaled_embedding": True}

# By model_type of config.json.
FAMILIES = {
    "gemma": Family(**_GEMMA),
    "gemma2": Family(post_norms=True, **_GEMMA),
    "gemma3_text": Family(post_norms=True, qk_norm=True, **_GEMMA),
    "granite": Family(),
    "llama": Family(
        ("llama2", "llama3", "llama3_1", "llama3_2", "smollm2", "stories110m"),
    ),
    "mistral": Family(),
    "phi3": Family(("phi_4_mini",), fused=True),
    "qwen2": Family(("qwen2_5_0_5b", "qwen2_5_1_5b", "qwen2_5_coder_32b"), qkv_bias=True),
    "qwen3": Family(("qwen3_0_6b", "qwen3_1_7b", "qwen3_4b"), qk_norm=True),
    "smollm3": Family(),
}

_EXPERTS = "a mixture of experts instead of the feed-forward"
_VISION = "its vision encoder; the text model alone has a model_type of its own"
_NEIGHBORS = "rotary embeddings that turn neighboring elements"
_NO_GATE = "a feed-forward without a gate"
_STATE_SPACE = "layers with a state of their own instead of attention"
# What a known model needs and is not here.
_MISSING = {
    "arcee": _NO_GATE,
    "bamba": _STATE_SPACE,
    "bloom": "ALiBi positions and layer norms",
    "cohere": "layer norms, and attention and feed-forward side by side",
    "cohere2": "layer norms, and attention and feed-forward side by side",
    "deepseek_v2": "multi-head latent attention and " + _EXPERTS,
    "deepseek_v3": "multi-head latent attention and " + _EXPERTS,
    "ernie4_5": _NEIGHBORS,
    "exaone4": "norms after attention and feed-forward without those before them",
    "falcon": "layer norms, and attention and feed-forward side by side",
    "gemma3": _VISION + " (gemma3_text)",
    "gemma3n": "per-layer embeddings and alternating updates",
    "glm": _NEIGHBORS,
    "glm4": _NEIGHBORS,
    "gpt2": "learned positions and layer norms",
    "gpt_neox": "layer norms, and attention and feed-forward side by side",
    "gpt_oss": _EXPERTS + ", and attention sinks",
    "granitemoe": _EXPERTS,
    "helium": _NEIGHBORS,
    "hunyuan_v1_dense": "norms of queries and keys after they are turned",
    "jamba": _STATE_SPACE,
    "lfm2": "short convolutions instead of some attention",
    "llama4": _EXPERTS + ", and " + _VISION,
    "mamba": _STATE_SPACE,
    "mamba2": _STATE_SPACE,
    "mixtral": _EXPERTS,
    "mllama": _VISION,
    "nemotron": "layer norms, and " + _NO_GATE,
    "olmo": "layer norms without weights",
    "olmo2": "norms after attention and feed-forward without those before them",
    "olmo3": "norms after attention and feed-forward without those before them",
    "opt": "learned positions and layer norms",
    "phi": "layer norms, and attention and feed-forward side by side",
    "phimoe": _EXPERTS,
    "qwen2_moe": _EXPERTS,
    "qwen2_vl": _VISION,
    "qwen3_5": _STATE_SPACE,
    "qwen3_moe": _EXPERTS,
    "qwen3_next": _STATE_SPACE + ", and " + _EXPERTS,
    "seed_oss": "biases of queries, keys and values",
    "stablelm": "layer norms",
    "starcoder2": "layer norms, and " + _NO_GATE,
}


def find_family(model_type: str, where: str) -> Family:
    """Finds the family of a `model_type`.

    Args:
      model_type: "qwen3".
      where: file and key that say so, for messages.

    Raises:
      BuildError: it is not supported; the message says what is missing, where that is known.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    missing = _MISSING.get(model_type)
    raise BuildError(
        f'{where}: got "{model_type}", which is not supported'
        + (f": missing is {missing}. " if missing else ". ")
        + f"Supported are {', '.join(sorted(FAMILIES))}.",
        _SUPPORTED_HINT,
    )
