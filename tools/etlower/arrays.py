"""Tensors outside of torch, and files of them that both Python and the C++ runner read.

A test of a program must not wait for torch, so what it compares is an `Array`: numbers that NumPy
knows, with torch's name of their type. The files are `.safetensors`. They are read here, because
the package `safetensors` reads bfloat16 only through torch.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from etbuild.dtypes import DTYPES
from etbuild.errors import BuildError

if TYPE_CHECKING:
    import torch

# Torch's name of a type to that of .safetensors, and how NumPy holds its bytes.
_DTYPES = {dtype.name: (dtype.safetensors, dtype.numpy) for dtype in DTYPES if dtype.numpy}
_NAMES = {name: dtype for dtype, (name, _) in _DTYPES.items()}
_LENGTH = struct.Struct("<Q")
_METADATA = "__metadata__"


@dataclass(frozen=True, eq=False)
class Array:
    """A tensor's numbers.

    Attributes:
      dtype: torch's name of the type: "float32".
      data: the numbers; those of bfloat16 as their bits (uint16).
      order: the dimensions as they lie in memory, the outermost first; empty: row by row.

    Example:

        Array("float32", np.zeros((2, 3), "<f4"))
    """

    dtype: str
    data: np.ndarray
    order: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of its dimensions."""
        return self.data.shape

    def doubles(self) -> np.ndarray:
        """The numbers as float64."""
        if self.dtype == "bfloat16":
            return (self.data.astype("<u4") << 16).view("<f4").astype("<f8")
        return self.data.astype("<f8")

    def item(self) -> Any:
        """The only number, of Python's type."""
        return self.doubles().item() if self.dtype == "bfloat16" else self.data.item()


def held(dtype: str) -> str:
    """Returns NumPy's name of how it holds a type's numbers.

    Raises:
      BuildError: there is no file of that type.
    """
    if dtype not in _DTYPES:
        raise BuildError(f"a tensor's dtype: got {dtype}, expected one of {', '.join(_DTYPES)}.")
    return _DTYPES[dtype][1]


def of_torch(tensor: torch.Tensor) -> Array:
    """A copy of a tensor.

    Raises:
      BuildError: there is no file of its type of numbers.
    """
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    try:
        held(dtype)
    except BuildError as error:
        hint = "Convert it in the model's forward, e.g. with .to(torch.float32)."
        raise BuildError(error.what, hint) from error
    # ExecuTorch's own rule for what has several orders.
    order = tuple(tensor.dim_order())
    rows = tensor.detach().cpu().contiguous()
    bits = rows.view(torch.uint16) if dtype == "bfloat16" else rows
    return Array(dtype, bits.numpy().copy(), () if order == tuple(range(len(order))) else order)


def to_torch(array: Array) -> torch.Tensor:
    """The tensor that an array was made of; its memory is its own."""
    import torch

    tensor = torch.from_numpy(np.array(array.data))
    if array.dtype == "bfloat16":
        tensor = tensor.view(torch.bfloat16)
    if not array.order:
        return tensor
    laid_out = tensor.permute(array.order).contiguous()
    return laid_out.permute([array.order.index(n) for n in range(len(array.order))])


def write(path: Path, arrays: Mapping[str, Array], note: str) -> None:
    """Writes a .safetensors file: the same bytes for the same arrays and note.

    Args:
      path: the file.
      arrays: by name.
      note: text that goes with them.
    """
    header: dict[str, Any] = {_METADATA: {"note": note}}
    blobs = []
    end = 0
    for name, array in sorted(arrays.items(), key=_widest_first):
        blob = np.ascontiguousarray(array.data).tobytes()
        begin, end = end, end + len(blob)
        dtype, _ = _DTYPES[array.dtype]
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(_LENGTH.pack(len(text)) + text)
        out.writelines(blobs)


def _widest_first(item: tuple[str, Array]) -> tuple[int, str]:
    """Sorts arrays so that every number of a file is at a multiple of its size."""
    name, array = item
    return -array.data.itemsize, name


def read(path: Path) -> tuple[dict[str, Array], str]:
    """Reads a .safetensors file.

    Returns:
      The arrays by name, and the text that was written with them; empty: there is none.

    Raises:
      BuildError: the file is missing, cut off or damaged, or has numbers of another type.
    """
    try:
        content = path.read_bytes()
        (length,) = _LENGTH.unpack_from(content)
        header = json.loads(content[_LENGTH.size : _LENGTH.size + length])
        metadata = header.pop(_METADATA, {})
        start = _LENGTH.size + length
        arrays = {name: _array(entry, content, start) for name, entry in header.items()}
        return arrays, str(metadata.get("note", ""))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
        raise BuildError(
            f"{path} is not a file of tensors: {type(error).__name__}: {error}.",
            "It is an output of the build: build it again.",
        ) from error


def _array(entry: Mapping[str, Any], content: bytes, start: int) -> Array:
    dtype = _NAMES[entry["dtype"]]
    held = np.dtype(_DTYPES[dtype][1])
    begin, end = entry["data_offsets"]
    count = math.prod(entry["shape"])
    if not 0 <= begin <= end <= len(content) - start or end - begin != count * held.itemsize:
        raise ValueError(f"got bytes {begin} to {end} for the shape {entry['shape']}")
    flat = np.frombuffer(content, held, count, start + begin)
    return Array(dtype, flat.reshape(entry["shape"]))
