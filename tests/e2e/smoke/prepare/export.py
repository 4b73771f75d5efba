"""Exports the trained classifier for any batch size: `export.py WEIGHTS OUTPUT`."""

from __future__ import annotations

import sys

import torch
from lib.classifier import FEATURES, Classifier
from safetensors.torch import load_file


def main(weights: str, output: str) -> None:
    """Writes the .pt2."""
    net = Classifier(width=64).eval()
    net.load_state_dict(load_file(weights))
    shapes = {"x": {0: torch.export.Dim("batch", min=1, max=64)}}
    program = torch.export.export(net, (torch.ones(4, FEATURES),), dynamic_shapes=shapes)
    torch.export.save(program, output)


if __name__ == "__main__":
    main(*sys.argv[1:])
