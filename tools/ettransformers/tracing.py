"""What transformers' own exporter replaces while a model is traced for ExecuTorch.

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

    with apply_patches("dynamo"), apply_patches("executorch"), _slices():
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
        yield
    finally:
        for (owner, name), original in originals.items():
            setattr(owner, name, original)


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


def _unbind(input: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, ...]:
    return tuple(input.select(dim, i) for i in range(int(input.shape[dim])))
