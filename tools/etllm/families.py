"""Families of decoders that the own layers make: they differ by weights and configuration only."""

from __future__ import annotations

from dataclasses import dataclass

from etbuild import BuildError


class NoOwnLayers(BuildError):
    """The own layers lack what a checkpoint needs; transformers' modeling code has it.

    Args:
      feature: what that is, with file and key: 'config.json: "model_type": "mixtral"'.

    Attributes:
      feature: the same.
    """

    def __init__(self, feature: str) -> None:
        super().__init__(
            f"{feature}: et_llm's own layers do not have it.",
            f"Take a checkpoint of one of the families {', '.join(sorted(FAMILIES))}.",
        )
        self.feature = feature


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
