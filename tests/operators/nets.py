"""Nets of one operator, or of a few that passes match, and several of them as one module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclass(frozen=True, eq=False)
class Net:
    """A net that is lowered, run and compared.

    Attributes:
      operator: its row in the table: "add", "nn.functional.conv2d", "conv + bn + relu".
      parameters: what tells it from the row's other nets; begins with the type of its inputs.
      function: of tensors, or a module; its tensors are the outputs, however they are nested.
      inputs: of the program; the first of those that it is run with.
      weights: tensors that the program has as constants; `function` takes them after the inputs.
      sizes: as `dynamic_shapes` of the inputs; None: all sizes are those of the inputs.
      more: other inputs that the program is run with: the ends of the ranges in `sizes`.
    """

    operator: str
    parameters: str
    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    weights: tuple[torch.Tensor, ...] = ()
    sizes: tuple[Any, ...] | None = None
    more: tuple[tuple[torch.Tensor, ...], ...] = ()

    @property
    def dtype(self) -> str:
        """Type of its inputs: "float32"."""
        return self.parameters.split()[0].rstrip(":")

    @property
    def name(self) -> str:
        """Operator and parameters."""
        return f"{self.operator}: {self.parameters}"


class Joint(torch.nn.Module):
    """Several nets beside each other, with the inputs and outputs of all."""

    def __init__(self, nets: Sequence[Net]) -> None:
        super().__init__()
        self._functions = [net.function for net in nets]
        self._counts = [len(net.inputs) for net in nets]
        self._weights: list[list[str]] = []
        for number, net in enumerate(nets):
            if isinstance(net.function, torch.nn.Module):
                self.add_module(f"net{number}", net.function)
            names = [f"net{number}_weight{place}" for place in range(len(net.weights))]
            for name, weight in zip(names, net.weights, strict=True):
                self.register_buffer(name, weight.detach().clone())
            self._weights.append(names)
        self.eval()

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs: list[torch.Tensor] = []
        begin = 0
        for function, count, names in zip(
            self._functions, self._counts, self._weights, strict=True
        ):
            weights = [getattr(self, name) for name in names]
            outputs += tensors(function(*inputs[begin : begin + count], *weights))
            begin += count
        return tuple(outputs)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of a function's result."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def described(value: Any) -> str:
    """A value of an operator's arguments in short: shapes of tensors, numbers as they are."""
    if isinstance(value, torch.Tensor):
        return "x".join(map(str, value.shape)) if value.dim() else "scalar"
    if isinstance(value, dict):
        return ", ".join(f"{name}={described(v)}" for name, v in value.items())
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(described, value))}]"
    return str(value).removeprefix("torch.")
