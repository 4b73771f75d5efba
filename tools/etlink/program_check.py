"""Checks the tables of a program: every index, size and name, before anything uses them.

The runtime and upstream's generated code trust a program: an index out of range reads foreign
memory, or raises whatever it leads to. Every reader of a .pte file calls this first, so the rest of
the linker may follow indexes without checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from etlink import schema
from etlink.flatbuffer import DamagedError
from etlink.tables import MAX_DIMENSIONS, SCALAR_TYPES, ints, is_constant, tensor_bytes

_LARGEST = 2**63 - 1


def check_program(program: Any, segments: Sequence[int]) -> None:
    """Checks a program's tables.

    Args:
      program: a ProgramT.
      segments: bytes of its segments.

    Raises:
      DamagedError: something that is referred to does not exist, or is too small for its tensor.
    """
    plans = program.executionPlan
    if plans is None:
        raise DamagedError("it has no methods")
    _check_unique((_text(plan.name, "a method") for plan in plans), "methods")
    for plan in plans:
        _check_plan(plan, f'method "{_text(plan.name, "")}"')
    constants = _constants(program, segments)
    for plan in plans:
        where = f'method "{_text(plan.name, "")}"'
        for number, value in enumerate(plan.values or []):
            if _is_tensor(value) and is_constant(value.val):
                _check_constant(value.val, constants, f"{where}, value {number}")
        for delegate in plan.delegates or []:
            _check_processed(program, delegate, segments, where)
    for table in program.mutableDataSegments or []:
        _subsegments(table, segments, "the mutable data")
    named = program.namedData or []
    _check_unique((_text(item.key, "named data") for item in named), "named data")
    for item in named:
        _check_index(item.segmentIndex, segments, f'segment of "{_text(item.key, "")}"')


def _check_plan(plan: Any, where: str) -> None:
    values = plan.values or []
    for number, value in enumerate(values):
        if _is_tensor(value):
            _check_tensor(value.val, f"{where}, value {number}")
    for kind in ("inputs", "outputs"):
        for index in ints(getattr(plan, kind)):
            _check_index(index, values, f"{where}: one of its {kind}")
    for size in ints(plan.nonConstBufferSizes):
        if size < 0:
            raise DamagedError(f"{where} plans memory of {size} bytes")
    for operator in plan.operators or []:
        _text(operator.name, f"{where}: an operator")
        _text(operator.overload or b"", f"{where}: an operator")
    for delegate in plan.delegates or []:
        _text(delegate.id, f"{where}: a backend")
    for chain in plan.chains or []:
        for number, instruction in enumerate(chain.instructions or []):
            _check_instruction(plan, instruction, f"{where}, instruction {number}")


def _check_tensor(tensor: Any, where: str) -> None:
    sizes, order = ints(tensor.sizes), ints(tensor.dimOrder)
    if len(sizes) > MAX_DIMENSIONS:
        raise DamagedError(
            f"{where} has {len(sizes)} dimensions, expected at most {MAX_DIMENSIONS}"
        )
    if min(sizes, default=0) < 0:
        raise DamagedError(f"{where} has the shape {sizes}")
    if sorted(order) != list(range(len(sizes))):
        raise DamagedError(f"{where} has the shape {sizes} and the dimensions {order}")
    info = tensor.extraTensorInfo
    if info is not None and info.fullyQualifiedName is not None:
        _text(info.fullyQualifiedName, f"{where}: its name")


def _check_instruction(plan: Any, instruction: Any, where: str) -> None:
    kinds = schema.program_class("InstructionArguments")
    arguments = instruction.instrArgs
    if arguments is None:
        raise DamagedError(f"{where} is of an unknown kind")
    if instruction.instrArgsType == kinds.KernelCall:
        _check_index(arguments.opIndex, plan.operators, f"{where}: its operator")
    elif instruction.instrArgsType == kinds.DelegateCall:
        _check_index(arguments.delegateIndex, plan.delegates, f"{where}: its delegate")
    else:
        return
    for index in ints(arguments.args):
        _check_index(index, plan.values, f"{where}: one of its arguments")


def _constants(program: Any, segments: Sequence[int]) -> list[int]:
    """Bytes that each constant may have."""
    table = program.constantSegment
    if table is None or not ints(table.offsets):
        return [len(_bytes(buffer.storage)) for buffer in program.constantBuffer or []]
    # A program of nothing but placeholders has no segment for them.
    if not segments and not any(ints(table.offsets)):
        return [0] * len(table.offsets)
    return _subsegments(table, segments, "the constants")


def _subsegments(table: Any, segments: Sequence[int], what: str) -> list[int]:
    """Bytes from each offset of a segment to the next."""
    offsets = ints(table.offsets)
    if not offsets:
        return []
    _check_index(table.segmentIndex, segments, f"the segment of {what}")
    ends = [*offsets[1:], segments[table.segmentIndex]]
    for start, end in zip(offsets, ends, strict=True):
        if end < start:
            raise DamagedError(f"{what} begin at byte {start} of their segment and end at {end}")
    return [end - start for start, end in zip(offsets, ends, strict=True)]


def _check_constant(tensor: Any, constants: Sequence[int], where: str) -> None:
    _check_index(tensor.dataBufferIdx, constants, f"{where}: its constant")
    if int(tensor.scalarType) not in SCALAR_TYPES:
        raise DamagedError(f"{where} is a constant of the unknown type {tensor.scalarType}")
    size, room = tensor_bytes(tensor), constants[tensor.dataBufferIdx]
    if size > min(room, _LARGEST):
        raise DamagedError(f"{where} has the shape {ints(tensor.sizes)}, {size} bytes, in {room}")


def _check_processed(program: Any, delegate: Any, segments: Sequence[int], where: str) -> None:
    payloads: Mapping[int, Sequence[Any]] = {
        schema.program_class("DataLocation").SEGMENT: segments,
        schema.program_class("DataLocation").INLINE: program.backendDelegateData or [],
    }
    what = f"{where}: the payload of {_text(delegate.id, '')}"
    if delegate.processed is None or delegate.processed.location not in payloads:
        raise DamagedError(f"{what} is missing")
    _check_index(delegate.processed.index, payloads[delegate.processed.location], what)


def _check_index(index: Any, of: Sequence[Any] | None, what: str) -> None:
    count = 0 if of is None else len(of)
    if not 0 <= index < count:
        raise DamagedError(f"{what} is number {index} of {count}")


def _check_unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DamagedError(f'two {what} are called "{name}"')
        seen.add(name)


def _text(value: Any, what: str) -> str:
    """A string that must be there and be UTF-8."""
    if value is None:
        raise DamagedError(f"{what} has no name")
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        raise DamagedError(f"{what} has a name that is not UTF-8: {value[:40]!r}") from None


def _is_tensor(value: Any) -> bool:
    is_tensor = value.valType == schema.program_class("KernelTypes").Tensor
    if is_tensor and value.val is None:
        raise DamagedError("a tensor is missing")
    return is_tensor


def _bytes(value: Any) -> bytes:
    return b"" if value is None else bytes(value)
