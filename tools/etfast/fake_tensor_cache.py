"""Keeps the shapes of quantizing operators' results, as torch does for its own operators.

Replaces a check of torch's cache of fake results, which takes only operators that come with torch.
Those of torchao and of PT2E (`choose_qparams_affine`, `quantize_per_channel` …) are run through
their Python code on fake tensors each time, twenty operators for one.

Why it is equivalent: these operators' results have shapes and types that depend on those of their
arguments alone, which is what the cache asks of an operator; all its other checks stay. Only
operators are let in that neither write to nor return their arguments.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from etlower.replacing import replaced
from torch._subclasses.fake_tensor import FakeTensorMode

from etfast.unit import Unit

_NAMESPACES = frozenset({"torchao", "quantized_decomposed"})
_REFUSED = frozenset(
    {
        torch.Tag.data_dependent_output,
        torch.Tag.dynamic_output_shape,
        torch.Tag.inplace_view,
    }
)


def depends_on_shapes(function: Any) -> bool:
    """Tells whether an operator is one of those whose results' shapes may be kept."""
    if not isinstance(function, torch._ops.OpOverload) or function.namespace not in _NAMESPACES:
        return False
    schema = function._schema
    aliased = any(a.alias_info is not None for a in (*schema.arguments, *schema.returns))
    return not (aliased or function.is_view or _REFUSED & set(function.tags))


def _install() -> contextlib.AbstractContextManager[None]:
    upstream = FakeTensorMode._validate_cache_key

    def _validate_cache_key(self: Any, func: Any, args: Any, kwargs: Any) -> None:
        if not depends_on_shapes(func):
            upstream(self, func, args, kwargs)

    return replaced((FakeTensorMode, "_validate_cache_key", _validate_cache_key))


UNIT = Unit(
    name="fake_tensor_cache",
    relies_on={
        "torch._subclasses.fake_tensor": {
            "FakeTensorMode._validate_cache_key": "6e680de04c253ada",
            "FakeTensorMode._cached_dispatch_impl": "adf4bc424fae16f3",
            "FakeTensorMode._make_cache_entry": "acbd9c87030fe241",
        },
    },
    install=_install,
)
