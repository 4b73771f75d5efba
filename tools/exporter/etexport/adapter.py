"""An adapter's values apart from the lowering of its model: the commands stand_in and adapt."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from etbuild import BuildError
from etlink import adapter_values
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from etexport.flags import Request
from etexport.model import call

_TYPES = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
}
# Small, as those of adapters are: what is computed with them stays finite.
_SCALE = 0.01


def write_stand_in(request: Request) -> None:
    """Writes a file with the names, types and shapes of an adapter's, and values of their own.

    The values depend on names and shapes alone, so the file is the same for all adapters of one
    structure. No two tensors have equal values: equal ones would be stored once.

    Raises:
      BuildError: the adapter's file can't be read, or holds other than floating-point numbers.
    """
    (path,) = request.data.values()
    try:
        with safe_open(path, framework="pt") as file:
            headers = {name: file.get_slice(name) for name in sorted(file.keys())}
            found = {name: (h.get_dtype(), tuple(h.get_shape())) for name, h in headers.items()}
    except (OSError, SafetensorError) as error:
        raise BuildError(
            f"{request.model_label}: adapter: {path}: expected a complete safetensors file; found "
            f"{path.stat().st_size} bytes that cannot be read ({error}).",
            "Save it again with safetensors.torch.save_file.",
        ) from None
    for name, (dtype, _) in found.items():
        if dtype not in _TYPES:
            raise BuildError(
                f'{request.model_label}: adapter: {path}: tensor "{name}" is stored as {dtype}, '
                f"wanted one of {', '.join(_TYPES)}.",
                "Give the file in data of the et_model, and not in adapter.",
            )
    tensors = {name: _values(name, _TYPES[dtype], shape) for name, (dtype, shape) in found.items()}
    request.output.write_bytes(save(tensors, {"format": "pt"}))


def _values(name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * _SCALE).to(dtype)


def write_values(request: Request) -> None:
    """Writes the tensors that the model makes of an adapter's files, beside those of its stand-ins.

    Raises:
      BuildError: the entry point returns something else, or tensors of other names, types or shapes
        for the stand-ins.
    """
    now = _tensors(request)
    was = _tensors(dataclasses.replace(request, data={**request.data, **request.stand_ins}))
    where = f'{request.model_label}: adapter_entry_point = "{request.entry_point}"'
    if _structure(now) != _structure(was):
        differing = sorted(set(_structure(now).items()) ^ set(_structure(was).items()))
        raise BuildError(
            f"{where}: for files of the same structure it returns tensors of different ones, e.g. "
            f'"{differing[0][0]}".',
            "Names, types and shapes must not depend on the adapter's values.",
        )
    request.output.mkdir(parents=True, exist_ok=True)
    adapter_values.write(
        request.output,
        [
            adapter_values.add(
                request.output,
                name,
                str(tensor.dtype).removeprefix("torch."),
                tensor.shape,
                _bytes(was[name]),
                _bytes(tensor),
            )
            for name, tensor in sorted(now.items())
        ],
    )


def _tensors(request: Request) -> Mapping[str, torch.Tensor]:
    made: Any = call(request, "adapter_entry_point")
    where = f'{request.model_label}: adapter_entry_point = "{request.entry_point}"'
    if not isinstance(made, Mapping) or not made:
        raise BuildError(
            f"{where}: got {_described(made)}, wanted a dict of qualified names to tensors.",
            'Return, e.g., {"layers.0.wq.lora_a.weight": tensor, …}.',
        )
    for name, tensor in made.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise BuildError(
                f"{where}: got {name!r}: {_described(tensor)}, wanted a text and a tensor.",
                'Return, e.g., {"layers.0.wq.lora_a.weight": tensor, …}.',
            )
    return made


def _structure(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (str(t.dtype), tuple(t.shape)) for name, t in tensors.items()}


def _bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes()


def _described(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


COMMANDS = {"stand_in": write_stand_in, "adapt": write_values}
