"""Language models as PyTorch modules: checkpoints, configurations, layers, methods."""
