"""Language models as PyTorch modules: checkpoints, configurations, layers and methods of decoders."""
