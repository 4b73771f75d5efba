"""The result of an entry point: methods, their example inputs, metadata, calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Method:
    """One method of a program.

    Attributes:
      module: the eager module whose `forward` becomes the method, or a
        `torch.export.ExportedProgram`. To export another function of a module, wrap it in a module.
      example_inputs: the positional arguments that it is exported with, a tuple.
      dynamic_shapes: as in `torch.export.export`: a dict by argument name, or a tuple; None: all
        shapes are those of the example.
      strict: as in `torch.export.export`; None: what the recipe says.
      test_inputs: more input tuples that `et_program_test` and bundled programs run.
    """

    module: torch.nn.Module | torch.export.ExportedProgram
    example_inputs: tuple[Any, ...] = ()
    dynamic_shapes: Mapping[str, Any] | tuple[Any, ...] | None = None
    strict: bool | None = None
    test_inputs: Sequence[tuple[Any, ...]] = ()


@dataclass(frozen=True)
class ModelSpec:
    """A model: one or several methods over the same weights.

    Attributes:
      methods: methods by name ("forward", or "prefill" and "decode").
      constant_methods: metadata methods of the program by name: int, float, bool, str, list of
        them, or tensor.
      calibration: a function that returns input tuples for static quantization: for a model with
        one method an iterable of tuples; for several, a dict of them by method name. None: the
        example inputs.
      notes: sentences on how the model was made, for the report.
    """

    methods: Mapping[str, Method]
    constant_methods: Mapping[str, Any] = field(default_factory=dict)
    calibration: (
        Callable[[], Iterable[tuple[Any, ...]] | Mapping[str, Iterable[tuple[Any, ...]]]] | None
    ) = None
    notes: tuple[str, ...] = ()
