"""Nets from torch's own table of operators, which has samples of arguments for each of them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tests.operators.nets import Net, described

# Type of inputs to the number of samples of an operator.
COUNTS = {
    torch.float32: 6,
    torch.int64: 1,
    torch.float16: 1,
    torch.int32: 1,
    torch.bool: 1,
}

# Whose results are no function of their inputs, or are no numbers that a program returns.
LEFT_OUT = {
    "random numbers": (
        "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal*",
        "rand*_like", "uniform", "nn.functional.*dropout*", "nn.functional.rrelu", "pca_lowrank",
        "svd_lowrank", "nn.functional.fractional_max_pool*", "rand*",
    ),
    "memory that nothing was written to": ("empty*", "new_empty*"),
    "sparse or nested tensors": ("sparse.*", "to_sparse"),
    "complex numbers": (
        "view_as_complex", "view_as_real", "complex", "polar", "*fft*", "stft", "istft", "cdouble",
        "cfloat", "chalf",
    ),
    "no tensor as a result": ("allclose", "equal", "item", "is_*"),
    "sizes of storage": ("resize_*", "as_strided*"),
    "CUDA": ("torch.ops.aten._flash*", "torch.ops.aten._efficient*", "jiterator*"),
    "other graphs than operators": ("cond", "while_loop*", "map*", "scan*", "associative_scan*"),
}  # fmt: skip

# Whose arguments but the first are weights in most models; delegates take them as constants only.
WEIGHTED = (
    "nn.functional.conv*", "nn.functional.linear", "nn.functional.bilinear", "nn.functional.prelu",
    "nn.functional.*_norm", "nn.functional.embedding", "native_layer_norm", "native_batch_norm",
    "addmm", "baddbmm", "mm", "matmul", "bmm", "add", "sub", "mul", "div",
)  # fmt: skip


def nets(operators: Sequence[str], dtypes: Sequence[str] = ()) -> Iterator[Net]:
    """Nets of torch's operators.

    Args:
      operators: patterns of names.
      dtypes: types of inputs; empty: all of `COUNTS`.
    """
    # Takes seconds, and package `expecttest`.
    from torch.testing._internal.common_methods_invocations import op_db

    for entry in sorted(op_db, key=_name):
        name = _name(entry)
        if not any(fnmatch(name, pattern) for pattern in operators) or _left_out(name):
            continue
        for dtype, count in COUNTS.items():
            if dtype in entry.dtypes and (not dtypes or str(dtype)[6:] in dtypes):
                yield from _of_entry(entry, name, dtype, count)


def _name(entry: Any) -> str:
    return entry.name + (f"/{entry.variant_test_name}" if entry.variant_test_name else "")


def _left_out(name: str) -> bool:
    return any(fnmatch(name, p) for patterns in LEFT_OUT.values() for p in patterns)


def _of_entry(entry: Any, name: str, dtype: torch.dtype, count: int) -> Iterator[Net]:
    seed = f"{name} {dtype}"
    numbers = random.Random(seed)
    torch.manual_seed(numbers.getrandbits(32))
    np.random.seed(numbers.getrandbits(32))
    random.seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # `sample_inputs` around it looks for its test in the callers' sources, which takes minutes.
        samples = list(entry.sample_inputs_func(entry, "cpu", dtype, False))
    chosen = sorted(numbers.sample(range(len(samples)), min(count, len(samples))))
    for place in chosen:
        net = _net(entry, name, dtype, place, samples[place])
        if net is None:
            continue
        yield net
        if len(net.inputs) > 1 and dtype.is_floating_point and _is_weighted(name):
            yield Net(
                name, f"{net.parameters}, constants", net.function, net.inputs[:1], net.inputs[1:]
            )


def _is_weighted(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in WEIGHTED)


def _net(entry: Any, name: str, dtype: torch.dtype, place: int, sample: Any) -> Net | None:
    """A sample's net; None: it has no tensors, or eager itself refuses it."""
    arguments = (sample.input, *sample.args)
    flat, tree = pytree.tree_flatten((arguments, sample.kwargs))
    places = [n for n, v in enumerate(flat) if isinstance(v, torch.Tensor)]
    inputs = tuple(flat[n].detach().clone().contiguous() for n in places)
    if not inputs or any(value.is_complex() for value in inputs):
        return None
    constants = [None if n in places else v for n, v in enumerate(flat)]

    def function(*values: torch.Tensor) -> Any:
        filled = list(constants)
        for n, value in zip(places, values, strict=True):
            filled[n] = value
        args, kwargs = pytree.tree_unflatten(filled, tree)
        return entry.op(*args, **kwargs)

    said = ", ".join(filter(None, [*map(described, arguments), described(sample.kwargs)]))
    parameters = f"{str(dtype)[6:]} {place}: {said}"[:160]
    return Net(name, parameters, function, inputs)
