"""Loads a model: calls its entry point, and checks what comes back."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from etbuild import BuildError, Method, ModelContext, ModelSpec

from etlower import eager
from etlower.flags import MAIN, Request
from etlower.inputs import like_example
from etlower.sources import load

_SPEC_HINT = (
    "Return (module, example_inputs), e.g. (Net().eval(), (torch.zeros(1, 8),)), or an "
    "etbuild.ModelSpec."
)


def load_spec(request: Request) -> ModelSpec:
    """The checked specification of a request's model, with the methods that are asked for.

    Raises:
      BuildError: the entry point is missing or returns something else; a method is missing; an
        input or a weight has a type that programs can't have.
    """
    spec = _normalized(call(request), request)
    return _checked(_ordered(_chosen(spec, request), request), request)


def call(request: Request, attribute: str = "entry_point") -> Any:
    """Calls the function that a request names with the model's arguments and files.

    Args:
      request: the request.
      attribute: the et_model's attribute that names the function, for messages.
    """
    function = load(request.entry_point, request.model_label, attribute)
    # Deterministic where a model's code draws random weights without a seed of its own.
    torch.manual_seed(0)
    try:
        takes_context = bool(inspect.signature(function).parameters)
    except ValueError:
        takes_context = True
    return function(context(request)) if takes_context else function()


def context(request: Request) -> ModelContext:
    """The arguments and files of a request's model."""
    files = {file.removeprefix(MAIN): path for file, path in request.data.items()}
    return ModelContext(request.arguments, files, request.model_label)


def _normalized(returned: Any, request: Request) -> ModelSpec:
    where = f'{request.model_label}: the entry point "{request.entry_point}" returned'
    if isinstance(returned, ModelSpec):
        if not isinstance(returned.methods, Mapping) or not returned.methods:
            raise BuildError(
                f"{where} a ModelSpec without methods.",
                'Give at least one: methods={"forward": Method(module, example_inputs)}.',
            )
        methods = {
            n: _method(m, f'{where} for the method "{n}"') for n, m in returned.methods.items()
        }
        return ModelSpec(methods, dict(returned.constant_methods), returned.calibration)
    if isinstance(returned, Method | torch.export.ExportedProgram):
        return ModelSpec({"forward": _method(returned, where)})
    if isinstance(returned, tuple) and len(returned) == 2:
        return ModelSpec({"forward": _method(Method(*returned), where)})
    raise BuildError(f"{where} {_described(returned)}, expected a ModelSpec or a pair.", _SPEC_HINT)


def _method(value: Any, where: str) -> Method:
    if isinstance(value, torch.export.ExportedProgram):
        value = Method(value)
    if isinstance(value, tuple) and len(value) == 2:
        value = Method(*value)
    if not isinstance(value, Method):
        raise BuildError(f"{where} {_described(value)}, expected an etbuild.Method.", _SPEC_HINT)
    module = value.module
    if isinstance(module, torch.export.ExportedProgram):
        inputs = value.example_inputs
        if inputs is None or (isinstance(inputs, tuple | list) and not inputs):
            inputs = eager.inputs_of(module)
    elif isinstance(module, torch.nn.Module):
        inputs = value.example_inputs
        # A program is for inference: dropout and batch norm must be exported as such.
        module.eval()
        inputs = torch.utils._pytree.tree_map_only(torch.Tensor, as_in_a_program, inputs)
    else:
        raise BuildError(
            f"{where} {_described(module)} as the module, expected a torch.nn.Module.", _SPEC_HINT
        )
    if isinstance(inputs, list):
        inputs = tuple(inputs)
    if not isinstance(inputs, tuple):
        raise BuildError(
            f"{where} {_described(inputs)} as example_inputs, expected a tuple.",
            "A single input is written (x,), with the comma.",
        )
    return Method(module, inputs, value.dynamic_shapes, value.strict, tuple(value.test_inputs))


def as_in_a_program(tensor: torch.Tensor) -> torch.Tensor:
    """An example input in an order of memory that the runtime takes, others it refuses.

    Rows, or four dimensions of which the channels lie last. Where dimensions have one element or
    none, strides may name other orders, which the runtime compares.
    """
    if tensor.layout != torch.strided:
        return tensor
    rows, last = torch.contiguous_format, torch.channels_last
    is_last = not tensor.is_contiguous() and tensor.is_contiguous(memory_format=last)
    order = last if tensor.dim() == 4 and is_last else rows
    if tensor.stride() == torch.empty_like(tensor, device="meta", memory_format=order).stride():
        return tensor
    return tensor.detach().clone(memory_format=order)


def _check_names(request: Request, known: Iterable[str]) -> None:
    """Fails for a method that is asked for and is not in the model."""
    for name in request.methods:
        if name not in known:
            raise BuildError(
                f'{request.label}: the model {request.model_label} has no method "{name}". '
                f"Available: {', '.join(sorted(known))}.",
                "Correct the program's methods attribute.",
            )


def _chosen(spec: ModelSpec, request: Request) -> ModelSpec:
    if not request.methods:
        return spec
    _check_names(request, spec.methods)
    methods = {n: m for n, m in spec.methods.items() if n in request.methods}
    return ModelSpec(methods, spec.constant_methods, spec.calibration)


def _ordered(spec: ModelSpec, request: Request) -> ModelSpec:
    """Test inputs as the example has them: what flattens them later doesn't know their keys."""
    methods = {}
    for name, method in spec.methods.items():
        where = f'{request.model_label}: the method "{name}": test input'
        tests = tuple(
            like_example(
                tuple(inputs) if isinstance(inputs, list) else inputs,
                method.example_inputs,
                f"{where} {number}",
            )
            for number, inputs in enumerate(method.test_inputs)
        )
        methods[name] = dataclasses.replace(method, test_inputs=tests)
    return dataclasses.replace(spec, methods=methods)


def _checked(spec: ModelSpec, request: Request) -> ModelSpec:
    for name, method in spec.methods.items():
        where = f'{request.model_label}: the method "{name}"'
        if not name.isidentifier():
            raise BuildError(f"{where}: its name is not an identifier.")
        for number, value in enumerate(method.example_inputs):
            for tensor in _tensors(value):
                _check_dtype(tensor.dtype, f"{where}: its example input {number}")
        for kind, tensors in _weights(method.module):
            for weight, tensor in tensors:
                _check_dtype(tensor.dtype, f'{where}: the {kind} "{weight}"')
    for name in spec.constant_methods:
        if name in spec.methods:
            raise BuildError(
                f'{request.model_label}: "{name}" is both a method and a constant method.'
            )
    return spec


def _weights(module: Any) -> list[tuple[str, list[tuple[str, torch.Tensor]]]]:
    if isinstance(module, torch.export.ExportedProgram):
        return [("tensor", [(n, t) for n, t in module.state_dict.items()])]
    return [
        ("parameter", list(module.named_parameters())),
        ("buffer", list(module.named_buffers())),
    ]


def _tensors(value: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _check_dtype(dtype: torch.dtype, what: str) -> None:
    from executorch.exir.scalar_type import ScalarType
    from executorch.exir.tensor import scalar_type_enum

    try:
        known = isinstance(scalar_type_enum(dtype), ScalarType)
    except KeyError:
        known = False
    if not known or dtype.is_complex:
        raise BuildError(
            f"{what} has the unsupported dtype {str(dtype).removeprefix('torch.')}: ExecuTorch "
            "programs have no such tensors.",
            "Convert it, e.g. with .to(torch.float32), or view complex numbers as pairs "
            "(torch.view_as_real).",
        )


def _described(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, tuple):
        inner = ", ".join(type(v).__name__ for v in value)
        return f"a tuple of {len(value)} ({inner})"
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")
