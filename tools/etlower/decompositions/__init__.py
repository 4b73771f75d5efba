"""Operators of ATen's that no library has a kernel for, as functions of operators that have one.

Upstream's table of decompositions ends at core ATen, and its runtime has kernels for less and for
more than that. `TABLE` has what both lack: a program with such an operator would be refused when it
is linked. An entry takes the operator's own arguments, and returns NotImplemented for those that it
does not cover. It is used where no partitioner takes the operator (`undelegated.py`).

Values are eager's. Of equal ones, an index may be another one than eager's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from etlower.decompositions import (
    convolution,
    embeddings,
    losses,
    pointwise,
    pooling,
    scans,
    scattering,
    sorting,
)

TABLE: Mapping[OpOverload, Callable[..., Any]] = {
    **convolution.TABLE,
    **embeddings.TABLE,
    **losses.TABLE,
    **pointwise.TABLE,
    **pooling.TABLE,
    **scans.TABLE,
    **scattering.TABLE,
    **sorting.TABLE,
}

# Of operators whose kernel takes some calls only: which ones it does not.
LACKING: Mapping[OpOverload, Callable[[Node], bool]] = {
    torch.ops.aten.convolution.default: convolution.has_volume,
    torch.ops.aten.sign.default: pointwise.is_sign_of_floats,
    torch.ops.aten.sum.dim_IntList: pointwise.is_unsummed,
    torch.ops.aten.var_mean.correction: pointwise.has_few,
}
