"""Reads .bpte files: a program with inputs and the outputs that are expected of it.

Source: upstream's devtools/bundled_program/schema/bundled_program_schema.fbs.
"""

from __future__ import annotations

import contextlib
import math
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from etbuild.errors import BuildError
from etlink import pte
from etlink.container import REBUILD
from etlink.flatbuffer import (
    Buffer,
    DamagedError,
    Table,
    field_table,
    field_tables,
    number,
    numbers_of,
    offset_of,
    text_of,
)
from etlink.tables import MAX_DIMENSIONS, SCALAR_TYPES
from flatbuffers import number_types as numbers

IDENTIFIER = b"BP08"

# Members of the union ValueUnion.
_TENSOR = 1
_SCALARS = {
    2: ("int64", numbers.Int64Flags, "<q"),
    3: ("bool", numbers.BoolFlags, "<?"),
    4: ("float64", numbers.Float64Flags, "<d"),
}


@dataclass(frozen=True)
class Value:
    """An input or an output.

    Attributes:
      dtype: "float32", …
      shape: elements per dimension; of a number: none.
      data: the elements.
      order: dimensions from outer to inner, as the elements lie.
      is_number: whether it is a number and not a tensor.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    order: tuple[int, ...] = ()
    is_number: bool = False


@dataclass(frozen=True)
class Case:
    """Inputs of a method and what it should give for them."""

    method: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True)
class Bundled:
    """A .bpte file, read.

    Attributes:
      path: the file.
      program: the .pte file that is in it.
      cases: in the file's order.
    """

    path: Path
    program: bytes
    cases: tuple[Case, ...]

    @contextlib.contextmanager
    def program_file(self) -> Iterator[pte.ProgramFile]:
        """The program as a file of its own for the time of a `with`, read.

        Raises:
          BuildError: it is damaged; the message names the bundle.
        """
        with tempfile.TemporaryDirectory(prefix="et-") as folder:
            path = Path(folder, self.path.with_suffix(".pte").name)
            path.write_bytes(self.program)
            try:
                program = pte.read(path)
            except BuildError as error:
                what = error.what.removeprefix(str(path))
                raise BuildError(f"The program in {self.path}{what}", error.hint) from error
            yield program


def read(path: Path) -> Bundled:
    """Reads a bundled program.

    Raises:
      BuildError: it is missing, no bundled program, truncated or damaged.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BuildError(f"{path} cannot be read: {error.strerror}.", REBUILD) from error
    if data[4:8] != IDENTIFIER:
        raise BuildError(
            f"{path} is not a bundled program: bytes 4 to 8: got {data[4:8]!r}, expected "
            f"{IDENTIFIER!r}.",
            REBUILD,
        )
    buffer = Buffer(data)
    try:
        root = Table(buffer, Table(buffer, 0).Indirect(0))
        offset = offset_of(root, 2)
        if not offset:
            raise DamagedError("it holds no program")
        start, length = root.Vector(offset), root.VectorLen(offset)
        cases = tuple(
            Case(text_of(suite, 0), _values(case, 0), _values(case, 1))
            for suite in field_tables(root, 1)
            for case in field_tables(suite, 1)
        )
    except (ValueError, struct.error) as error:
        raise BuildError(f"{path} is damaged: {error}.", REBUILD) from error
    return Bundled(path, data[start : start + length], cases)


def _values(case: Table, field: int) -> tuple[Value, ...]:
    return tuple(_value(table) for table in field_tables(case, field))


def _value(table: Table) -> Value:
    kind, content = int(number(table, 0, numbers.Uint8Flags)), field_table(table, 1)
    if content is None or (kind != _TENSOR and kind not in _SCALARS):
        raise DamagedError("a value is of an unknown kind")
    if kind != _TENSOR:
        dtype, flags, layout = _SCALARS[kind]
        return Value(dtype, (), struct.pack(layout, number(content, 0, flags)), is_number=True)
    dtype, width = SCALAR_TYPES.get(int(number(content, 0, numbers.Int8Flags)), ("", 0))
    shape = numbers_of(content, 1, numbers.Int32Flags, 4)
    offset = offset_of(content, 2)
    start, length = (content.Vector(offset), content.VectorLen(offset)) if offset else (0, 0)
    order = numbers_of(content, 3, numbers.Uint8Flags, 1) or tuple(range(len(shape)))
    fits = len(shape) <= MAX_DIMENSIONS and min(shape, default=0) >= 0
    if not width or not fits or width * math.prod(shape) != length:
        raise DamagedError("a tensor's shape does not fit its data")
    if sorted(order) != list(range(len(shape))):
        raise DamagedError("a tensor's order of dimensions is malformed")
    return Value(dtype, shape, bytes(content.Bytes[start : start + length]), order)
