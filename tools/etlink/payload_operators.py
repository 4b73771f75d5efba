"""Operators that payloads of delegates name, and that a runtime has to have beside the backend.

A reader for each backend whose payloads name operators: Vulkan's alone does. XNNPACK's and MLX's
graphs have numbers of their schemas, TOSA's and VGF's operators are those of a specification whose
version the payload says, and the others are compiled.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from etlink import pte, schema, tables
from etlink.flatbuffer import Buffer, DamagedError, Table, field_tables, text_of

# Of a Vulkan payload's header: padding, magic, its size; offset and size of the flatbuffer.
_VULKAN_HEADER = struct.Struct("<4s4sHII")
_VULKAN_MAGIC = b"VH00"
# Fields of VkGraph and OperatorCall in upstream's backends/vulkan/serialization/schema.fbs.
_CHAIN, _NAME = 1, 1


@dataclass(frozen=True)
class Delegate:
    """A delegate of a program.

    Attributes:
      method: that calls it.
      backend: the name under which a runtime has it.
      payload: what that backend gets.
    """

    method: str
    backend: str
    payload: bytes


def delegates(file: pte.ProgramFile, backends: Collection[str]) -> Iterator[Delegate]:
    """Reads delegates of a program's methods.

    Args:
      file: the program.
      backends: whose delegates are read; payloads of others may be large.

    Yields:
      Each, with its payload from the program's tables or segments.
    """
    in_segment = schema.program_class("DataLocation").SEGMENT
    for plan in file.program.executionPlan:
        for delegate in plan.delegates or []:
            backend, place = tables.text(delegate.id), delegate.processed
            if backend not in backends:
                continue
            if place.location != in_segment:
                data = bytes(file.program.backendDelegateData[place.index].data or b"")
            else:
                offset, size = file.segments[place.index]
                with file.path.open("rb") as opened:
                    opened.seek(offset)
                    data = opened.read(size)
            yield Delegate(tables.text(plan.name), backend, data)


def operators_of(delegate: Delegate) -> tuple[str, ...]:
    """The operators that a delegate's payload names, each once, sorted.

    Names without a dot are arithmetic on sizes, which every version of Vulkan's runtime has.

    Args:
      delegate: of one of `BACKENDS`.

    Returns:
      E.g. ("aten.add.Tensor", "et_vk.prepack.default"); empty: the payload is of an unknown form.
    """
    try:
        names = _READERS[delegate.backend](delegate.payload)
    except (DamagedError, struct.error, UnicodeDecodeError):
        return ()
    return tuple(sorted({name for name in names if "." in name}))


def _vulkan(data: bytes) -> list[str]:
    _, magic, _, start, size = _VULKAN_HEADER.unpack_from(data)
    if magic != _VULKAN_MAGIC:
        return []
    buffer = Buffer(data[start : start + size])
    graph = Table(buffer, Table(buffer, 0).Indirect(0))
    return [text_of(call, _NAME) for call in field_tables(graph, _CHAIN)]


_READERS: dict[str, Callable[[bytes], list[str]]] = {"VulkanBackend": _vulkan}

# Those whose payloads name operators.
BACKENDS = frozenset(_READERS)
