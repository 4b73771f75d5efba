"""Writes another adapter: `scaled_adapter FOLDER adapter_config.json adapter_model.safetensors`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import safetensors.torch


def main() -> None:
    """Copies the configuration, and halves the weights of one matrix of each pair."""
    folder, config, weights = map(Path, sys.argv[1:])
    shutil.copyfile(config, folder / config.name)
    tensors = safetensors.torch.load_file(weights)
    halved = {
        name: (tensor / 2).contiguous() if "lora_A" in name else tensor * 1.5
        for name, tensor in tensors.items()
    }
    safetensors.torch.save_file(halved, folder / weights.name)


if __name__ == "__main__":
    main()
