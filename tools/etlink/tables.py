"""Reads a program's tables: sizes of constants, methods, operators, backends."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

from etbuild.dtypes import DTYPES

from etlink import schema

# scalar_type.fbs: number to name and bytes an element; sub-byte types do not occur in programs.
SCALAR_TYPES = {d.scalar_type: (d.name, d.size) for d in DTYPES if d.scalar_type is not None}

# The runtime's kTensorDimensionLimit.
MAX_DIMENSIONS = 16


def text(value: Any) -> str:
    """A string of a flatbuffer."""
    return value.decode() if isinstance(value, bytes) else (value or "")


def tensors(program: Any) -> Iterator[tuple[int, int, Any]]:
    """(plan, value, TensorT) of every tensor in a program."""
    tensor_type = schema.program_class("KernelTypes").Tensor
    for plan_number, plan in enumerate(program.executionPlan):
        for number, value in enumerate(plan.values or []):
            if value.valType == tensor_type:
                yield plan_number, number, value.val


def outputs_of(program: Any) -> set[tuple[int, int]]:
    """(plan, value) of every output of a program."""
    return {(n, v) for n, plan in enumerate(program.executionPlan) for v in ints(plan.outputs)}


def inline_payloads(program: Any) -> dict[str, bytes]:
    """The payloads of delegates that lie in a program's tables, by sha256."""
    items = program.backendDelegateData or []
    return {payload_digest(item): bytes(item.data or b"") for item in items}


def payload_digest(item: Any) -> str:
    """The sha256 of a BackendDelegateInlineDataT, hex."""
    return hashlib.sha256(bytes(item.data or b"")).hexdigest()


def tensor_bytes(tensor: Any) -> int:
    """Bytes of a tensor's elements."""
    _, width = SCALAR_TYPES[int(tensor.scalarType)]
    return width * math.prod(int(n) for n in tensor.sizes)


def is_constant(tensor: Any) -> bool:
    """Tells whether a tensor's bytes lie in the constant segment."""
    return tensor.dataBufferIdx > 0 and tensor.allocationInfo is None and not is_external(tensor)


def is_external(tensor: Any) -> bool:
    """Tells whether a tensor is loaded by name from a data file."""
    external = schema.program_class("TensorDataLocation").EXTERNAL
    info = tensor.extraTensorInfo
    return info is not None and info.location == external


def constant_sizes(program: Any) -> dict[int, int]:
    """Bytes by constant, as the tensors that refer to it use them; 0 is a placeholder."""
    sizes = {0: 0}
    for _, _, tensor in tensors(program):
        if is_constant(tensor):
            sizes[tensor.dataBufferIdx] = max(
                sizes.get(tensor.dataBufferIdx, 0), tensor_bytes(tensor)
            )
    return sizes


def describe_methods(program: Any) -> Iterator[dict[str, Any]]:
    """Per method: name, inputs, outputs, backends, operators; all of it sorted or in call order."""
    for plan in program.executionPlan:
        yield {
            "name": text(plan.name),
            "inputs": [_describe(plan.values[i]) for i in ints(plan.inputs)],
            "outputs": [_describe(plan.values[i]) for i in ints(plan.outputs)],
            "backends": sorted({text(d.id) for d in plan.delegates or []}),
            "delegates": len(plan.delegates or []),
            "operators": sorted({_operator(o) for o in plan.operators or []}),
            "instructions": sum(len(c.instructions or []) for c in plan.chains or []),
            "memory": ints(plan.nonConstBufferSizes),
        }


def calls_of(program: Any, method: str) -> tuple[dict[int, str], dict[int, str]]:
    """The backends and the operators that a method calls, each by number of the instruction."""
    kinds = schema.program_class("InstructionArguments")
    backends, operators = {}, {}
    for plan in program.executionPlan:
        if text(plan.name) != method:
            continue
        for chain in plan.chains or []:
            for number, instruction in enumerate(chain.instructions or []):
                if instruction.instrArgsType == kinds.DelegateCall:
                    index = instruction.instrArgs.delegateIndex
                    backends[number] = text(plan.delegates[index].id)
                elif instruction.instrArgsType == kinds.KernelCall:
                    operators[number] = _operator(plan.operators[instruction.instrArgs.opIndex])
    return backends, operators


def ints(values: Any) -> list[int]:
    """A vector of a flatbuffer; an absent one is empty."""
    return [] if values is None else [int(v) for v in values]


def _operator(operator: Any) -> str:
    name, overload = text(operator.name), text(operator.overload)
    return f"{name}.{overload}" if overload else name


def _describe(value: Any) -> dict[str, Any]:
    kinds = schema.program_class("KernelTypes")
    if value.valType != kinds.Tensor:
        names = {v: k for k, v in vars(kinds).items() if isinstance(v, int)}
        return {"kind": names.get(value.valType, "unknown").lower()}
    tensor = value.val
    dynamism = {0: "static", 1: "bounded", 2: "unbounded"}
    return {
        "kind": "tensor",
        "dtype": SCALAR_TYPES.get(int(tensor.scalarType), (f"type {tensor.scalarType}", 0))[0],
        "shape": ints(tensor.sizes),
        "shapes": dynamism.get(int(tensor.shapeDynamism), "unknown"),
    }
