"""Types of a tensor's elements, by the names and numbers that each format has for them."""

from __future__ import annotations

from typing import NamedTuple


class Dtype(NamedTuple):
    """One type.

    Attributes:
      name: torch's, without its prefix.
      size: bytes of an element.
      scalar_type: its number in ExecuTorch's scalar_type.fbs; None: programs have no such tensors.
      safetensors: its name in .safetensors files; empty: they have no such tensors.
      numpy: how NumPy holds the bytes, those of bfloat16 as integers; empty: not.
      storage: the class of its storages in torch's archives; empty: there is none.
    """

    name: str
    size: int
    scalar_type: int | None = None
    safetensors: str = ""
    numpy: str = ""
    storage: str = ""


DTYPES = (
    Dtype("float32", 4, 6, "F32", "<f4", "FloatStorage"),
    Dtype("float16", 2, 5, "F16", "<f2", "HalfStorage"),
    Dtype("bfloat16", 2, 15, "BF16", "<u2", "BFloat16Storage"),
    Dtype("float64", 8, 7, "F64", "<f8", "DoubleStorage"),
    Dtype("bool", 1, 11, "BOOL", "|b1", "BoolStorage"),
    Dtype("int8", 1, 1, "I8", "|i1", "CharStorage"),
    Dtype("int16", 2, 2, "I16", "<i2", "ShortStorage"),
    Dtype("int32", 4, 3, "I32", "<i4", "IntStorage"),
    Dtype("int64", 8, 4, "I64", "<i8", "LongStorage"),
    Dtype("uint8", 1, 0, "U8", "|u1", "ByteStorage"),
    Dtype("uint16", 2, 27, "U16", "<u2"),
    Dtype("uint32", 4, 28, "U32", "<u4"),
    Dtype("uint64", 8, 29, "U64", "<u8"),
    Dtype("float8_e5m2", 1, 23),
    Dtype("float8_e4m3fn", 1, 24),
    Dtype("float8_e5m2fnuz", 1, 25),
    Dtype("float8_e4m3fnuz", 1, 26),
    Dtype("bits16", 2, 22),
    Dtype("qint8", 1, 12, storage="QInt8Storage"),
    Dtype("quint8", 1, 13, storage="QUInt8Storage"),
    Dtype("qint32", 4, 14, storage="QInt32Storage"),
    Dtype("quint4x2", 1, storage="QUInt4x2Storage"),
    Dtype("quint2x4", 1, storage="QUInt2x4Storage"),
    Dtype("complex64", 8, storage="ComplexFloatStorage"),
    Dtype("complex128", 16, storage="ComplexDoubleStorage"),
)

# Types that weights of checkpoints and adapters may have: name in .safetensors files to torch's.
FLOATS = {dtype.safetensors: dtype.name for dtype in DTYPES[:4]}
