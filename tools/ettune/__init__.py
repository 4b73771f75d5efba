"""Tune recipes: sensitivities of layers, mixtures of recipes, quantization-aware training."""

# Named, not imported: choosing a mixture needs no torch.
__all__ = ["qat"]  # noqa: F822
