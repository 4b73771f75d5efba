"""The .safetensors files of a checkpoint: whole, as their index says, and each tensor in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError
from etbuild.dtypes import FLOATS
from etbuild.errors import listed
from safetensors import SafetensorError, safe_open
from torchao.quantization import IntxUnpackedToInt8Tensor

from etllm import torchao_tensors
from etllm.json_values import JsonValues

_AGAIN = "Fetch the checkpoint's files again, all of one revision."
_MAPPED_BYTES = 256 << 20


class TensorFiles:
    """Tensors over one or several .safetensors files.

    A file is mapped, and what was read of it counts as the process's memory. So it is opened anew
    after some of it was read.

    Args:
      paths: the files by the names that messages call them.
      index: model.safetensors.index.json; None: there is none.

    Attributes:
      file_by_tensor: name of a tensor to name of its file; of one that torchao quantized, of its
        first part.
      quantized: name of one that torchao quantized to the tensors that it consists of.

    Raises:
      BuildError: a file is damaged, two have the same tensor, or they are not those of the index.
    """

    def __init__(self, paths: Mapping[str, Path], index: JsonValues | None) -> None:
        self._paths = paths
        self._open = {n: open_tensors(path, n, _AGAIN) for n, path in paths.items()}
        self._read = dict.fromkeys(paths, 0)
        self.file_by_tensor: dict[str, str] = {}
        self.quantized: dict[str, list[str]] = {}
        entries: dict[str, str] = {}
        for name, file in self._open.items():
            self.quantized |= torchao_tensors.parts(file.metadata())
            entries |= file.metadata() or {}
            for tensor in file.keys():  # noqa: SIM118  (no mapping)
                if tensor in self.file_by_tensor:
                    raise BuildError(
                        f'{name}: tensor "{tensor}" is in {self.file_by_tensor[tensor]}, too.',
                        _AGAIN,
                    )
                self.file_by_tensor[tensor] = name
        if index is not None:
            self._check(index)
        self._entries = {name: entries[name] for name in self.quantized}
        self._file_by_part: dict[str, str] = {}
        for tensor, names in self.quantized.items():
            self._gather(tensor, names)

    def _gather(self, tensor: str, names: Sequence[str]) -> None:
        """Makes one tensor of the parts of one that torchao quantized, of whichever files."""
        missing = [name for name in names if name not in self.file_by_tensor]
        if missing:
            raise BuildError(
                f'{listed(sorted(self._open))}: tensor "{tensor}": got '
                f"{len(names) - len(missing)} of its {len(names)} parts, expected "
                f"{listed(missing)}, too.",
                _AGAIN,
            )
        for name in names:
            self._file_by_part[name] = self.file_by_tensor.pop(name)
        self.file_by_tensor[tensor] = self._file_by_part[names[0]]

    def _check(self, index: JsonValues) -> None:
        """Fails where files of the index are missing, or hold other tensors than it says."""
        present = {name.rsplit("/", 1)[-1] for name in self._open}
        weights = index.inner("weight_map").values
        missing = sorted({str(file) for file in weights.values()} - present)
        if missing:
            raise BuildError(
                f"{index.where}: {len(missing)} of its files are missing: {listed(missing)}; "
                f"there are {listed(sorted(present))}.",
                "Give the target all files of the checkpoint.",
            )
        for tensor, file in weights.items():
            actual = self.file_by_tensor.get(tensor, "no file").rsplit("/", 1)[-1]
            if actual != file:
                raise BuildError(
                    f'{index.where}: tensor "{tensor}": expected in {file}, found in {actual}.',
                    _AGAIN,
                )

    def quantized_tensor(self, name: str) -> IntxUnpackedToInt8Tensor:
        """One that torchao quantized, with scales in float32."""
        tensors = {}
        for part in self.quantized[name]:
            where = self._file_by_part[part]
            tensors[part] = self._reopened(where).get_tensor(part)
            self._read[where] += tensors[part].nbytes
        where = ", ".join(sorted({self._file_by_part[part] for part in tensors}))
        return torchao_tensors.read(name, self._entries[name], tensors, where)

    def tensor(self, name: str, rows: slice | None, whole: Sequence[int]) -> torch.Tensor:
        """A tensor of the shape `whole`, or rows of it, as float32."""
        if name not in self.file_by_tensor:
            raise BuildError(
                f'{", ".join(self._open)}: expected a tensor "{name}" of shape {tuple(whole)}; '
                f"there are {len(self.file_by_tensor)} tensors and none of that name.",
                "Give the target all files of the checkpoint, and its own config.json.",
            )
        if name in self.quantized:
            values = self.quantized_tensor(name).dequantize()
            self._check_shape(name, tuple(values.shape), whole)
            return values if rows is None else values[rows].contiguous()
        file = self._reopened(self.file_by_tensor[name])
        header = file.get_slice(name)
        dtype, stored = header.get_dtype(), tuple(header.get_shape())
        if dtype not in FLOATS:
            raise BuildError(
                f'{self.file_by_tensor[name]}: tensor "{name}" is stored as {dtype}, expected '
                f"one of {', '.join(FLOATS)}: numbers of another type need scales.",
                "Take the checkpoint in floating point: recipes quantize it.",
            )
        self._check_shape(name, stored, whole)
        values = header[rows] if rows is not None else file.get_tensor(name)
        self._read[self.file_by_tensor[name]] += values.nbytes
        return values.to(torch.float32).contiguous()

    def _check_shape(self, name: str, stored: Sequence[int], whole: Sequence[int]) -> None:
        if stored != tuple(whole):
            raise BuildError(
                f'{self.file_by_tensor[name]}: tensor "{name}": got shape {stored}, '
                f"expected {tuple(whole)}.",
                "config.json and the weights belong to different models.",
            )

    def _reopened(self, name: str) -> Any:
        if self._read[name] > _MAPPED_BYTES:
            self._open[name] = open_tensors(self._paths[name], name, _AGAIN)
            self._read[name] = 0
        return self._open[name]


def open_tensors(path: Path, name: str, hint: str) -> Any:
    """Opens a .safetensors file.

    Args:
      path: the file.
      name: what messages call it.
      hint: what to do if it cannot be read.

    Raises:
      BuildError: it cannot be read.
    """
    try:
        return safe_open(path, framework="pt")
    except OSError as error:
        raise BuildError(f"{name}: cannot be read: {error}.", hint) from None
    except SafetensorError as error:
        raise BuildError(
            f"{name}: expected a complete safetensors file; found {path.stat().st_size} bytes that "
            f"cannot be read ({error}).",
            hint,
        ) from None
