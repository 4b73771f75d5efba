"""The commands placeholder and adapt: an adapter's values apart from its model's lowering."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError
from etbuild.dtypes import FLOATS
from etlink import adapter_values
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from etlower.flags import Request
from etlower.model import call

_TYPES = {name: getattr(torch, dtype) for name, dtype in FLOATS.items()}
# Small, as those of adapters are: what is computed with them stays finite.
_SCALE = 0.01
# Elements: fewer of them may by chance have the bytes of another weight.
_TELLING = 8

# A file's name among a target's, and a tensor's in it.
_Key = tuple[str, str]


def write_placeholder(request: Request) -> None:
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
            structure = {name: (h.get_dtype(), tuple(h.get_shape())) for name, h in headers.items()}
    except (OSError, SafetensorError) as error:
        raise BuildError(
            f"{request.model_label}: adapter: {path}: expected a complete safetensors file; got "
            f"{path.stat().st_size} bytes that cannot be read ({error}).",
            "Save it again with safetensors.torch.save_file.",
        ) from None
    for name, (dtype, _) in structure.items():
        if dtype not in _TYPES:
            raise BuildError(
                f'{request.model_label}: adapter: {path}: tensor "{name}" is stored as {dtype}, '
                f"expected one of {', '.join(_TYPES)}.",
                "Give the file in data of the et_model, and not in adapter.",
            )
    tensors = {
        name: _values(name, _TYPES[dtype], shape) for name, (dtype, shape) in structure.items()
    }
    request.output.write_bytes(save(tensors, {"format": "pt"}))


def _values(name: str, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(tuple(shape), generator=generator) * _SCALE).to(dtype)


def write_values(request: Request) -> None:
    """Writes the tensors that the model makes of an adapter's files, beside those of placeholders.

    Raises:
      BuildError: the entry point returns something else, tensors of other names, types or shapes
        for the placeholders, or nothing for a tensor of the adapter.
    """
    after = _returned(request)
    before = _returned(_with(request, request.placeholders))
    where = f'{request.model_label}: adapter_entry_point = "{request.entry_point}"'
    if _structure(after) != _structure(before):
        differing = sorted(set(_structure(after).items()) ^ set(_structure(before).items()))
        raise BuildError(
            f"{where}: for files of the same structure it returns tensors of different ones, e.g. "
            f'"{differing[0][0]}".',
            "Names, types and shapes must not depend on the adapter's values.",
        )
    placeholders = {
        (file, name): tensor
        for file, path in request.placeholders.items()
        for name, tensor in load_file(path).items()
    }
    names = {name for _, name in placeholders}
    unknown = sorted(
        name for name, tensor in before.items() if tensor is None and name not in names
    )
    if unknown:
        raise BuildError(
            f'{where}: got None for "{unknown[0]}", expected the name of one of the {len(names)} '
            "tensors in the adapter's files.",
            "None says that the model does not use a tensor: give the name that it has in the "
            "file.",
        )
    expected = {
        key: tensor
        for key, tensor in placeholders.items()
        if tensor.numel() and (key[1] not in before or before[key[1]] is not None)
    }
    tensors = {name: tensor for name, tensor in before.items() if tensor is not None}
    left_out = _left_out(request, tensors, expected)
    if left_out:
        file, name = left_out[0]
        raise BuildError(
            f"{where}: nothing that it returns depends on {len(left_out)} of {len(placeholders)} "
            f'tensors of the adapter, e.g. "{name}" of {file}, so a program would keep the values '
            "that it was lowered with.",
            "Return them, by the names that the weights have in the module; where the model does "
            f'not use them, return {{"{name}": None}}. {adapter_values.WITHOUT}',
        )
    distinct = {_digest(t): t for t in [*placeholders.values(), *tensors.values()]}
    request.output.mkdir(parents=True, exist_ok=True)
    adapter_values.write(
        request.output,
        [
            adapter_values.add(
                request.output,
                name,
                str(tensor.dtype).removeprefix("torch."),
                tensor.shape,
                _bytes(tensors[name]),
                _bytes(tensor),
            )
            for name, tensor in sorted(after.items())
            if tensor is not None
        ],
        [digest for tensor in distinct.values() for digest in _digests(tensor)],
    )


def _with(request: Request, files: Mapping[str, Path]) -> Request:
    """A request with other files instead of some."""
    return dataclasses.replace(request, data={**request.data, **files})


def _digests(tensor: torch.Tensor) -> Iterator[str]:
    """The sha256 of a placeholder's bytes as backends store them: as they are, transposed, cast."""
    yield _digest(tensor)
    # Casts of so few bytes would be those of other weights, too.
    if tensor.is_floating_point() and tensor.numel() >= _TELLING:
        for dtype in _TYPES.values():
            for dimensions in itertools.combinations(range(tensor.dim()), 2):
                yield _digest(tensor.transpose(*dimensions).to(dtype))
            yield _digest(tensor.to(dtype))


def _digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(_bytes(tensor)).hexdigest()


def _left_out(
    request: Request,
    before: Mapping[str, torch.Tensor],
    placeholders: Mapping[_Key, torch.Tensor],
) -> list[_Key]:
    """The tensors of an adapter that nothing depends on that its entry point returns, sorted.

    A tensor that is returned with its bytes needs no proof. For the others the entry point runs
    again with other values: what it returns must change.

    Args:
      request: the request.
      before: what the entry point returns for the placeholders, by qualified name.
      placeholders: by file and name in it; none is empty.
    """
    left = _not_returned(before, placeholders)
    trial = partial(_changed, request, {n: _digest(t) for n, t in before.items()})
    if not left or not trial(left):
        return left
    possible = {name: set(left) for name in before}
    for bit in range((len(left) - 1).bit_length()):
        for value in (0, 1):
            group = {key for number, key in enumerate(left) if number >> bit & 1 == value}
            changed = trial(group)
            for name in before.keys() - changed:
                possible[name] -= group
    # A tensor with one that is possible has changed with it, and with no other.
    taken = {key for keys in possible.values() if len(keys) == 1 for key in keys}
    return list(_ineffective([key for key in left if key not in taken], trial))


def _ineffective(keys: Sequence[_Key], trial: Callable[[Sequence[_Key]], Set[str]]) -> list[_Key]:
    """Those that change nothing: a trial for all, or for each half."""
    if not keys or not trial(keys):
        return list(keys)
    middle = len(keys) // 2
    return (
        [*_ineffective(keys[:middle], trial), *_ineffective(keys[middle:], trial)] if middle else []
    )


def _not_returned(
    before: Mapping[str, torch.Tensor], placeholders: Mapping[_Key, torch.Tensor]
) -> list[_Key]:
    """The placeholders whose bytes are not among those that are returned, sorted."""
    digests = {key: _digest(tensor) for key, tensor in placeholders.items()}
    # Files of an adapter may have tensors of one name and shape, and so of equal values.
    count = collections.Counter(digests.values())
    returned = {_digest(tensor) for tensor in before.values()}
    return sorted(key for key, d in digests.items() if d not in returned or count[d] > 1)


def _changed(request: Request, before: Mapping[str, str], keys: Collection[_Key]) -> set[str]:
    """Names of what the entry point returns otherwise where some placeholders have other values."""
    # In the request's own folder, the only one beside its files that it may open.
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for number, (file, path) in enumerate(sorted(request.placeholders.items())):
            tensors = load_file(path)
            for name, tensor in tensors.items():
                if (file, name) in keys:
                    tensors[name] = _values(f"{name} again", tensor.dtype, tensor.shape)
            files[file] = Path(folder) / f"{number}.safetensors"
            files[file].write_bytes(save(tensors, {"format": "pt"}))
        after = _returned(_with(request, files))
    digests = {name: _digest(tensor) for name, tensor in after.items() if tensor is not None}
    return {name for name, digest in before.items() if digests.get(name) != digest}


def _returned(request: Request) -> Mapping[str, torch.Tensor | None]:
    """Calls the entry point; None in its result: the model does not use this of the adapter's."""
    tensors: Any = call(request, "adapter_entry_point")
    where = f'{request.model_label}: adapter_entry_point = "{request.entry_point}"'
    if not isinstance(tensors, Mapping) or not tensors:
        raise BuildError(
            f"{where}: got {_described(tensors)}, expected a dict of qualified names to tensors.",
            'Return, e.g., {"layers.0.wq.lora_a.weight": tensor, …}.',
        )
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor | None):
            raise BuildError(
                f"{where}: got {name!r}: {_described(tensor)}, expected a string and a tensor.",
                'Return, e.g., {"layers.0.wq.lora_a.weight": tensor, …}.',
            )
    return tensors


def _structure(tensors: Mapping[str, torch.Tensor | None]) -> dict[str, tuple[Any, ...]]:
    return {n: () if t is None else (str(t.dtype), tuple(t.shape)) for n, t in tensors.items()}


def _bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes()


def _described(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


COMMANDS = {"placeholder": write_placeholder, "adapt": write_values}
