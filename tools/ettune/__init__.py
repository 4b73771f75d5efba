"""Tune recipes: sensitivities of layers, mixtures of recipes, quantization-aware training."""

__all__ = ["qat"]
