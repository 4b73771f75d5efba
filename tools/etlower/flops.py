"""Floating-point operations of a node, from the shapes that it is traced with.

Contractions count each multiplication and each addition; all else counts one operation for each
element that it makes, a reduction for each that it takes. Moving data and arithmetic on indices
count nothing.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable

import torch
from executorch.exir.sym_util import eval_upper_bound
from torch.fx import Node

from etlower import operators

# By the operator's name without namespace, overload, "_copy" and underscores around it.
_MOVED = re.compile(
    r"""
    (un)?(bind|flatten|fold|squeeze) | (unsafe_)?view(_as)? | (un)?pixel_(un)?shuffle
    | (new_)?(empty|full|ones|zeros)(_dim_order|_like|_permuted|_strided)? | eye | arange | fill
    | scalar_tensor | lift_fresh | alias | detach | contiguous | convert_element_type | copy | to
    | clone | (clone|to)_dim_order | as_strided | (narrow|slice|select|diagonal)(_scatter)?
    | expand(_as)? | cat | chunk | stack | split(_with_sizes)? | tile | repeat(_interleave)?
    | (constant_|reflection_|replication_)?pad(_?\dd|_nd)? | permute | transpose | movedim | t
    | flip | roll | rot90 | reshape | embedding | gather | nonzero | where | tril | triu
    | (index|masked)(_put|_select|_fill|_scatter)? | scatter | update_cache(_with_indices)?
    | (de)?quantize_.* | choose_qparams.* | assert_.* | sym_.*
    """,
    re.VERBOSE,
)
_INDICES = (torch.int64, torch.int32, torch.bool)
_REDUCED = re.compile(
    r"""
    adaptive_(avg|max)_pool\dd | all | any | a?m(in|ax) | aminmax | arg(max|min) | count_nonzero
    | mean | median | (linalg_vector_)?norm | logsumexp | prod | std(_mean)? | sum | topk
    | var(_mean)?
    """,
    re.VERBOSE,
)


def flops(node: Node) -> int:
    """Floating-point operations of one call.

    Dimensions without a fixed size count with their upper bound, or where there is none with the
    size of the example inputs. The body of a loop counts once.
    """
    operator = _short(operators.name(node))
    outputs = operators.values(node.meta.get("val"))
    if not operator or not outputs or _MOVED.fullmatch(operator):
        return 0
    if all(tensor.dtype in _INDICES for tensor in [*outputs, *operators.inputs(node)]):
        return 0
    out = _shape(outputs[0])
    count = _contraction(operator)
    # Operators of backends' own may have other arguments than ATen's of the same name.
    with contextlib.suppress(IndexError, ValueError):
        if count:
            return count(node, [_shape(tensor) for tensor in operators.inputs(node)], out)
    if _REDUCED.fullmatch(operator):
        return max(map(_elements, operators.inputs(node)), default=0)
    # Of several results, such as a normalized tensor and its mean, the first is the one computed.
    return math.prod(out) * (_window(node) if "pool" in operator else 1)


Shape = tuple[int, ...]
Count = Callable[[Node, list[Shape], Shape], int]


def _contraction(operator: str) -> Count | None:
    """Returns a function that counts a contraction, given its tensors' and its result's shapes."""
    if "scaled_dot_product" in operator:
        return _attention
    if "sdpa" in operator:
        return _attention_of_caches
    if re.search(r"conv(olution|_|\dd)", operator):
        return _convolution
    if re.search(r"(^|_)(linear|mm|bmm|matmul|mv|dot|vdot)(_|$)", operator):
        return _sums
    return _sums_and_addend if operator in ("addmm", "addbmm", "addmv", "baddbmm") else None


def _sums(node: Node, tensors: list[Shape], out: Shape) -> int:
    """Each element of the result is a sum over the last dimension of the first tensor."""
    return 2 * math.prod(out) * tensors[0][-1]


def _sums_and_addend(node: Node, tensors: list[Shape], out: Shape) -> int:
    return _sums(node, tensors[1:], out)


def _convolution(node: Node, tensors: list[Shape], out: Shape) -> int:
    """A weight of (out, in per group, *window), or transposed of (in, out per group, *window)."""
    given, weight = tensors[:2]
    flag = len(node.args) > 6 and node.args[6] is True
    transposed = flag or "transpose" in operators.name(node)
    return 2 * math.prod(given if transposed else out) * math.prod(weight[1:])


def _attention(node: Node, tensors: list[Shape], out: Shape) -> int:
    """Queries, keys and values of (…, heads, positions, size)."""
    query, key, value = tensors[:3]
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _attention_of_caches(node: Node, tensors: list[Shape], out: Shape) -> int:
    """Tensors of (batch, positions, heads, size), as in ExecuTorch's own kernels."""
    positions = max(shape[1] for shape in tensors if len(shape) == 4)
    return 2 * math.prod(out) * positions * 2


def _window(node: Node) -> int:
    window = next((given for given in node.args[1:] if isinstance(given, list | tuple)), ())
    return math.prod(n for n in window if isinstance(n, int))


def _short(operator: str) -> str:
    """Returns an operator's short name: "aten._to_copy.default" is "to"."""
    return operator.split(".")[1].strip("_").removesuffix("_copy") if operator else ""


def _shape(tensor: torch.Tensor) -> Shape:
    return tuple(size(n) for n in tensor.shape)


def _elements(tensor: torch.Tensor) -> int:
    return math.prod(_shape(tensor))


def size(dimension: int | torch.SymInt) -> int:
    """A dimension's size, or the largest that it may have."""
    try:
        return int(eval_upper_bound(dimension))
    except (AssertionError, RuntimeError):
        # Neither a bound nor an example: a size that depends on the data.
        return 1
