"""Searches the range of a histogram in floats of Python instead of tensors.

Replaces `HistogramObserver._non_linear_param_search` of torchao. It walks from both ends of the
values towards each other, a hundred-thousandth of them at a time, and at each step compares two
elements of a tensor: seconds for values that are few or mostly equal, such as masks.

Why it is equivalent: an element of the sums is compared with the same number in 32 bits, to which
torch rounds the other side. What a range costs is computed by upstream's own function.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy
import torch
from etlower.replacing import replaced

from etfast.unit import Unit

_MODULE = "torchao.quantization.pt2e.observer"
_STEP = 1e-5


def _searched(observer: Any) -> tuple[int, int]:
    """The first and the last bin of the range."""
    total = observer.histogram.sum().item()
    sums = observer.histogram.cumsum(0).tolist()
    below, above, least = 0.0, 1.0, float("inf")
    first, last = 0, observer.bins - 1
    while below < above:
        less, more = below + _STEP, above - _STEP
        begin, end = first, last
        bound = float(numpy.float32(less * total))
        while begin < last and sums[begin] < bound:
            begin += 1
        bound = float(numpy.float32(more * total))
        while end > first and sums[end] > bound:
            end -= 1
        if begin - first > last - end:
            below, end = less, last
        else:
            above, begin = more, first
        if (begin, end) == (first, last):
            continue
        error = observer._compute_quantization_error(begin, end)
        if error > least:
            break
        least, first, last = error, begin, end
    return first, last


def _install() -> contextlib.AbstractContextManager[None]:
    from torchao.quantization.pt2e.observer import HistogramObserver

    upstream = HistogramObserver._non_linear_param_search

    def search(self: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if self.histogram.dtype != torch.float32 or self.histogram.shape != (self.bins,):
            return upstream(self)
        width = (self.max_val - self.min_val) / self.bins
        first, last = _searched(self)
        return self.min_val + width * first, self.min_val + width * (last + 1)

    return replaced((HistogramObserver, "_non_linear_param_search", search))


UNIT = Unit(
    name="histogram_search",
    relies_on={_MODULE: {"HistogramObserver._non_linear_param_search": "9306a687ba73"}},
    install=_install,
    needs=(_MODULE,),
)
