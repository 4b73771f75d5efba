"""Methods that et_exported_program has exported: what belongs to them, and which recipes fit.

Contract: a folder with `model.json` (see `exporting.py`), `tensors.safetensors` with the tensors
that it names, and one .pt2 file a method, two where PT2E needs another graph.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from etlink import json_file
from executorch.export import ExportRecipe
from safetensors.torch import load_file

from etexport import pt2_read, values
from etexport.flags import Request
from etexport.inputs import deep_copy
from etexport.outputs import leaves

LISTING = "model.json"
TENSORS = "tensors.safetensors"

# Modules of the exporter's environment that operators come with, by namespace.
OPERATORS = {
    "llama": "executorch.extension.llm.custom_ops.custom_ops",
    "quantized_decomposed": "torchao.quantization.pt2e.quantize_pt2e",
    "torchao": "torchao",
}

_BUILD_AGAIN = "It is an output of the build: build it again with this version of the rules."


def instead(source: str) -> str:
    """What to do where an exported program doesn't do."""
    return f'Give the program the model itself: model = "{source}".'


@dataclass(frozen=True)
class Exported(Method):
    """A method that was exported before, for recipes to share.

    Attributes:
      source: label of its et_model.
      exported_strict: how; None: the model's own code exported it.
      shapes_kept: whether `dynamic_shapes` are those of the model.
      captured: reads the program as PT2E captures it; None: that export failed.
    """

    source: str = ""
    exported_strict: bool | None = None
    shapes_kept: bool = True
    captured: Callable[[], torch.export.ExportedProgram] | None = None


def read(folder: Path, request: Request) -> ModelSpec:
    """The model in a folder that the command `export` wrote, with the methods that are asked for.

    Raises:
      BuildError: a method isn't there, or its .pt2 file can't be read.
    """
    listing = json_file.read_object(folder / LISTING, "is not an exported model", _BUILD_AGAIN)
    # Copies, which begin at whole cache lines as the model's own tensors do: some processors round
    # the results of other addresses differently.
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / TENSORS).items()}
    for namespace in listing["operators"]:
        importlib.import_module(OPERATORS[namespace])
    known = [method["name"] for method in listing["methods"]]
    check_names(request, known)
    requested = request.methods or known
    programs = _Programs(folder, listing, request)
    methods = {
        method["name"]: _method(method, listing["model"], tensors, programs)
        for method in listing["methods"]
        if method["name"] in requested
    }
    constants = {name: values.value_of(form, tensors) for name, form in listing["constants"]}
    calibration = None
    if listing["calibration"] is not None:
        inputs = values.value_of(listing["calibration"], tensors)

        def calibration() -> Any:
            return inputs

    return ModelSpec(methods, constants, calibration)


def check_names(request: Request, known: Iterable[str]) -> None:
    """Fails for a method that is asked for and isn't there."""
    known = list(known)
    for name in request.methods:
        if name not in known:
            raise BuildError(
                f'{request.label}: the model {request.model_label} has no method "{name}". '
                f"Available: {', '.join(sorted(known))}.",
                "Correct the program's methods attribute.",
            )


def read_program(path: Path, name: str, request: Request, hint: str) -> Any:
    """Reads a method's .pt2 file.

    Raises:
      BuildError: it can't be read.
    """
    try:
        return pt2_read.load(path)
    except MemoryError:
        raise
    except Exception as error:  # torch raises whatever a damaged file leads to.
        text = str(error).strip() or type(error).__name__
        raise BuildError(
            f'{request.model_label}: the exported program for "{name}", {path.name}, cannot '
            f"be read: {text.splitlines()[0].rstrip('.')}.",
            hint,
        ) from error


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


class _Programs:
    """Reads programs, whose tensors share their memory as the model's did."""

    def __init__(self, folder: Path, listing: Mapping[str, Any], request: Request) -> None:
        self._folder = folder
        self._listing = listing
        self._request = request
        self._shared: dict[int, torch.Tensor] = {}

    def load(self, file: str, method: str) -> torch.export.ExportedProgram:
        """Reads the program in a file.

        Raises:
          BuildError: it can't be read.
        """
        try:
            json_file.check_base_name(file, f'it.methods["{method}"]')
        except json_file.FormError as error:
            raise BuildError(f"{self._folder / LISTING}: {error}.", _BUILD_AGAIN) from error
        hint = instead(self._listing["model"])
        program = read_program(self._folder / file, method, self._request, hint)
        pt2_read.substitute(program, self._listing["symbols"].get(file, {}))
        for name, number in self._listing["shared"].get(file, {}).items():
            owner = program.state_dict if name in program.state_dict else program.constants
            owner[name] = self._shared.setdefault(number, owner[name])
        for name in self._listing["detached"].get(file, []):
            owner = program.state_dict if name in program.state_dict else program.constants
            owner[name] = owner[name].detach()
        return program


def _method(
    method: Mapping[str, Any],
    source: str,
    tensors: Mapping[str, torch.Tensor],
    programs: _Programs,
) -> Exported:
    name, file = method["name"], method["captured"]
    program = programs.load(method["program"], name)

    def captured() -> torch.export.ExportedProgram:
        return program if file == method["program"] else programs.load(file, name)

    return Exported(
        module=program,
        example_inputs=inputs_of(program),
        dynamic_shapes=values.shapes_of(method["dynamic_shapes"]),
        strict=method["strict"],
        test_inputs=tuple(values.value_of(method["test_inputs"], tensors)),
        source=source,
        exported_strict=method["exported_strict"],
        shapes_kept=method["shapes_kept"],
        captured=captured if file else None,
    )


def check_recipe(spec: ModelSpec, recipe: ExportRecipe, label: str) -> None:
    """Fails where a recipe would make other programs of exported methods than of the model itself.

    Raises:
      BuildError: with the reason, and the et_model that does.
    """
    for name, method in spec.methods.items():
        problem = _problem(method, recipe) if isinstance(method, Exported) else ""
        if problem:
            raise BuildError(
                f'{label}: the method "{name}" was exported before (et_exported_program), and the '
                f"recipe {problem}.",
                instead(method.source),
            )


def _problem(method: Exported, recipe: ExportRecipe) -> str:
    """What of a recipe doesn't fit; empty: all fits."""
    config, quantization = recipe.executorch_backend_config, recipe.quantization_recipe
    if quantization and quantization.ao_quantization_configs:
        return "quantizes the layers of an eager model (torchao)"
    if getattr(config, "emit_stacktrace", False):
        return "wants stack traces in the program (emit_stacktrace), which were left out"
    if quantization and quantization.quantizers:
        if quantization.is_qat:
            return "trains it (QAT), which takes an export of the model in training mode"
        if method.captured is None:
            return "quantizes it (PT2E), which takes another kind of export that failed"
        if not method.shapes_kept:
            return (
                "quantizes it (PT2E), which takes its dynamic shapes once more; those are given as "
                "more than data and weren't kept"
            )
    elif method.strict is None and method.exported_strict not in (None, recipe.strict):
        return (
            f"wants strict = {recipe.strict} where it was exported with strict = "
            f"{method.exported_strict}; a model that gives its etbuild.Method a strict has that in "
            "all programs"
        )
    return ""
