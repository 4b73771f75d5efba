"""The command `export`: a model's methods, exported once for many recipes.

`model.json`:

- `model`: label of the et_model
- `operators`: namespaces that are not torch's own
- `methods`: list of `name`, `program` (file), `captured` (the file that PT2E takes, often the same;
  null: it can't be exported so), `strict` (what the model says), `exported_strict`,
  `dynamic_shapes`, `shapes_kept`, `test_inputs`
- `constants`: list of name and value
- `calibration`: inputs, or null
- `shared`: by file the tensors that have the memory of others, by name: a number for each memory
- `detached`: by file the tensors without gradients that have the memory of others with them
- `symbols`: by file, symbols of sizes to the expressions that stand for them

Values and shapes have the forms of `values.py`.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from etbuild.zip_check import ArchiveError
from executorch.export import ExportRecipe
from safetensors.torch import save
from torch._export.serde.serialize import SerializeError
from torch.export import ExportedProgram

from etexport import pt2_check, pt2_write, values
from etexport.calibration import of_model
from etexport.exported import LISTING, OPERATORS, TENSORS, instead
from etexport.flags import Request
from etexport.methods import export_module
from etexport.progress import Progress
from etexport.quantize import capture


def write(request: Request, spec: ModelSpec, progress: Progress) -> None:
    """Exports all methods and writes a folder that `exported.read` reads.

    Raises:
      BuildError: a method can't be exported, or has what a file can't keep.
    """
    request.output.mkdir(parents=True, exist_ok=True)
    writer = _Writer(request, progress)
    with progress.stage("calibration"):
        # Before anything else: random inputs must be those that a lowering would draw.
        calibration = writer.calibration(spec)
    listing = {
        "model": request.model_label,
        "methods": [writer.method(name, method) for name, method in spec.methods.items()],
        "constants": [
            [name, writer.form(value, f'the constant method "{name}"')]
            for name, value in spec.constant_methods.items()
        ],
        "calibration": calibration,
        "operators": sorted(writer.operators),
        "shared": writer.shared.listed(),
        "detached": {file: names for file, names in sorted(writer.detached.items()) if names},
        "symbols": {file: of_file for file, of_file in sorted(writer.symbols.items()) if of_file},
    }
    text = json.dumps(listing, indent=1) + "\n"
    (request.output / LISTING).write_text(text, encoding="utf-8")
    (request.output / TENSORS).write_bytes(save(writer.tensors.by_name))


class _Writer:
    """Writes the files of one model.

    Attributes:
      tensors: that values have.
      operators: namespaces of operators that are not torch's own.
      shared: the memory of weights and buffers.
      detached: by file the tensors without gradients in the memory of others with them.
      symbols: by file the expressions that stand for symbols of sizes.
    """

    def __init__(self, request: Request, progress: Progress) -> None:
        self.tensors = values.Tensors()
        self.operators: set[str] = set()
        self.shared = _Shared()
        self.detached: dict[str, list[str]] = {}
        self.symbols: dict[str, dict[str, str]] = {}
        self._request = request
        self._progress = progress
        self._label = request.model_label

    def form(self, value: Any, what: str) -> Any:
        """A value's form.

        Raises:
          BuildError: it has none.
        """
        try:
            return self.tensors.value(value)
        except values.UnknownKind as error:
            raise BuildError(
                f"{self._label}: {what} has a {error}, which cannot be saved with an exported "
                "program: numbers, strings, tensors, and lists, tuples and dicts of them can be.",
                instead(self._label),
            ) from None

    def calibration(self, spec: ModelSpec) -> Any:
        """The form of the model's calibration inputs; None: it has no function for them."""
        if spec.calibration is None:
            return None
        return self.form(of_model(spec, self._label), "a calibration input")

    def method(self, name: str, method: Method) -> dict[str, Any]:
        """Exports a method and writes its programs; returns what the listing says of it."""
        strict: bool | None = None
        captured: ExportedProgram | None
        if isinstance(method.module, ExportedProgram):
            program = captured = method.module
        else:
            strict = ExportRecipe().strict if method.strict is None else method.strict
            with self._progress.stage("export"), torch.no_grad():
                program = export_module(name, method.module, method, strict, self._label)
            with self._progress.stage("capture"):
                captured = self._captured(name, method)
        file = self._save(program, f"{name}.pt2")
        captured_file = None
        if captured is not None:
            pt2_write.neutral(captured)
            # Mostly one graph: two only where a model does other things with gradients.
            same = captured is program or pt2_write.same_graph(captured, program)
            captured_file = file if same else self._save(captured, f"{name}.captured.pt2")
        shapes, kept = _shapes(method.dynamic_shapes)
        return {
            "name": name,
            "program": file,
            "captured": captured_file,
            "strict": method.strict,
            "exported_strict": strict,
            "dynamic_shapes": shapes,
            "shapes_kept": kept,
            "test_inputs": self.form(
                list(method.test_inputs), f'a test input of the method "{name}"'
            ),
        }

    def _captured(self, name: str, method: Method) -> ExportedProgram | None:
        try:
            return capture(name, method.module, method, self._label)
        except MemoryError:
            raise
        except Exception:
            # Other recipes don't need it; those that do say so.
            return None

    def _save(self, program: ExportedProgram, file: str) -> str:
        what = f'{self._label}: the exported program of the method "{file.partition(".")[0]}"'
        pt2_write.neutral(program)
        for operator in pt2_write.foreign_operators(program):
            namespace = operator.partition("::")[0]
            if namespace not in OPERATORS:
                raise BuildError(
                    f"{what} calls the operator {operator}, which Python code registers; a file "
                    "keeps no code.",
                    instead(self._label),
                )
            self.operators.add(namespace)
        self.shared.add(file, program)
        self.detached[file] = pt2_write.detached(program)
        path = self._request.output / file
        with self._progress.stage("write"):
            try:
                self.symbols[file] = pt2_write.save(program, path)
                pt2_check.check_archive(path)
            except (ArchiveError, SerializeError) as error:
                raise BuildError(
                    f"{what} cannot be saved in a .pt2 file: {error}.", instead(self._label)
                ) from error
        return file


class _Shared:
    """Which tensors have one memory: what calibration changes is changed for all methods."""

    def __init__(self) -> None:
        self._users: dict[tuple[Any, ...], list[tuple[str, str]]] = {}
        self._kept: list[ExportedProgram] = []

    def add(self, file: str, program: ExportedProgram) -> None:
        """Looks at the tensors of a program."""
        # Kept, so that nothing else gets their memory.
        self._kept.append(program)
        for name, tensor in [*program.state_dict.items(), *program.constants.items()]:
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                form = (tensor.dtype, tensor.size(), tensor.stride(), type(tensor))
                memory = (tensor.data_ptr(), *form)
                self._users.setdefault(memory, []).append((file, name))

    def listed(self) -> dict[str, dict[str, int]]:
        """By file and name a number for each memory that several tensors have."""
        numbers: dict[str, dict[str, int]] = {}
        several = [users for users in self._users.values() if len(users) > 1]
        for number, users in enumerate(several):
            for file, name in users:
                numbers.setdefault(file, {})[name] = number
        return numbers


def _shapes(shapes: Any) -> tuple[Any, bool]:
    """The form of dynamic shapes, and whether they have one."""
    try:
        return values.shapes_form(shapes), True
    except values.UnknownKind:
        return None, False
