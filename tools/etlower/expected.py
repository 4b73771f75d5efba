"""Inputs and outputs of the eager model's methods, as one file (`.safetensors`).

The action EtExpect writes it once for a model. All tests of the model's programs read it, and
bundled programs get their test cases from it. It depends on the model and its inputs alone: a
recipe, a program or a tolerance in it would make each test run the eager model again.

Contract: the tensors are named `<method>/<number>/input_<position>` and `…/output_<position>`; a
number of Python is a tensor without dimensions (int64, float64 or bool), so that the C++ runner
reads all inputs by name. The file's note is JSON: `{"format": 1, "cases": […]}`, where a case has
`method`, `number`, `constant`, and for each value of `inputs` and `outputs` its `kind`: "tensor"
(with `order`, where the tensor does not lie row by row), "int", "float", "bool", "none", or "text"
(with `text`). Values are flat, in the order of a program's inputs and outputs. Where a call changes
the model's state, the method is called three times in a row on each input: those cases have
`calls`, 2 and 3, and outputs named `<method>/<number>/call_<calls>/output_<position>`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from etbuild.errors import BuildError

from etlower import arrays
from etlower.arrays import Array

if TYPE_CHECKING:
    from etbuild import ModelSpec

_FORMAT = 1
_NUMBERS = {bool: ("bool", "|b1"), int: ("int64", "<i8"), float: ("float64", "<f8")}


@dataclass(frozen=True)
class Case:
    """One call of a method.

    Attributes:
      method: its name.
      number: of the call, among the method's: 0 has the example inputs.
      constant: whether it is a constant method, which returns the same without inputs.
      inputs: flat: `Array`s, numbers, None and texts.
      outputs: of the eager model, flat.
      calls: how often the method is called in a row, on the same inputs; the outputs are the last
        call's.
    """

    method: str
    number: int
    constant: bool
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    calls: int = 1

    def where(self) -> str:
        """The call, for messages."""
        call = f", call {self.calls} in a row" if self.calls > 1 else ""
        return f'method "{self.method}", input {self.number}{call}'


def of_model(spec: ModelSpec) -> Iterator[Case]:
    """Runs the eager model: every method on its example and test inputs, then constant methods.

    Raises:
      BuildError: a method takes or returns what no program has.
    """
    from etlower import state
    from etlower.eager import eager
    from etlower.outputs import leaves

    for name, method in spec.methods.items():
        module = eager(method.module)
        for number, inputs in enumerate((method.example_inputs, *method.test_inputs)):
            where = f'method "{name}", input {number}'
            given = plain(leaves(inputs), where)
            run = state.Run(module)
            case = Case(name, number, False, given, plain(run(inputs), where))
            yield case
            if state.changed(module, run.module):
                for calls in (2, 3):
                    outputs = plain(run(inputs), where)
                    yield dataclasses.replace(case, outputs=outputs, calls=calls)
    for name, value in spec.constant_methods.items():
        where = f'constant method "{name}"'
        yield Case(name, 0, True, (), plain(leaves(value), where))


def chosen(cases: Sequence[Case], methods: Sequence[str]) -> list[Case]:
    """The cases of some methods, and of all constant ones; no methods: all cases."""
    return [c for c in cases if not methods or c.constant or c.method in methods]


def plain(values: Sequence[Any], where: str) -> tuple[Any, ...]:
    """Values with an `Array` for each tensor of torch.

    Args:
      values: flat inputs or outputs.
      where: what they are, for messages.

    Raises:
      BuildError: a value is of another kind than programs have.
    """
    return tuple(_plain_value(value, where) for value in values)


def _plain_value(value: Any, where: str) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        try:
            return arrays.of_torch(value)
        except BuildError as error:
            raise BuildError(f"{where}: {error.what}", error.hint) from error
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise BuildError(
        f"{where}: got a {type(value).__name__}, expected tensors, numbers and texts, which "
        "programs take and return.",
        "Return tensors from the model's forward.",
    )


def write(path: Path, cases: Sequence[Case]) -> None:
    """Writes a file: the same bytes for the same cases."""
    tensors: dict[str, Array] = {}

    def forms(case: Case, kind: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            _form(tensors, _name(case, kind, position), value)
            for position, value in enumerate(values)
        ]

    listing = [
        {
            "method": case.method,
            "number": case.number,
            "constant": case.constant,
            "inputs": forms(case, "input", case.inputs),
            "outputs": forms(case, "output", case.outputs),
            **({"calls": case.calls} if case.calls > 1 else {}),
        }
        for case in cases
    ]
    note = json.dumps({"format": _FORMAT, "cases": listing}, sort_keys=True)
    arrays.write(path, tensors, note)


def read(path: Path) -> list[Case]:
    """Reads a file.

    Raises:
      BuildError: it is missing, cut off or damaged, or another version wrote it.
    """
    tensors, note = arrays.read(path)
    try:
        listing = json.loads(note)
        if listing["format"] != _FORMAT:
            raise ValueError(f"got format {listing['format']}, expected {_FORMAT}")
        return [_case(form, tensors) for form in listing["cases"]]
    except (ValueError, LookupError, TypeError) as error:
        raise BuildError(
            f"{path} does not say what the eager model gives: {type(error).__name__}: {error}.",
            "It is an output of the build: build it again with this version of the rules.",
        ) from error


def _case(form: Mapping[str, Any], tensors: Mapping[str, Array]) -> Case:
    calls = form.get("calls", 1)
    case = Case(form["method"], form["number"], form["constant"], (), (), calls)

    def values(kind: str) -> tuple[Any, ...]:
        return tuple(
            _value(value, tensors, _name(case, kind, position))
            for position, value in enumerate(form[f"{kind}s"])
        )

    return dataclasses.replace(case, inputs=values("input"), outputs=values("output"))


def _name(case: Case, kind: str, position: int) -> str:
    call = f"call_{case.calls}/" if case.calls > 1 and kind == "output" else ""
    return f"{case.method}/{case.number}/{call}{kind}_{position}"


def _form(tensors: dict[str, Array], name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {"kind": "none"}
    if isinstance(value, str):
        return {"kind": "text", "text": value}
    if isinstance(value, Array):
        tensors[name] = value
        return {"kind": "tensor"} | ({"order": value.order} if value.order else {})
    dtype, held = _NUMBERS[type(value)]
    tensors[name] = Array(dtype, np.array(value, held))
    return {"kind": type(value).__name__}


def _value(form: Mapping[str, Any], tensors: Mapping[str, Array], name: str) -> Any:
    kind = form["kind"]
    if kind in ("none", "text"):
        return form.get("text")
    if kind == "tensor":
        array = tensors[name]
        return Array(array.dtype, array.data, tuple(form.get("order", ())))
    return tensors[name].item()
