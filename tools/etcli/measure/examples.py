"""Example inputs of a model, for a process that measures its program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from etcli.measure import eager
from etcli.measure.target import Target


def write(given: Target, work: Path) -> Path:
    """Writes the example inputs of each method.

    Args:
      given: the target.
      work: folder for the file.

    Returns:
      The file: title to method and flat inputs.
    """
    spec = eager.load(given, work)
    cases: dict[str, tuple[str, list[Any]]] = {}
    for name, method in spec.methods.items():
        cases[name] = (name, torch.utils._pytree.tree_leaves(tuple(method.example_inputs)))
    path = work / "examples.pt"
    torch.save(cases, path)
    return path
