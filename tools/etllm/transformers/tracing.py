"""Installs what transformers' own exporter replaces while a model is traced for ExecuTorch.

Some architectures call functions that torch.export cannot trace or ExecuTorch has no kernels for;
transformers keeps replacements with equal results for them, beside its modeling code. They are
installed around a module's `forward`, and only while it is exported: the eager model, with which
programs are compared, is transformers' own. Tracing has to run this code, so methods are exported
with strict = False. A replacement that gave other results would fail the program's test.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@contextlib.contextmanager
def replacements() -> Iterator[None]:
    """Installs the replacements for the time of a `with` block, if a module is being exported."""
    if not torch.compiler.is_exporting():
        yield
        return
    # Registers those for ExecuTorch; it imports much, and the eager model needs none of it.
    import transformers.exporters.exporter_executorch  # noqa: F401
    from transformers.exporters.utils import apply_patches

    ours = (_slices, _patches, _bags, _complex, _masks, _sorts, _slopes, _writes)
    with apply_patches("dynamo"), apply_patches("executorch"), contextlib.ExitStack() as stack:
        for patch in ours:
            stack.enter_context(patch())
        yield


@contextlib.contextmanager
def _slices() -> Iterator[None]:
    """Replaces functions that return lists of tensors by slices.

    At an operator with a list of results ExecuTorch fixes dynamic sizes to the example's.
    """
    originals = {
        (owner, name): getattr(owner, name)
        for owner in (torch, torch.Tensor)
        for name in ("chunk", "split", "unbind")
    }
    try:
        for owner in (torch, torch.Tensor):
            owner.chunk, owner.split, owner.unbind = _chunk, _split, _unbind
        # The function's argument has another name than the method's.
        torch.split = _split_or_sections
        yield
    finally:
        for (owner, name), original in originals.items():
            setattr(owner, name, original)


@contextlib.contextmanager
def _patches() -> Iterator[None]:
    """Replaces convolutions over three dimensions that see each frame of their input once.

    Encoders embed patches of films with them; ExecuTorch has kernels for two dimensions.
    """
    original = torch.nn.functional.conv3d

    def conv3d(
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: Any = None,
        stride: Any = (1, 1, 1),
        padding: Any = (0, 0, 0),
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        if input.shape[1:] == weight.shape[1:]:
            values = torch.nn.functional.linear(input.flatten(1), weight.flatten(1), bias)
            return values[:, :, None, None, None]
        frames = weight.shape[2]
        # Of its dilations, groups and other forms, layers of encoders have none.
        is_plain = isinstance(stride, tuple) and isinstance(padding, tuple) and not kwargs
        is_plain = is_plain and args in ((), ((1, 1, 1), 1))
        if not is_plain or stride[0] != frames or padding[0] or input.shape[2] % frames:
            return original(input, weight, bias, stride, padding, *args, **kwargs)
        # The frames of a patch become channels.
        channels = input.unflatten(2, (-1, frames)).permute(0, 2, 1, 3, 4, 5)
        values = torch.nn.functional.conv2d(
            channels.flatten(2, 3).flatten(0, 1),
            weight.flatten(1, 2),
            bias,
            stride[1:],
            padding[1:],
        )
        return values.unflatten(0, (input.shape[0], -1)).transpose(1, 2)

    try:
        torch.nn.functional.conv3d = conv3d
        yield
    finally:
        torch.nn.functional.conv3d = original


@contextlib.contextmanager
def _bags() -> Iterator[None]:
    """Replaces weighted sums of embeddings, which ExecuTorch has no kernel for, by their steps."""
    original = torch.nn.functional.embedding_bag

    def embedding_bag(input: torch.Tensor, weight: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        weights = kwargs.get("per_sample_weights")
        if input.dim() != 2 or weights is None or kwargs.keys() - {"per_sample_weights", "mode"}:
            return original(input, weight, **kwargs)
        return (torch.nn.functional.embedding(input, weight) * weights.unsqueeze(-1)).sum(1)

    try:
        torch.nn.functional.embedding_bag = embedding_bag
        yield
    finally:
        torch.nn.functional.embedding_bag = original


@dataclass(frozen=True)
class _Complex:
    """Complex numbers as two tensors of one shape."""

    real: torch.Tensor
    imag: torch.Tensor

    def __mul__(self, other: Any) -> _Complex:
        if not isinstance(other, _Complex):
            return _Complex(self.real * other, self.imag * other)
        return _Complex(
            self.real * other.real - self.imag * other.imag,
            self.real * other.imag + self.imag * other.real,
        )

    def __getitem__(self, index: Any) -> _Complex:
        return _Complex(self.real[index], self.imag[index])

    def __getattr__(self, name: str) -> Any:
        """Of methods that move elements, which do so in both tensors."""
        both = (getattr(self.real, name), getattr(self.imag, name))
        if not callable(both[0]):
            return both[0]
        return lambda *args, **kwargs: _Complex(*[move(*args, **kwargs) for move in both])


@contextlib.contextmanager
def _complex() -> Iterator[None]:
    """Replaces complex numbers, which ExecuTorch has no kernels for, by two tensors.

    Positions turn queries and keys with them.
    """
    originals = {
        name: getattr(torch, name) for name in ("polar", "view_as_complex", "view_as_real")
    }

    def polar(abs: torch.Tensor, angle: torch.Tensor) -> _Complex:
        return _Complex(abs * angle.cos(), abs * angle.sin())

    def view_as_complex(input: torch.Tensor) -> _Complex:
        return _Complex(input[..., 0], input[..., 1])

    def view_as_real(input: Any) -> torch.Tensor:
        if not isinstance(input, _Complex):
            return originals["view_as_real"](input)
        return torch.stack([input.real, input.imag], dim=-1)

    try:
        torch.polar, torch.view_as_complex, torch.view_as_real = (
            polar,
            view_as_complex,
            view_as_real,
        )
        yield
    finally:
        for name, original in originals.items():
            setattr(torch, name, original)


@contextlib.contextmanager
def _sorts() -> Iterator[None]:
    """Replaces sorting, which ExecuTorch has no kernel for, by the largest of all elements."""

    def sort(
        input: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = False
    ) -> Any:
        count = input.shape[dim]
        if input.is_floating_point():
            return torch.topk(input, count, dim, largest=descending)
        # Among equal numbers the first comes first, which `topk` does not promise.
        places = torch.arange(count - 1, -1, -1) if descending else torch.arange(count)
        keys = input.transpose(dim, -1).long() * count + places
        indices = torch.topk(keys, count, largest=descending).indices.transpose(dim, -1)
        return torch.return_types.sort((input.gather(dim, indices), indices))

    def argsort(
        input: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = False
    ) -> torch.Tensor:
        return sort(input, dim, descending).indices

    owners = (torch, torch.Tensor)
    originals = [(owner, owner.sort, owner.argsort) for owner in owners]
    try:
        for owner in owners:
            owner.sort, owner.argsort = sort, argsort
        yield
    finally:
        for owner, *kept in originals:
            owner.sort, owner.argsort = kept


@contextlib.contextmanager
def _slopes() -> Iterator[None]:
    """Replaces PReLU of anything but images, which XNNPACK takes and cannot lower."""
    functional = torch.nn.functional
    original = functional.prelu

    def prelu(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        if input.dim() == 4:
            return original(input, weight)
        slopes = weight if len(weight) == 1 else weight.view(-1, *[1] * (input.dim() - 2))
        return functional.relu(input) - slopes * functional.relu(-input)

    try:
        functional.prelu = prelu
        yield
    finally:
        functional.prelu = original


class _Places(tuple[torch.Tensor, ...]):
    """The places of a mask's elements, and the mask."""

    mask: torch.Tensor


@contextlib.contextmanager
def _writes() -> Iterator[None]:
    """Writes a number where a mask is, not to its places, of which a program has unknown many."""
    where, write = torch.where, torch.Tensor.__setitem__

    def places_or_values(condition: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            return where(condition, *args, **kwargs)
        places = _Places(where(condition))
        places.mask = condition
        return places

    def write_masked(tensor: torch.Tensor, index: Any, value: Any) -> None:
        if isinstance(index, _Places) and not isinstance(value, torch.Tensor):
            mask = index.mask
            tensor.masked_fill_(mask.view(*mask.shape, *[1] * (tensor.dim() - mask.dim())), value)
        else:
            write(tensor, index, value)

    try:
        torch.where, torch.Tensor.__setitem__ = places_or_values, write_masked
        yield
    finally:
        torch.where, torch.Tensor.__setitem__ = where, write


@contextlib.contextmanager
def _masks() -> Iterator[None]:
    """Pads masks of a size that is known at run time, by nothing where they are whole.

    Models that make a mask of the tokens so far have one as long as these; upstream asks whether it
    is shorter than the cache.
    """
    from transformers import masking_utils

    original = masking_utils.prepare_padding_mask

    def prepare_padding_mask(mask: Any, kv_length: int, kv_offset: int) -> Any:
        lengths = () if mask is None else (kv_length, kv_offset, mask.shape[-1])
        if [isinstance(length, torch.SymInt) for length in lengths] != [False, False, True]:
            return original(mask, kv_length, kv_offset)
        positions = torch.arange(kv_length + kv_offset)
        last = torch.full_like(positions, mask.shape[-1] - 1)
        padded = mask.index_select(-1, torch.minimum(positions, last))
        return padded * (positions <= last).to(mask.dtype)

    try:
        masking_utils.prepare_padding_mask = prepare_padding_mask
        yield
    finally:
        masking_utils.prepare_padding_mask = original


def _chunk(input: torch.Tensor, chunks: int, dim: int = 0) -> tuple[torch.Tensor, ...]:
    return _split(input, -(-input.shape[dim] // chunks), dim)


def _split(
    tensor: torch.Tensor, split_size: int | Sequence[int], dim: int = 0
) -> tuple[torch.Tensor, ...]:
    size = tensor.shape[dim]
    if isinstance(split_size, int | torch.SymInt):
        return tuple(
            tensor.narrow(dim, start, min(split_size, size - start))
            for start in range(0, int(size), int(split_size))
        )
    starts = itertools.accumulate(split_size, initial=0)
    return tuple(tensor.narrow(dim, *each) for each in zip(starts, split_size, strict=False))


def _split_or_sections(
    tensor: torch.Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[torch.Tensor, ...]:
    return _split(tensor, split_size_or_sections, dim)


def _unbind(input: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, ...]:
    return tuple(input.select(dim, i) for i in range(int(input.shape[dim])))
