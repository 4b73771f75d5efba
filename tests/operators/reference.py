"""The eager model's numbers that a program is compared with, and how far it may be from them.

Floats are computed in float64; whole numbers and booleans in their own type, where they are exact.
A program may miss the exact numbers by three things, each an upper bound that is small beside an
error of a formula: the steps of its own type (`_STEPS`), what torch's own kernels in that type miss
them by (ill-conditioned sums, products of many factors), and, if it is quantized, steps of 8 bits.
A quantized program is compared with its quantized graph. Where it errs from the eager model by no
more than that graph, as what a delegate leaves to kernels of floats, nothing is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tests.operators.nets import Net, tensors

# Of a number's own size and, near zero, of 1: delegates approximate exp, tanh and their kind by
# polynomials that are good to a few steps, and sum up in other orders.
_STEPS = 128
# How many times torch's own error: other kernels cut sums in other places.
_OWN_ERROR = 4
# Of a type that has few steps, of a number's own size and of the numbers around it: sums and tables
# in that type.
_LOWER_STEPS = 16
# Of the output's range: a sum that is rounded to the other side is a step of 8 bits away, and one
# such step of an operator's input may be another one of its output. Where a function is steep it
# may be more, but few sums are rounded to the other side: the mean of the whole output shows it.
_QUANTIZED = 3 / 255
_RARE = 0.012


def outputs(net: Net, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The eager model's outputs in its own types."""
    with torch.no_grad():
        return [t.detach().clone() for t in tensors(net.function(*_copied(inputs), *net.weights))]


def rounded(
    net: Net, inputs: Sequence[torch.Tensor], precision: torch.dtype
) -> list[torch.Tensor] | None:
    """The eager model's outputs if it computed in another type; None: it cannot."""
    got = _in_type(net, inputs, precision)
    return got and [v.to(precision) if v.is_floating_point() else v for v in got]


def exact(net: Net, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    """The outputs in float64; None: the function has no kernel for it, or returns others."""
    return _in_type(net, inputs, torch.float64)


def _in_type(
    net: Net, inputs: Sequence[torch.Tensor], dtype: torch.dtype
) -> list[torch.Tensor] | None:
    function: Any = net.function
    if isinstance(function, torch.nn.Module):
        import copy

        function = copy.deepcopy(function).to(dtype)
    try:
        with torch.no_grad():
            values = [*_copied(inputs), *net.weights]
            got = function(*(v.to(dtype) if v.is_floating_point() else v for v in values))
    except Exception:
        return None
    return [t.detach() for t in tensors(got)]


def difference(
    got: Sequence[torch.Tensor],
    own: Sequence[torch.Tensor],
    exactly: Sequence[torch.Tensor] | None,
    rounded: Sequence[torch.Tensor] | None = None,
    eager: Sequence[torch.Tensor] | None = None,
) -> str:
    """Describes what a program's outputs differ by, in short; empty: by nothing that counts.

    Args:
      got: the program's outputs.
      own: the eager model's.
      exactly: the same in float64, or None.
      rounded: the eager model's in the type that the program's backend computes 32-bit floats in.
      eager: the eager model's, where `own` are those of a quantized graph.
    """
    if len(got) != len(own):
        return f"{len(got)} outputs instead of {len(own)}"
    for place, (a, b) in enumerate(zip(got, own, strict=True)):
        c = exactly[place] if exactly and len(exactly) == len(own) else None
        d = rounded[place] if rounded and len(rounded) == len(own) else None
        e = eager[place] if eager and len(eager) == len(own) else None
        said = _difference(a, b, c, d, e is not None)
        if said and not (e is not None and _errs_less(a, b, e)):
            return said
    return ""


def _difference(
    got: torch.Tensor,
    own: torch.Tensor,
    exactly: torch.Tensor | None,
    rounded: torch.Tensor | None,
    is_quantized: bool,
) -> str:
    if got.shape != own.shape:
        return f"shape {tuple(got.shape)} instead of {tuple(own.shape)}"
    if got.dtype != own.dtype:
        return f"{str(got.dtype)[6:]} instead of {str(own.dtype)[6:]}"
    if not own.numel() or torch.equal(got, own):
        return ""
    if not own.dtype.is_floating_point:
        wrong = (got != own).sum().item()
        largest = (got.double() - own.double()).abs().max().item()
        return f"{wrong} of {own.numel()} differ, by up to {largest:.3g}"
    a, b = got.double(), own.double()
    if rounded is not None and rounded.shape == own.shape and rounded.is_floating_point():
        # What that type does not hold says nothing.
        held = torch.isfinite(rounded.double())
        held &= b.abs() <= torch.finfo(rounded.dtype).max
        a = torch.where(held, a, b)
    finite = torch.isfinite(b)
    same = (a == b) | (torch.isnan(a) & torch.isnan(b))
    if not same[~finite].all():
        return "other infinities or NaN"
    if not torch.isfinite(a[finite]).all():
        return "infinities or NaN"
    a, b = a[finite], b[finite]
    c = b
    if exactly is not None and exactly.shape == own.shape and not exactly.is_complex():
        c = exactly.double()[finite]
        c = torch.where(torch.isfinite(c), c, b)
    wrong_by = (a - c).abs()
    allowed = torch.finfo(own.dtype).eps * _STEPS * (c.abs() + 1)
    allowed += _OWN_ERROR * ((b - c).abs().max() if b.numel() else 0)
    if rounded is not None and rounded.shape == own.shape and rounded.is_floating_point():
        steps = torch.finfo(rounded.dtype).eps
        less_exact = (rounded.double()[finite] - c).abs()
        less_exact = less_exact[torch.isfinite(less_exact)]
        allowed += _LOWER_STEPS * steps * (c.abs() + c.abs().mean())
        allowed += _OWN_ERROR * (less_exact.max() if less_exact.numel() else 0)
    if is_quantized and b.numel():
        allowed += _QUANTIZED * (b.max() - b.min()).clamp(min=b.abs().max())
    is_rare = is_quantized and _rms(wrong_by) <= _RARE * _rms(b)
    if is_rare or (wrong_by <= allowed).all():
        return ""
    return f"up to {wrong_by.max().item():.2g}"


def _errs_less(got: torch.Tensor, own: torch.Tensor, eager: torch.Tensor) -> bool:
    """Tells whether a program errs from the eager model by no more than its quantized graph."""
    if not got.shape == own.shape == eager.shape or got.dtype != eager.dtype:
        return False
    if not got.is_floating_point():
        return torch.equal(got, eager)
    finite = torch.isfinite(eager)
    if not torch.equal(got[~finite].nan_to_num(0.5), eager[~finite].nan_to_num(0.5)):
        return False
    errors = [(each.double() - eager.double())[finite] for each in (got, own)]
    # NaN and infinities of a program are compared as such.
    return bool(_rms(errors[0]) <= _rms(errors[1]) + torch.finfo(eager.dtype).eps)


def _rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())


def _copied(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    # Some operators write into what they are given.
    return [value.clone() for value in values]
