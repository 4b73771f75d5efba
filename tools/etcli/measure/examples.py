"""Example inputs of a model, for a process that measures its program."""

from __future__ import annotations

from pathlib import Path

import torch
from etbuild import ModelSpec
from etexport.outputs import leaves


def write(spec: ModelSpec, work: Path) -> Path:
    """Writes the example inputs of each method.

    Args:
      spec: the model.
      work: folder for the file.

    Returns:
      The file: title to method and flat inputs.
    """
    cases = {name: (name, leaves(tuple(m.example_inputs))) for name, m in spec.methods.items()}
    path = work / "examples.pt"
    torch.save(cases, path)
    return path
