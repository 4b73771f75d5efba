"""Tensors of torchao in .safetensors files, as its prototype flattens them.

A file's metadata has an entry for each tensor; what an entry calls `_tensor_data_names` are tensors
of the file: "model.norm.weight" → "model.norm._weight_qdata". transformers writes such files
(`TorchAoConfig`), and so does the hub's organization of PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch
from etbuild import BuildError
from torchao.prototype.safetensors.safetensors_support import unflatten_tensor_state_dict
from torchao.quantization import Int8Tensor, IntxUnpackedToInt8Tensor

_NAMES = "tensor_names"
_HINT = "Save the checkpoint with torchao's Intx…Config or Int8WeightOnlyConfig, or in floats."


def parts(metadata: Mapping[str, str] | None) -> dict[str, list[str]]:
    """The quantized tensors of a file, and the tensors of the file that each consists of.

    Args:
      metadata: of the .safetensors file.
    """
    found: dict[str, list[str]] = {}
    if not metadata or _NAMES not in metadata:
        return found
    for name, text in sorted(metadata.items()):
        entry = _json(text) if name != _NAMES else None
        names = entry.get("_tensor_data_names") if isinstance(entry, dict) else None
        if "." in name and isinstance(names, list) and names:
            owner, attribute = name.rsplit(".", 1)
            found[name] = [f"{owner}._{attribute}_{each}" for each in names]
    return found


def read(
    name: str, entry: str, tensors: Mapping[str, torch.Tensor], where: str
) -> IntxUnpackedToInt8Tensor:
    """A quantized tensor.

    Args:
      name: of the tensor.
      entry: its metadata.
      tensors: those that it consists of.
      where: the file, for messages.

    Returns:
      It with scales in float32.

    Raises:
      BuildError: it is malformed, or of a kind for which no recipe has kernels.
    """
    try:
        given = {name: entry, _NAMES: json.dumps([name])}
        values, _ = unflatten_tensor_state_dict(dict(tensors), given)
        value = values[name]
    except Exception as error:  # torchao's reader asserts what it expects
        raise BuildError(
            f'{where}: tensor "{name}": torchao cannot read it: {type(error).__name__}: {error}.',
            _HINT,
        ) from None
    return exportable(value, name, where)


def exportable(value: torch.Tensor, name: str, where: str) -> IntxUnpackedToInt8Tensor:
    """A quantized tensor in the form that recipes give, with scales in float32.

    Args:
      value: one of torchao's.
      name: of the tensor, for messages.
      where: its file, likewise.

    Raises:
      BuildError: it is of a kind for which no recipe has kernels.
    """
    if isinstance(value, Int8Tensor) and value.act_quant_kwargs is None:
        value = _unpacked(value)
    if isinstance(value, IntxUnpackedToInt8Tensor):
        return value.to(torch.float32)
    raise BuildError(
        f'{where}: tensor "{name}": got torchao\'s {type(value).__name__}, expected '
        "IntxUnpackedToInt8Tensor, or Int8Tensor without quantized activations.",
        _HINT,
    )


def rows(value: IntxUnpackedToInt8Tensor, part: slice) -> IntxUnpackedToInt8Tensor:
    """Some rows of a matrix whose scales are each of one row."""
    return _like(value, *(each[part] for each in (value.qdata, value.scale, value.zero_point)))


def _like(value: IntxUnpackedToInt8Tensor, *data: torch.Tensor) -> IntxUnpackedToInt8Tensor:
    return IntxUnpackedToInt8Tensor(
        *data,
        value.target_dtype,
        value.block_size,
        value.dtype,
        value.activation_quantization,
    )


def _unpacked(value: Int8Tensor) -> IntxUnpackedToInt8Tensor:
    """The same integers and scales in the form that can be exported."""
    zeros = torch.zeros_like(value.scale, dtype=torch.int8)
    zeros = zeros if value.zero_point is None else value.zero_point.to(torch.int8)
    return IntxUnpackedToInt8Tensor(
        value.qdata, value.scale, zeros, torch.int8, tuple(value.block_size), value.dtype, None
    )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return None
