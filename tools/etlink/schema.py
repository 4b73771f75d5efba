"""Access to upstream's generated flatbuffer classes for programs.

They come from `executorch/exir/_serialize/generated` (program.fbs) of the ExecuTorch version that
the exporter environment holds, and are found on sys.path, with or without torch beside them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import flatbuffers

from etlink.flatbuffer import Buffer, Table

_PROGRAM_PACKAGE = "executorch.exir._serialize.generated.executorch_flatbuffer"

# program.fbs: `force_align` of Buffer.storage and BackendDelegateInlineData.data; recipes may ask
# for others.
INLINE_ALIGNMENT = 16

PROGRAM_IDENTIFIER = b"ET12"


def program_class(name: str) -> Any:
    """A class of program.fbs: "ProgramT", "TensorT", "DataSegmentT", …"""
    return _classes()[name]


def unpack_program(flatbuffer: bytes) -> Any:
    """Reads a program's flatbuffer (header removed or not) into a ProgramT.

    Raises:
      DamagedError: its offsets lead outside of it, or to the same bytes again and again.
      Exception: whatever the generated code raises on numbers that have no meaning.
    """
    return program_class("ProgramT").InitFromPackedBuf(Buffer(flatbuffer))


def pack_program(
    program: Any,
    tensor_alignment: int = INLINE_ALIGNMENT,
    delegate_alignment: int = INLINE_ALIGNMENT,
) -> bytes:
    """Writes a ProgramT as a flatbuffer.

    Args:
      program: a ProgramT.
      tensor_alignment: of constants in the tables, bytes.
      delegate_alignment: of payloads in the tables, bytes.
    """
    builder = flatbuffers.Builder()
    with contextlib.ExitStack() as stack:
        for aligned, alignment in zip(
            _ALIGNED, (tensor_alignment, delegate_alignment), strict=True
        ):
            stack.enter_context(_packing(aligned, alignment))
        builder.Finish(program.Pack(builder), file_identifier=PROGRAM_IDENTIFIER)
    return bytes(builder.Output())


# Tables with bytes that are aligned: table, field, and what generated methods call that.
_ALIGNED = (("Buffer", "storage", "Storage"), ("BackendDelegateInlineData", "data", "Data"))


@contextlib.contextmanager
def _packing(aligned: tuple[str, str, str], alignment: int) -> Iterator[None]:
    """Makes a class of upstream's honor an alignment, until the context ends."""
    table = program_class(f"{aligned[0]}T")
    original = table.Pack
    table.Pack = _pack_aligned(*aligned, alignment)
    try:
        yield
    finally:
        table.Pack = original


@functools.cache
def _classes() -> dict[str, Any]:
    """All generated classes, after the names in their modules are corrected."""
    package = _PROGRAM_PACKAGE
    with _without_compiler():
        root = importlib.import_module(package)
        modules = {
            info.name: importlib.import_module(f"{package}.{info.name}")
            for info in pkgutil.iter_modules(root.__path__)
        }
    for module in modules.values():
        _name_classes(module)
    classes: dict[str, Any] = {}
    for module in modules.values():
        classes.update({k: v for k, v in vars(module).items() if isinstance(v, type)})
    for table, field, suffix in _ALIGNED:
        classes[f"{table}T"]._UnPack = _unpack_bytes(field, suffix)
    return classes


@contextlib.contextmanager
def _without_compiler() -> Iterator[None]:
    """Leaves the packages around the classes empty: theirs would import the compiler and torch."""
    added = []
    for package in ("executorch.exir", "executorch.exir._serialize"):
        spec = None if package in sys.modules else importlib.util.find_spec(package)
        if spec:
            sys.modules[package] = importlib.util.module_from_spec(spec)
            added.append(package)
    try:
        yield
    finally:
        for package in added:
            del sys.modules[package]


# What generated modules call "flatbuffers", with tables that check each access.
_CHECKED = SimpleNamespace(**{**vars(flatbuffers), "table": SimpleNamespace(Table=Table)})


def _name_classes(module: ModuleType) -> None:
    # The modules import each other in circles, so some names hold a module and not its class.
    for name, value in list(vars(module).items()):
        if isinstance(value, ModuleType) and isinstance(getattr(value, name, None), type):
            setattr(module, name, getattr(value, name))
    module.flatbuffers = _CHECKED
    if hasattr(module, "Table"):
        module.Table = Table


def _unpack_bytes(field: str, suffix: str) -> Any:
    """An _UnPack method that takes all bytes at once, which flatc's does with NumPy only."""

    def unpack(self: Any, table: Any) -> None:
        if table is None or getattr(table, f"{suffix}IsNone")():
            return
        inner = table._tab
        size = getattr(table, f"{suffix}Length")()
        start = inner.Vector(inner.Offset(4))
        if start + size > len(inner.Bytes):
            raise ValueError(f"a vector of {size} bytes at {start} ends behind the last byte")
        setattr(self, field, bytes(inner.Bytes[start : start + size]))

    return unpack


def _pack_aligned(table: str, field: str, suffix: str, alignment: int) -> Any:
    """A Pack method that honors `force_align`, which flatc's Python code does not."""
    module = importlib.import_module(f"{_PROGRAM_PACKAGE}.{table}")

    def pack(self: Any, builder: Any) -> int:
        offset = 0
        value = getattr(self, field)
        if value is not None:
            data = bytes(value)
            builder.StartVector(1, len(data), alignment)
            builder.head = builder.Head() - len(data)
            builder.Bytes[builder.Head() : builder.Head() + len(data)] = data
            offset = builder.EndVector()
        getattr(module, f"{table}Start")(builder)
        if offset:
            getattr(module, f"{table}Add{suffix}")(builder, offset)
        return getattr(module, f"{table}End")(builder)

    return pack
