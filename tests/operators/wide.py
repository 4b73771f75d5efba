"""Nets of functions of floats from a thousandth to ten thousand, of both signs.

Torch's own samples lie between -10 and 10. Delegates that compute with 16 bits, or by tables and
polynomials, go wrong beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tests.operators.nets import Net, described


def nets() -> Iterator[Net]:
    """All nets, of one function each, in the order of their names."""
    made = {**_of_elements(), **_of_pairs(), **_of_rows()}
    for name, (function, inputs) in sorted(made.items()):
        shapes = ", ".join(map(described, inputs))
        yield Net(f"{name} of wide numbers", f"float32: {shapes}", function, tuple(inputs))


_Nets = Mapping[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]]


def _numbers(least: float, most: float) -> torch.Tensor:
    """Numbers between two, closer to each other where they are smaller, and some whole ones."""
    sizes = torch.logspace(-3, 4, 71)
    both = torch.cat([sizes, -sizes, torch.arange(-130.0, 130.0), torch.zeros(1)])
    return both[(both >= least) & (both <= most)]


_ANY = _numbers(-1e4, 1e4)
_POSITIVE = _numbers(1e-3, 1e4)
_BELOW_11 = _numbers(-1e4, 10.5)
_UNIT = torch.linspace(-1, 1, 101)
_TURNS = torch.linspace(-8, 8, 101)


_PAIRWISE = ["add", "sub", "mul", "div", "maximum", "atan2", "hypot", "logaddexp", "logaddexp2"]
_REDUCING = [
    "sum",
    "mean",
    "amax",
    "amin",
    "logsumexp",
    "softmax",
    "log_softmax",
    "cumsum",
    "logcumsumexp",
]


def _of_last(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(x, dim=-1)


def _of_elements() -> _Nets:
    named = {
        "abs ceil floor neg relu sign trunc sigmoid tanh atan erf erfc asinh": (torch, _ANY),
        "gelu silu mish softplus elu selu celu leaky_relu hardswish hardsigmoid hardtanh relu6"
        " softsign tanhshrink softshrink hardshrink logsigmoid": (F, _ANY),
        "exp expm1": (torch, _BELOW_11),
        "sqrt rsqrt log log2 log10 log1p reciprocal": (torch, _POSITIVE),
        "asin acos": (torch, _UNIT),
        "atanh": (torch, _UNIT * 0.99),
        "acosh": (torch, _numbers(1, 1e4)),
        "sin cos": (torch, _TURNS),
        "tan": (torch, _TURNS[(_TURNS.cos().abs() > 0.1)]),
        "sinh cosh": (torch, _TURNS),
        "square": (torch, _numbers(-250, 250)),
        "exp2": (torch, _numbers(-1e4, 15)),
    }
    found: dict[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]] = {
        name: (getattr(space, name), [x])
        for names, (space, x) in named.items()
        for name in names.split()
    }
    return found | {
        "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), [_ANY]),
        "power of two": (lambda x: 2.0**x, [_numbers(-1e4, 15)]),
        "power of a half": (lambda x: 0.5**x, [_numbers(-15, 1e4)]),
        "third power": (lambda x: x**3, [_numbers(-40, 40)]),
        "Gaussian": (lambda x: torch.exp(-x * x), [_numbers(-250, 250)]),
    }


def _of_pairs() -> _Nets:
    some = torch.logspace(-2, 2, 11)
    some = torch.cat([some, -some])
    pairs = [some.repeat_interleave(len(some)), some.repeat(len(some))]
    found: dict[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]] = {
        name: (getattr(torch, name), pairs)
        for name in [
            "add",
            "sub",
            "mul",
            "div",
            "maximum",
            "atan2",
            "hypot",
            "logaddexp",
            "logaddexp2",
        ]
    }
    return found | {
        "squared difference": (lambda x, y: (x - y) ** 2, pairs),
        "binary_cross_entropy_with_logits": (
            lambda x, y: F.binary_cross_entropy_with_logits(x, torch.sigmoid(y)),
            pairs,
        ),
    }


def _of_rows() -> _Nets:
    scales = torch.tensor([1e-3, 1.0, 30.0, 300.0]).view(4, 1, 1)
    order = torch.randperm(192, generator=torch.Generator().manual_seed(0)).view(4, 6, 8)
    rows = (order - 95.5) / 60 * scales
    picture = rows.view(4, 6, 2, 4)
    found: dict[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]] = {
        name: (_of_last(getattr(torch, name)), [rows]) for name in _REDUCING
    }
    return found | {
        "norm": (lambda x: torch.linalg.vector_norm(x, 2, -1), [rows]),
        "normalize": (lambda x: F.normalize(x, dim=-1), [rows]),
        "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y, -1), [rows, rows.flip(1)]),
        "pairwise_distance": (F.pairwise_distance, [rows, rows.flip(1)]),
        "cdist": (torch.cdist, [rows, rows.flip(1)]),
        "layer_norm": (lambda x: F.layer_norm(x, (8,)), [rows]),
        "rms_norm": (lambda x: F.rms_norm(x, (8,)), [rows]),
        "group_norm": (lambda x: F.group_norm(x, 2), [picture]),
        "group_norm of rows": (lambda x: F.group_norm(x, 2), [rows]),
        "instance_norm": (F.instance_norm, [picture]),
        "instance_norm of rows": (F.instance_norm, [rows]),
        "attention": (
            lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
            [rows[1:3]],
        ),
    }
