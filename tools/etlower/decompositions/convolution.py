"""Convolutions over three dimensions, as one over two.

The kernel's planes become channels: an output plane is the convolution of the input planes that the
kernel covers, laid behind each other as channels, with a kernel whose planes lie there, too. The
products and sums are the same ones. A transposed convolution gives each input plane's share of all
output planes as channels, which are moved to their places and added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

_ATEN = torch.ops.aten
_Tensor = torch.Tensor
_RANK = 5


def has_volume(node: Node) -> bool:
    """Tells whether a convolution is one over three dimensions."""
    return bool(node.meta["val"].dim() == _RANK)


def _convolution(
    x: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> _Tensor:
    if x.dim() != _RANK:
        return NotImplemented
    stride, padding, dilation = (_three(amounts) for amounts in (stride, padding, dilation))
    extra = _three(output_padding)
    # Both kernels have the planes third: their channels become (channels, planes).
    flat = weight.reshape(weight.shape[0], -1, *weight.shape[3:])
    planes = weight.shape[2]
    inner = (stride[1:], padding[1:], dilation[1:], transposed, extra[1:], groups)
    if not transposed:
        stacked = _covered(x, planes, stride[0], padding[0], dilation[0])
        images = torch.convolution(_images(stacked.flatten(2, 3)), flat, bias, *inner)
        # In rows, as torch's result is, which may be viewed otherwise.
        return _planes(images, x).contiguous()
    shares = torch.convolution(_images(x.transpose(1, 2)), flat, None, *inner)
    # [batch, plane, channel, share, height, width] to [share][batch, channel, plane, …].
    parts = shares.reshape(x.shape[0], x.shape[2], -1, planes, *shares.shape[2:])
    sum_ = _added(parts.permute(3, 0, 2, 1, 4, 5), stride[0], dilation[0], extra[0])
    depth = sum_.shape[2] - 2 * padding[0]
    result = sum_.narrow(2, padding[0], depth)
    return result if bias is None else result + bias.view(-1, 1, 1, 1)


def _three(amounts: Sequence[int]) -> list[int]:
    return list(amounts) * 3 if len(amounts) == 1 else list(amounts)


def _covered(x: _Tensor, planes: int, stride: int, padding: int, dilation: int) -> _Tensor:
    """The planes that a kernel covers: [batch, output plane, channel, plane, height, width]."""
    if padding:
        x = torch.constant_pad_nd(x, [0, 0, 0, 0, padding, padding])
    reach = x.shape[2] - dilation * (planes - 1)
    taps = [x[:, :, n * dilation : n * dilation + reach : stride] for n in range(planes)]
    return torch.stack(taps, 2).permute(0, 3, 1, 2, 4, 5)


def _images(x: _Tensor) -> _Tensor:
    """[batch, plane, channel, height, width] with the planes beside each other in the batch."""
    return x.reshape(-1, *x.shape[2:])


def _planes(images: _Tensor, like: _Tensor) -> _Tensor:
    """Images of a batch as [batch, channel, plane, height, width]."""
    return images.reshape(like.shape[0], -1, *images.shape[1:]).transpose(1, 2)


def _added(shares: _Tensor, stride: int, dilation: int, extra: int) -> _Tensor:
    """The sum of shares [share, batch, channel, plane, …], each at its place in depth."""
    total: Any = None
    for number in range(shares.shape[0]):
        x = shares[number]
        if stride > 1:
            spread = torch.constant_pad_nd(x.unsqueeze(3), [0, 0, 0, 0, 0, stride - 1])
            x = spread.flatten(2, 3).narrow(2, 0, (x.shape[2] - 1) * stride + 1)
        after = (shares.shape[0] - 1 - number) * dilation + extra
        x = torch.constant_pad_nd(x, [0, 0, 0, 0, number * dilation, after])
        total = x if total is None else total + x
    return total


TABLE: Mapping[OpOverload, Callable[..., Any]] = {_ATEN.convolution.default: _convolution}
