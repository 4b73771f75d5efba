"""Rows for kernels that read nothing else.

A tensor's channels can lie last in memory (`torch.channels_last`). Delegates compute with that, and
some of ExecuTorch's kernels do; others fail in their first call, or read rows whatever the order
is. Those are called with copies in rows. What a delegate, a branch or the caller is handed keeps
the order that it had.
"""

from __future__ import annotations

from typing import Any

import torch
from etbuild.exact import has_channels_last
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass, NodeMetadata, ProxyValue
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult
from torch.utils import _pytree as pytree

from etlower import operators

_COPY = ops.edge.dim_order_ops._to_dim_order_copy.default
_CHANNELS_LAST = [0, 2, 3, 1]

# Their kernels take tensors with the channels last. So do those of functions of single elements,
# but for arithmetic with numbers, where all their tensors have them last. Averages and sums are not
# here: upstream's own pass makes rows for them, and then hands rows to delegates, too.
_ANY_LAYOUT = frozenset(
    {
        *("convolution", "max_pool2d_with_indices", "prod", "upsample_bilinear2d"),
        *("upsample_nearest2d", "var"),
    }
)
_ARITHMETIC = frozenset({"add", "div", "mul", "rsub", "sub"})


class RowsFirst(ExportPass):
    """Calls kernels that read rows with rows; for graphs of the edge dialect.

    Graphs without such a call stay as they are.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes the graph and those of its branches and loops."""
        calls = [node for _, node in operators.walk(graph_module)]
        given = [(n.target, operators.inputs(n), operators.values(n)) for n in calls]
        if not any(_wants_rows(*call) or _makes_rows(*call) for call in given):
            return PassResult(graph_module, False)
        return super().call(graph_module)

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: NodeMetadata) -> ProxyValue:
        """Copies the inputs first, where that call needs it."""
        values = pytree.tree_leaves((args, kwargs))
        tensors = operators.values([v.data for v in values if isinstance(v, ProxyValue)])
        results = operators.values(meta.data.get("val"))
        if _makes_rows(op, tensors, results):
            order = {"dim_order": sorted(_CHANNELS_LAST), "dtype": results[0].dtype}
            return super().call_operator(_COPY, args[:1], order, meta)
        if _wants_rows(op, tensors, results):
            args, kwargs = pytree.tree_map(lambda value: self._in_rows(value, meta), (args, kwargs))
        return super().call_operator(op, args, kwargs, meta)

    def _in_rows(self, value: Any, meta: NodeMetadata) -> Any:
        is_tensor = isinstance(value, ProxyValue) and isinstance(value.data, torch.Tensor)
        if is_tensor and _may_be_last(value.data):
            order = sorted(_CHANNELS_LAST)
            return super().call_operator(_COPY, (value,), {"dim_order": order}, meta)
        return self._in_order(value, False, meta)

    def call_delegate(
        self, lowered_module: Any, args: Any, kwargs: Any, meta: NodeMetadata
    ) -> ProxyValue:
        """Hands a delegate what it was lowered for, so that its results stay as they are."""
        program = lowered_module.original_module
        # Weights that it has of its own are not handed over.
        names = set(program.graph_signature.user_inputs)
        inputs = [n for n in program.graph.find_nodes(op="placeholder") if n.name in names]
        given = (lowered_module, *self._all_in_order(args, inputs, meta))
        proxies = pytree.tree_map_only(ProxyValue, lambda value: value.proxy, (given, kwargs))
        call = self.tracer.create_proxy("call_function", executorch_call_delegate, *proxies)
        call.node.meta.update(meta.data)
        results = meta.data["val"]
        self.tracer.set_metadata(call.node, results)
        return ProxyValue(results, call)

    def call_submodule(self, graph_module: GraphModule, inputs: Any) -> PassResult:
        """Remembers in which order a graph hands out its results."""
        before = getattr(self, "_results", None)
        self._results = graph_module.graph.output_node().args[0]
        try:
            return super().call_submodule(graph_module, inputs)
        finally:
            self._results = before

    def output(self, results: Any, meta: NodeMetadata) -> ProxyValue:
        """Hands out the results in that order."""
        return super().output(self._all_in_order(results, self._results, meta), meta)

    def _all_in_order(self, values: Any, like: Any, meta: NodeMetadata) -> Any:
        flat, tree = pytree.tree_flatten(values)
        models = pytree.tree_leaves(like)
        return pytree.tree_unflatten(
            [
                self._in_order(value, _is_last(model), meta)
                for value, model in zip(flat, models, strict=True)
            ],
            tree,
        )

    def _in_order(self, value: Any, last: bool, meta: NodeMetadata) -> Any:
        if not isinstance(value, ProxyValue) or not isinstance(value.data, torch.Tensor):
            return value
        if value.data.dim() != len(_CHANNELS_LAST) or has_channels_last(value.data) == last:
            return value
        order = _CHANNELS_LAST if last else sorted(_CHANNELS_LAST)
        return super().call_operator(_COPY, (value,), {"dim_order": order}, meta)


def _is_last(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and has_channels_last(value)


def _wants_rows(target: Any, tensors: list[torch.Tensor], results: list[torch.Tensor]) -> bool:
    """Tells whether a kernel reads rows, or would have its tensors in two orders."""
    if not isinstance(getattr(target, "_op", target), OpOverload) or "dim_order" in str(target):
        return False
    is_mixed = any(map(has_channels_last, tensors)) and any(map(_may_be_last, results))
    # The kernel would write the rows that it reads.
    is_mixed |= any(map(_may_be_last, tensors)) and any(map(has_channels_last, results))
    return is_mixed or _reads_rows(target, tensors)


def _makes_rows(target: Any, tensors: list[torch.Tensor], results: list[torch.Tensor]) -> bool:
    """Tells whether a copy would have to make rows: kernels without orders only copy bytes."""
    if str(getattr(target, "_op", target)) not in ("aten.clone.default", "aten._to_copy.default"):
        return False
    return has_channels_last(tensors[0]) and not has_channels_last(results[0])


def _may_be_last(tensor: torch.Tensor) -> bool:
    """Tells whether a tensor's strides name channels that lie last, and rows as well.

    In the program it has rows (`runnable.Rows`).
    """
    if tensor.dim() != len(_CHANNELS_LAST) or not tensor.is_contiguous():
        return False
    return list(tensor.dim_order()) != sorted(_CHANNELS_LAST)


def _reads_rows(target: Any, tensors: list[torch.Tensor]) -> bool:
    overload = getattr(target, "_op", target)
    name = str(overload).removeprefix("aten.").partition(".")[0]
    if not isinstance(overload, OpOverload) or name in _ANY_LAYOUT:
        return False
    if not any(map(has_channels_last, tensors)):
        return False
    of_one = len(tensors) == 1 and name not in _ARITHMETIC
    takes_it = torch.Tag.pointwise in overload.tags and (of_one or _are_alike(tensors))
    return not takes_it


def _are_alike(tensors: list[torch.Tensor]) -> bool:
    shapes = {tuple(map(str, tensor.shape)) for tensor in tensors}
    return len(shapes) == 1 and all(map(has_channels_last, tensors))
