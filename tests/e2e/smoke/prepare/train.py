"""Trains the classifier on points around ten centres: `train.py OUTPUT`."""

from __future__ import annotations

import sys

import torch
from lib.classifier import CLASSES, FEATURES, Classifier
from safetensors.torch import save_file


def main(output: str) -> None:
    """Writes the weights."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    centres = torch.randn(CLASSES, FEATURES)
    net = Classifier(width=64)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(50):
        labels = torch.randint(CLASSES, (128,))
        points = centres[labels] + 0.5 * torch.randn(128, FEATURES)
        loss = torch.nn.functional.cross_entropy(net(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (net(centres).argmax(1) == torch.arange(CLASSES)).sum()
    assert right == CLASSES, f"{right} of {CLASSES} centres are classified"
    save_file(net.state_dict(), output)


if __name__ == "__main__":
    main(sys.argv[1])
