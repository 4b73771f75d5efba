"""Greedy answers of the eager language model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from etbuild import ModelContext, Options, RecipeContext
from etllm.entry import build
from torchao.quantization import quantize_
from xnnpack_recipes import int8_dynamic_act_int4_weight

_MOST = 128


class EagerLlama:
    """The model of //models:llama_tiny_model with the recipe's quantized layers, in PyTorch.

    Args:
      gguf: file of the weights.
      recipe_quantizes: whether the layers are those of the 4-bit recipe, or as the file has them.
    """

    def __init__(self, gguf: Path, recipe_quantizes: bool = True) -> None:
        files = {"model.gguf": gguf, "llm.yaml": Path("models/smollm2_tiny.yaml")}
        spec = build(ModelContext({"backends": "xnnpack", "layers": "2"}, files))
        self._model = spec.methods["forward"].module
        if recipe_quantizes:
            recipe = int8_dynamic_act_int4_weight(RecipeContext(Options({})))
            for config in recipe.quantization_recipe.ao_quantization_configs:
                quantize_(self._model, config.ao_base_config, config.filter_fn)

    def below_best(self, prompt: Sequence[int], answer: Sequence[int]) -> list[float]:
        """Computes how far each token's logit is below the largest, in standard deviations.

        0 for all of an answer: it is the answer that the model gives greedily.
        """
        unread, position, below = list(prompt), 0, []
        for token in answer:
            for start in range(0, len(unread), _MOST):
                piece = unread[start : start + _MOST]
                with torch.no_grad():
                    logits = self._model(torch.tensor([piece]), torch.tensor([position]))[0]
                position += len(piece)
            below.append(float((logits.max() - logits[token]) / logits.std()))
            unread = [token]
        return below
