"""Eager runs of methods, which are modules or exported programs, for comparison with a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from etlower.inputs import deep_copy
from etlower.outputs import leaves


def inputs_of(program: torch.export.ExportedProgram) -> tuple[Any, ...]:
    """The example inputs that an exported program has."""
    if program.example_inputs is None:
        return ()
    positional, named = program.example_inputs
    return (*positional, *named.values())


def eager(module: Any) -> Any:
    """A method's module as code that takes the inputs of `inputs_of` and runs in Python."""
    if not isinstance(module, torch.export.ExportedProgram):
        return module
    positional, named = module.example_inputs or ((), {})
    return _Positional(module.module(), len(positional), list(named)) if named else module.module()


def eager_outputs(module: Any, inputs: Sequence[Any]) -> list[Any]:
    """The tensors and numbers that a method's module returns, flat.

    It runs on copies, so that a state such as a KV cache stays as it was, and is the same for each
    input.

    Args:
      module: as for `eager`.
      inputs: positional arguments.
    """
    with torch.no_grad():
        return leaves(with_own_state(eager(module))(*deep_copy(tuple(inputs))))


def with_own_state(module: torch.nn.Module) -> torch.nn.Module:
    """A copy of a module that shares its weights, which don't change; all else may be state."""
    return deep_copy(module, {id(parameter): parameter for parameter in module.parameters()})


class _Positional(torch.nn.Module):
    """Names the last inputs of a module that was exported with keywords."""

    def __init__(self, module: torch.nn.Module, count: int, names: list[str]) -> None:
        super().__init__()
        self._module, self._count, self._names = module, count, names

    def forward(self, *inputs: Any) -> Any:
        named = zip(self._names, inputs[self._count :], strict=True)
        return self._module(*inputs[: self._count], **dict(named))
