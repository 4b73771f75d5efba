"""Describes what fake tensors stand for, and keeps notes on them that copies don't have."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor


def number(size: Any) -> Any:
    """A size, comparable: an int, or a tuple of the expression of a symbolic one."""
    return size if type(size) is int else (size.node.expr,)


def description(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Describes a tensor's type, its shape and where it lies, comparable.

    Args:
      tensor: a fake one, or one with values.
    """
    strided = tensor.layout is torch.strided
    return (
        tensor.dtype,
        tensor.device,
        tensor.layout,
        tensor.requires_grad,
        tuple(map(number, tensor.shape)),
        tuple(map(number, tensor.stride())) if strided else None,
        number(tensor.storage_offset()) if strided else None,
    )


def learned(value: Any) -> tuple[int, int] | None:
    """Counts how often more became known of symbols like a tensor's; None: it has none.

    A pass may fix a size while it runs, or assert something of it. What was made before then still
    has the symbol, where upstream, which makes it again, has the number.
    """
    if type(value) is not FakeTensor or not value._has_symbolic_sizes_strides:
        return None
    # A pass's own mode may have none, where the symbols are the program's.
    known = value.fake_mode.shape_env or _environment_of(value)
    if known is None:
        return None
    return known._replacements_version_counter, known.num_deferred_runtime_asserts


def _environment_of(value: FakeTensor) -> Any:
    """The environment of the symbols among a tensor's numbers; None: there are none."""
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    return next((n.node.shape_env for n in numbers if isinstance(n, torch.SymInt)), None)


class Note:
    """A value that is kept with a fake tensor; a deep copy of the tensor has none.

    Args:
      name: tells notes apart.

    Example:

        NOTE = Note("origins")
        NOTE.put(tensor, 3)
        NOTE.of(tensor), NOTE.of(copy.deepcopy(tensor))    # 3, None
    """

    def __init__(self, name: str) -> None:
        self._name = f"_etfast_{name}"

    def of(self, tensor: Any) -> Any:
        """The value; None: there is none."""
        known = tensor.__dict__.get(self._name)
        # Copies take attributes over, with the address of what they were copied from.
        return known[1] if known is not None and known[0] == id(tensor) else None

    def put(self, tensor: Any, value: Any) -> None:
        """Keeps a value, instead of the one before."""
        tensor.__dict__[self._name] = (id(tensor), value)
