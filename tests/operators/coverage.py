"""Operators of core ATen that the nets reach, when they are decomposed as an export does it.

Every one of them must be tried, or have a reason in `LEFT_OUT` not to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from tests.operators.nets import Net

_ATEN = "aten::"

# Operator to the reason why no net has it.
_REASONS: Mapping[str, tuple[str, ...]] = {
    "gradients, for programs that train": (
        "_adaptive_avg_pool2d_backward.default", "avg_pool2d_backward.default",
        "convolution_backward.default", "embedding_dense_backward.default",
        "native_group_norm_backward.default", "native_layer_norm_backward.default",
        "_embedding_bag.default",
    ),
    "random numbers": (
        "native_dropout.default", "rand.default", "randn.default", "randperm.default",
    ),
    "memory that nothing was written to, or its size": ("empty_strided.default", "resize_.default"),
    "complex numbers": ("_fft_c2r.default", "_fft_r2c.default"),
    "sizes, not tensors": (
        "sym_is_contiguous.default", "sym_numel.default", "sym_size.int",
        "sym_storage_offset.default", "sym_stride.int",
    ),
    "what torch calls only where an export keeps it whole; nn.functional has nets of it": (
        "adaptive_avg_pool1d.default", "avg_pool1d.default", "upsample_bilinear2d.vec",
        "upsample_nearest2d.vec", "var.dim",
    ),
    "a result that the caller gives; the functional form has nets": ("atan2.out",),
}  # fmt: skip
LEFT_OUT = {f"aten.{name}": reason for reason, names in _REASONS.items() for name in names}


def untried(nets: Iterable[Net]) -> list[str]:
    """Operators of core ATen that no net reaches and that have no reason.

    Args:
      nets: those of the table.

    Returns:
      Names with overload, sorted: "aten.add.Tensor".
    """
    seen = _Seen()
    for net in nets:
        try:
            with torch.no_grad(), seen:
                net.function(*(value.clone() for value in net.inputs), *net.weights)
        except Exception:  # noqa: S112
            # Torch's decompositions do not take all that its operators take.
            continue
    return sorted(core() - seen.names - LEFT_OUT.keys())


def core() -> set[str]:
    """Names of all operators that torch tags as core ATen."""
    names = set()
    for full in torch._C._dispatch_get_all_op_names():
        if full.startswith(_ATEN):
            packet, _, overload = full.removeprefix(_ATEN).partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if torch.Tag.core in op.tags:
                names.add(str(op))
    return names


class _Seen(TorchDispatchMode):
    """Notes operators that are called, and decomposes those that are not core ATen.

    Attributes:
      names: of operators.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self._table: Mapping[Any, Any] = torch.export.default_decompositions()

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.names.add(str(func))
        if torch.Tag.core not in func.tags and func in self._table:
            with self:
                result = self._table[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
        return func(*args, **kwargs)
