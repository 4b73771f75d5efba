"""Reads a GGUF file, with errors that name the file, what it has and what was expected."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from etbuild import BuildError, check_gguf
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

_FETCH_AGAIN = "Fetch the file again, or correct what the target's data attribute names."
# Items of an array that are read at once.
_FEW = 256
# Columns that share one scale in blocks of Q8_0 and Q4_0.
GROUP = 32


class _Truncated(Exception):
    """The file ends before its last tensor does; holds the expected number of bytes."""


class _Reader(gguf.GGUFReader):
    """GGUFReader that compares the extents of the tensors with the size of the file."""

    def _build_tensors(self, start_offs: int, fields: list[Any]) -> None:
        end = start_offs
        for field in fields:
            _, _, _, dims, raw_type, offset = field.parts
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(raw_type[0])]
            # Not NumPy's product, which wraps around.
            count = math.prod(int(n) for n in dims)
            end = max(end, start_offs + int(offset[0]) + count // block * size)
        if end > len(self.data):
            raise _Truncated(end)
        super()._build_tensors(start_offs, fields)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        """Walks over a vocabulary, of which upstream makes a NumPy array for each item: seconds."""
        if raw_type != GGUFValueType.ARRAY or self.byte_order != "I":
            return super()._get_field_parts(orig_offs, raw_type)
        kind, count = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
        scalar = self.gguf_scalar_to_np.get(GGUFValueType(kind[0]))
        if count[0] <= _FEW or (scalar is None and kind[0] != GGUFValueType.STRING):
            return super()._get_field_parts(orig_offs, raw_type)
        start = orig_offs + int(kind.nbytes + count.nbytes)
        end = start
        if scalar is not None:
            end += int(count[0]) * np.dtype(scalar).itemsize
        else:
            data = memoryview(self.data)
            for _ in range(int(count[0])):
                end += 8 + struct.unpack_from("=Q", data, end)[0]
        return end - orig_offs, [kind, count], [], [GGUFValueType.ARRAY]

    def whole(self, field: Any) -> Any:
        """A field with the items that were walked over."""
        if field.data or field.types != [GGUFValueType.ARRAY] or not field.parts[-1][0]:
            return field
        start = field.offset + sum(int(part.nbytes) for part in field.parts[:3])
        _, parts, indices, kinds = super()._get_field_parts(start, GGUFValueType.ARRAY)
        return field._replace(
            parts=field.parts[:3] + parts, data=[3 + index for index in indices], types=kinds
        )


class GgufFile:
    """Metadata and tensors of one GGUF file.

    Args:
      path: the file.

    Raises:
      BuildError: it is missing, no GGUF file, or ends too early.

    Example:

        file = GgufFile(ctx.file("model.gguf"))
        width = file.integer("llama.embedding_length")
        table = file.tensor("token_embd.weight", (49152, width))
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_gguf(path)
        size = path.stat().st_size
        try:
            self._reader = _Reader(path)
        except _Truncated as error:
            raise BuildError(
                f"{path}: the file is truncated: its tensors need {error.args[0]} bytes, found "
                f"{size}.",
                _FETCH_AGAIN,
            ) from None
        except Exception as error:  # the reader raises whatever a broken header leads it to
            raise BuildError(
                f"{path}: expected a complete GGUF file; found {size} bytes whose header cannot "
                f"be read ({type(error).__name__}: {error}).",
                _FETCH_AGAIN,
            ) from None
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}

    def names(self) -> Sequence[str]:
        """Names of the tensors, in the file's order."""
        return list(self._tensors)

    def value(self, key: str, default: Any = None) -> Any:
        """A metadata value, or `default` where the file has none under this key."""
        field = self._reader.get_field(key)
        try:
            return default if field is None else self._reader.whole(field).contents()
        except (LookupError, ValueError) as error:
            raise self._wrong(key, f"{type(error).__name__}: {error}", "a value") from None

    def count(self, key: str) -> int:
        """Number of items of a metadata list, without reading them; 0 where there is none."""
        field = self._reader.get_field(key)
        if field is None or field.types[:1] != [GGUFValueType.ARRAY]:
            return 0
        # Behind the key's length, the key and the field's type: the items' type and their number.
        return int(field.parts[4][0])

    def integer(self, key: str, default: int | None = None, minimum: int = 0) -> int:
        """A metadata value that is a whole number.

        Args:
          key: its key, e.g. "llama.block_count".
          default: what to return where the key is missing; None makes it mandatory.
          minimum: the least that makes sense.

        Raises:
          BuildError: it is missing without a default, no whole number, or less than `minimum`.
        """
        value = self._number(key, default, "a whole number")
        if not isinstance(value, int):
            raise self._wrong(key, value, "a whole number")
        if value < minimum:
            raise self._wrong(key, value, f"a whole number from {minimum}")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A metadata value that is a finite number; see `integer`."""
        value = float(self._number(key, default, "a number"))
        if not math.isfinite(value):
            raise self._wrong(key, value, "a finite number")
        return value

    def _number(self, key: str, default: float | None, expected: str) -> int | float:
        value = self.value(key, default)
        if value is None:
            raise self._wrong(key, "nothing", expected)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value, expected)
        return value

    def _wrong(self, key: str, value: object, expected: str) -> BuildError:
        return BuildError(
            f'{self.path}: metadata "{key}": got {value!r}, expected {expected}.',
            "Use a GGUF file that its converter wrote completely.",
        )

    def type_of(self, name: str) -> GGMLQuantizationType:
        """Storage type of a tensor, e.g. `GGMLQuantizationType.Q8_0`."""
        return self._tensors[name].tensor_type

    def tensor(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        """A tensor's values as float32.

        Args:
          name: its name in the file, e.g. "blk.0.attn_q.weight".
          shape: the shape that the model needs, rows first.

        Returns:
          A tensor of that shape that doesn't refer to the file.

        Raises:
          BuildError: the file has no such tensor, one of another shape, or one whose storage type
            cannot be turned into numbers.
        """
        raw = self.check(name, shape)
        try:
            values = gguf.quants.dequantize(raw.data, raw.tensor_type)
        except NotImplementedError as error:
            raise BuildError(
                f'{self.path}: tensor "{name}" is stored as {raw.tensor_type.name}, which cannot '
                f"be read: {error}.",
                "Use a file of another quantization, e.g. Q8_0 or Q4_1.",
            ) from None
        return torch.from_numpy(np.array(values, dtype=np.float32).reshape(tuple(shape)))

    def q8(self, name: str, shape: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """A matrix that is stored as Q8_0: 8-bit integers with one scale for every 32 columns.

        Args:
          name: its name in the file.
          shape: (rows, columns) that the model needs.

        Returns:
          int8 of (rows, columns) and float16 scales of (rows, columns / 32).

        Raises:
          BuildError: the file has no such tensor, or one of another shape.
        """
        self.check(name, shape)
        return self.integers(name)

    def integers(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        """A matrix that is stored as Q8_0 or Q4_0: integers with one scale for every 32 columns.

        Args:
          name: its name in the file.

        Returns:
          int8 of (rows, columns) and float16 scales of (rows, columns / 32).
        """
        raw = self._tensors[name]
        columns, rows = (int(size) for size in raw.shape)
        # One block is a float16 scale followed by 32 signed bytes, or by 16 bytes: their lower
        # halves have the first 16 columns, and 8 stands for 0.
        blocks = np.ascontiguousarray(raw.data).reshape(rows, columns // GROUP, -1)
        scales = blocks[:, :, :2].copy().view(np.float16).reshape(rows, -1)
        held = blocks[:, :, 2:].copy()
        if raw.tensor_type == GGMLQuantizationType.Q4_0:
            held = np.concatenate((held & 15, held >> 4), axis=-1) - np.uint8(8)
        numbers = held.view(np.int8).reshape(rows, columns)
        return torch.from_numpy(numbers), torch.from_numpy(scales)

    def check(self, name: str, shape: Sequence[int]) -> gguf.ReaderTensor:
        """Looks a tensor up, without reading its values.

        Args:
          name: its name in the file.
          shape: the shape that the model needs, rows first.

        Raises:
          BuildError: the file has no such tensor, or one of another shape.
        """
        raw = self._tensors.get(name)
        if raw is None:
            raise BuildError(
                f'{self.path}: expected a tensor "{name}" of shape {tuple(shape)}; the file has '
                f"{len(self._tensors)} tensors and none of that name.",
                "Use a GGUF file of a Llama model with all of its layers.",
            )
        stored = tuple(int(size) for size in reversed(raw.shape))
        if stored != tuple(shape):
            raise BuildError(
                f'{self.path}: tensor "{name}": got shape {stored}, expected {tuple(shape)}.',
                "The file's metadata and its tensors belong to different models.",
            )
        return raw
