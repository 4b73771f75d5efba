"""Qualified names of weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from etlink.named_data import is_stable

_PARAMETRIZED = re.compile(r"\.parametrizations\.(\w+)\.original(\d*)$")
# Libraries of operators that quantization leaves in a graph.
_QUANTIZED = ("quantized_decomposed", "torchao")


class ModelNames:
    """What to call the weights of a model.

    Args:
      models: its modules or exported programs, as the model's author made them; none: names are
        taken for the author's unless they look like those that export makes up.

    Attributes:
      own: names that the author gave.
    """

    def __init__(self, models: Iterable[Any] = ()) -> None:
        self.own = frozenset(name for model in models for name in _names(model))

    def is_stable(self, name: str) -> bool:
        """Whether a name is the model's own, and not one that export counted up."""
        return name in self.own or is_stable(name)

    def plain(self, name: str) -> str:
        """A weight's name as the eager model has it; different tensors have different ones.

        torchao's quantized parts belong to one weight, whose name the first of them has. The
        tensors of a parametrization that is the model's own keep their names.

        Example:

            plain("fc.parametrizations.weight.original0")    # "fc.weight"
            plain("fc.parametrizations.weight.original1")    # "fc.weight.original1"
        """
        match = _PARAMETRIZED.search(name)
        if not match or (match[2] and name in self.own):
            return name
        weight = f"{name[: match.start()]}.{match[1]}"
        return weight if match[2] in ("", "0") else f"{weight}.original{match[2]}"


def _names(model: Any) -> Iterator[str]:
    import torch

    if isinstance(model, torch.nn.Module):
        yield from (name for name, _ in model.named_parameters(remove_duplicate=False))
        yield from (name for name, _ in model.named_buffers(remove_duplicate=False))
    elif not any(str(n.target).startswith(_QUANTIZED) for n in model.graph.nodes):
        # Export itself makes up names of no parameter and no buffer.
        signature = model.graph_signature
        yield from signature.parameters
        yield from signature.buffers
