"""Half-quadratic quantization (HQQ) of weights block by block, in the processor's cache.

Replaces torchao's function, which makes twenty passes over a whole matrix, each with half a dozen
results of the matrix's size in memory: 240 ns for each weight, most of the time that a model of a
billion weights takes.

Why it is equivalent: the scale of a group of weights is computed out of this group alone, by the
same operations on the same numbers in the same order. Only the end depends on all groups: the
iteration at which no scale of the matrix changes by more than a tolerance. So each block keeps the
scales of its iterations and the largest change of each, until they repeat themselves; then the
iteration at which upstream would have stopped is known, and with it the scales.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from typing import Any

import torch
from etlower.replacing import replaced

from etfast.unit import Unit

_MODULE = "torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor"
_NAME = "_choose_qparams_and_quantize_scale_only_hqq"
# Weights of a block: its float32 values and two results of their size fit into a core's cache.
_BLOCK = 1 << 18
# Sums of shorter groups are vectorized over groups, so that their rounding depends on the shape.
_LEAST_GROUP = 16
_ITERATIONS, _TOLERANCE = 20, 1e-5
_EPS = torch.finfo(torch.float32).eps


class _Block:
    """Some groups of weights, and their scales after each iteration.

    A group whose scale has repeated itself keeps it, so that later iterations leave it out.

    Args:
      weights: [groups, group size], of any floating type.
      bounds: the least and the largest quantized value.
      scratch: two buffers of float32, as large as the weights, which blocks share.
    """

    def __init__(
        self,
        weights: torch.Tensor,
        bounds: tuple[int, int],
        scratch: tuple[torch.Tensor, torch.Tensor],
    ) -> None:
        self.scales: list[torch.Tensor] = []
        self._changes: list[bool] = []
        self._bounds, self._scratch = bounds, scratch
        self._source, self._weights = weights, weights.to(torch.float32)
        qabs = max(abs(bound) for bound in bounds) or 1
        self._scale = (self._weights.abs().amax(dim=1) / qabs).clamp_min(_EPS)
        # The groups whose scales still change; None: all.
        self._moving: torch.Tensor | None = None

    def advance(self, number: int) -> bool:
        """Computes the scales up to iteration `number`, from 0; whether that one changes little."""
        while len(self._changes) <= number and len(self._weights):
            self._iterate()
        return number >= len(self._changes) or self._changes[number]

    def first(self) -> int:
        """The first iteration that changes little, or the last one."""
        return next((n for n in range(_ITERATIONS) if self.advance(n)), _ITERATIONS - 1)

    def data(self, number: int) -> torch.Tensor:
        """The weights as integers after iteration `number`."""
        self._weights = self._source.to(torch.float32)
        return self._quantized(self.scale(number)).to(torch.int32)

    def scale(self, number: int) -> torch.Tensor:
        """The scales after iteration `number`."""
        return self.scales[min(number, len(self.scales) - 1)]

    def _quantized(self, scale: torch.Tensor) -> torch.Tensor:
        out = self._scratch[0][: len(scale)]
        return torch.div(self._weights, scale.unsqueeze(1), out=out).round_().clamp_(*self._bounds)

    def _iterate(self) -> None:
        weights, previous = self._weights, self._scale
        products = self._scratch[1][: len(weights)]
        quantized = self._quantized(previous)
        numerator = torch.mul(weights, quantized, out=products).sum(dim=1)
        denominator = torch.mul(quantized, quantized, out=products).sum(dim=1)
        scale = torch.where(denominator > 0, numerator / denominator, previous)
        scale = scale.clamp_min(_EPS).abs()
        change = scale - previous
        largest = (change.abs() / previous.clamp_min(_EPS)).max()
        self._changes.append(bool(largest < _TOLERANCE))
        moving = self._moving
        if moving is None:
            self.scales.append(scale)
        else:
            self.scales.append(self.scales[-1].index_copy(0, moving, scale))
        # Also those that are no numbers.
        kept = (change != 0).nonzero().squeeze(1)
        if 2 * len(kept) <= len(scale):
            scale, self._weights = scale[kept], weights[kept]
            self._moving = kept if moving is None else moving[kept]
        self._scale = scale


def quantize(
    hp_tensor: torch.Tensor, block_size: Sequence[int], qmin: int, qmax: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantizes a matrix on the CPU.

    Args:
      hp_tensor: [rows, columns], of any floating type.
      block_size: [1, group size]; the columns are a multiple of it.
      qmin: the least quantized value.
      qmax: the largest one.

    Returns:
      int8 [rows, columns], and the scales [rows, groups in a row] in the matrix's type.
    """
    (rows, columns), group = hp_tensor.shape, block_size[1]
    pieces = hp_tensor.detach().contiguous().view(-1, group).split(max(1, _BLOCK // group))
    scratch = torch.empty((2, *pieces[0].shape), dtype=torch.float32)
    blocks = [_Block(piece, (qmin, qmax), (scratch[0], scratch[1])) for piece in pieces]
    last = max(block.first() for block in blocks)
    while last < _ITERATIONS - 1 and not all([block.advance(last) for block in blocks]):
        last += 1
    data = torch.empty((rows * columns // group, group), dtype=torch.int8)
    for block, out in zip(blocks, data.split(len(pieces[0])), strict=True):
        block.advance(last)
        out.copy_(block.data(last))
    scale = torch.cat([block.scale(last) for block in blocks]).view(rows, columns // group)
    return data.view(rows, columns), scale.to(hp_tensor.dtype)


def _fits(tensor: Any, block_size: Any, qmin: int, qmax: int) -> bool:
    """Tells whether `quantize` takes this: as upstream, and no more than was compared with it."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.is_floating_point()
        and not (tensor.requires_grad and torch.is_grad_enabled())
        and tensor.ndim == 2
        and tensor.numel() > 0
        and len(block_size) == 2
        and block_size[0] == 1
        and block_size[1] >= _LEAST_GROUP
        and tensor.shape[1] % block_size[1] == 0
        and -128 <= qmin < qmax <= 127
    )


def _install() -> contextlib.AbstractContextManager[None]:
    module = importlib.import_module(_MODULE)
    upstream = getattr(module, _NAME)

    def function(hp_tensor: Any, block_size: Any, qmin: int, qmax: int, **options: Any) -> Any:
        if options or not _fits(hp_tensor, block_size, qmin, qmax):
            return upstream(hp_tensor, block_size, qmin, qmax, **options)
        return quantize(hp_tensor, block_size, qmin, qmax)

    return replaced((module, _NAME, function))


UNIT = Unit(
    name="hqq",
    relies_on={
        "torchao.quantization.quant_primitives": {_NAME: "10aca3ea066078ff"},
        _MODULE: {"IntxUnpackedToInt8Tensor.from_hp": "32fcba67f787e098"},
    },
    install=_install,
)
