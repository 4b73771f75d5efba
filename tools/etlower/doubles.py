"""Numbers beside 64-bit floats keep their 64 bits, and those beside single tensors get its type.

Upstream's pass makes a tensor of a number that an operator takes as one, always in 32 bits, or of
64-bit integers: beside doubles `x * 0.1` is off by 1e-9, and beside a tensor of fewer bits without
dimensions the result has as many. A number that 32 bits hold stays as upstream makes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from executorch.exir.pass_base import ProxyValue, map_args
from executorch.exir.passes.scalar_to_tensor_pass import ScalarToTensorPass
from torch.utils import _pytree as pytree

from etlower.replacing import replaced

# Types of whole numbers of less than 64 bits.
_SHORT = frozenset({torch.int8, torch.int16, torch.int32, torch.uint8})
_upstreams = ScalarToTensorPass.call_operator


@contextlib.contextmanager
def exact_numbers() -> Iterator[None]:
    """Makes upstream's pass do so."""
    with replaced((ScalarToTensorPass, "call_operator", _call_operator)):
        yield


def _call_operator(self: Any, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
    given = (v.data for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, ProxyValue))
    values = [v for v in given if isinstance(v, torch.Tensor)]
    floats = {v.dtype for v in values if v.is_floating_point()}
    types, are_single = {v.dtype for v in values}, all(v.dim() == 0 for v in values)
    if torch.float64 in floats:
        args, kwargs = map_args(op, _exact, args, kwargs)
    elif are_single and floats in ({torch.float16}, {torch.bfloat16}):
        args, kwargs = map_args(op, _of_type(*floats, float), args, kwargs)
    elif are_single and len(types) == 1 and types < _SHORT:
        args, kwargs = map_args(op, _of_type(*types, int), args, kwargs)
    return _upstreams(self, op, args, kwargs, meta)


def _of_type(dtype: torch.dtype, kind: type) -> Callable[[Any, Any], Any]:
    """Makes tensors of a type of the numbers of a kind that the type holds."""

    def function(value: Any, argument: Any) -> Any:
        if type(value) is not kind or not isinstance(argument.type, torch.TensorType):
            return value
        if kind is int and not torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max:
            return value
        with torch.utils._python_dispatch._disable_current_modes():
            return torch.tensor(value, dtype=dtype)

    return function


def _exact(value: Any, argument: Any) -> Any:
    if not isinstance(value, float) or not isinstance(argument.type, torch.TensorType):
        return value
    with torch.utils._python_dispatch._disable_current_modes():
        is_held = torch.tensor(value, dtype=torch.float32).item() == value or value != value
        return value if is_held else torch.tensor(value, dtype=torch.float64)
