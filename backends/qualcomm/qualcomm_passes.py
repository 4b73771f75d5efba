"""Passes on the graphs that QNN gets: upstream's that are left out, and others beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from etbuild.exact import ranges
from etbuild.exact.nodes import argument_of
from etlower import operators
from etlower.replacing import replace
from executorch.backends.qualcomm import _passes
from executorch.backends.qualcomm.utils.constants import (
    QCOM_INSERTED_PERMUTE,
    QCOM_LAYOUT_CHANGE,
    QCOM_ORIG_DTYPE,
    QCOM_QUANT_ATTRS,
)
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass, PassResult
from qualcomm_differences import bounds_of, has_more
from torch.fx import GraphModule, Node

# They write operators as others of 16-bit floats that divide by zero, square large numbers, round
# quotients down that are just below a whole number, or subtract what is almost equal; and they
# count with five dimensions, or read a picture for a pair of results. ExecuTorch has kernels.
_LEFT_OUT = (
    *("DecomposeAcos", "DecomposeAny", "DecomposeAtan2", "DecomposeCDist", "DecomposeDivMode"),
    *("DecomposeFill", "DecomposeFloorDivide", "DecomposeHyperbolicVariants"),
    *("DecomposeMaxPool3d", "DecomposeMinMaxDim"),
    *("DecomposePDist", "DecomposeRemainder", "DecomposeTan"),
)


def leave_out_passes() -> None:
    """Makes passes of upstream's do nothing, for this process."""
    for name in _LEFT_OUT:
        getattr(_passes, name).call = lambda _, module: PassResult(module, False)
    # It puts a row in place of a number of it.
    _passes.Remove0DTensor.remove_ops = frozenset()
    # It has an order for all numbers of dimensions but none.
    _passes.LayoutTransform.layout_type[0] = ("", "")
    layouts = _passes.LayoutTransform
    replace(layouts, "is_layout_sensitive", _is_sensitive)
    replace(layouts, "insert_node", _insert_once)
    # It walks a set of readers, whose order is that of addresses: names and bytes would follow it.
    sys.modules[layouts.__module__].set = list  # type: ignore[attr-defined]
    columns = _passes.DecomposeColIm
    columns.call = _of_blocks(columns.call)
    redundancy = _passes.RemoveRedundancy
    redundancy._same_shape_condition = _but_results(redundancy._same_shape_condition)
    integers = _passes.I64toI32
    integers._preserve_output_dtype = _of_each_result(integers._preserve_output_dtype)


def _is_sensitive(inner: Callable[[Any, Node], bool], self: Any, node: Node) -> bool:
    """Has a softmax over channels change its layout wherever the pass meets it.

    Upstream's pass knows it where it begins with it, and not where it comes from what the softmax
    reads or is read by.
    """
    return inner(self, node) or bool(self.conditional_sensitive_check(node))


def _insert_once(
    inner: Callable[..., None], self: Any, module: GraphModule, node: Node, revert_layout: bool
) -> None:
    """Puts one permutation between a node and those who read it in another order.

    Upstream's method puts one more before it where it comes to the node again, as for `y @ y`.
    """
    is_turned = self.is_transformed_node(node)
    readers = [self.is_transformed_node(n) or QCOM_LAYOUT_CHANGE in n.meta for n in node.users]
    if all(reader == is_turned for reader in readers):
        return
    inner(self, module, node, revert_layout)
    for reader in node.users:
        if is_turned and QCOM_INSERTED_PERMUTE in reader.meta:
            reader.meta[QCOM_LAYOUT_CHANGE] = True


def _but_results(inner: Callable[[Any, Node], bool]) -> Callable[[Any, Node], bool]:
    """Keeps the copy that is a method's result where a part reads the input or weight as well."""

    def is_redundant(self: Any, node: Node) -> bool:
        is_result = any(user.op == "output" for user in node.users)
        copied = node.args[0]
        if is_result and isinstance(copied, Node) and copied.op == "placeholder":
            return False
        return inner(self, node)

    return is_redundant


def without_places(graph: GraphModule) -> GraphModule:
    """Writes extremes over a dimension as `amax` and `amin` where nobody reads their places.

    Of several rows of rows (QNN 2.49) its own operator gives the first one's, and zeros.

    Args:
      graph: of ATen operators, in an exported program or before it is quantized; it is changed.
    """
    aten = torch.ops.aten
    kinds = {aten.max.dim: aten.amax.default, aten.min.dim: aten.amin.default}
    for node in list(graph.graph.nodes):
        if node.target in kinds and not has_more(node):
            dim, keeps = argument_of(node, 1, "dim", 0), argument_of(node, 2, "keepdim", False)
            for user in list(node.users):
                if user.args[1] == 0:
                    user.target = kinds[node.target]
                    user.args = (node.args[0], [dim], keeps)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


class BoundedExponents(ExportPass):  # type: ignore[misc]
    """Bounds what `exp` is computed of.

    QNN's is a large number where 16 bits would hold zero, and above 65,504 what reads it gets
    anything: `log` gives zero.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Puts a `clamp` before each `exp`."""
        graph = graph_module.graph
        calls = graph.find_nodes(op="call_function", target=exir_ops.edge.aten.exp.default)
        # What has a scale is bounded by it.
        nodes = [node for node in calls if "dequantize" not in operators.name(node.args[0])]
        for node in nodes:
            with graph.inserting_before(node):
                clamp = exir_ops.edge.aten.clamp.default
                bounds = (ranges.LOWEST, ranges.HIGHEST)
                bounded = graph.call_function(clamp, (node.args[0], *bounds))
            bounded.meta = {**node.meta, "val": torch.clone(node.args[0].meta["val"])}
            node.replace_input_with(node.args[0], bounded)
        graph_module.recompile()
        return PassResult(graph_module, bool(nodes))


class BoundsInScale(ExportPass):  # type: ignore[misc]
    """Has both bounds within a result's scale, or none.

    Of one that is within, QNN's compiler makes nothing if the other is not: in a scale that the
    result shares with what it is joined with, a `relu6` lets numbers below zero through. In 16 bits
    only a `relu` does not.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes the other bound of a `clamp` or `hardtanh` of which one is within the scale."""
        changed = False
        for node in graph_module.graph.nodes:
            bounds, scale = bounds_of(node), _scale_of_result(node)
            if bounds is None or scale is None:
                continue
            step, *ends = scale
            # How far a bound lies within: the lower one above its end, the other below.
            inside = [
                -1.0 if bound is None else (bound - end) * sign
                for bound, end, sign in zip(bounds, ends, (1, -1), strict=True)
            ]
            if max(inside) <= step or min(inside) > 0:
                continue
            changed = True
            if bounds[0] == 0 and inside[1] <= 0:
                node.target, node.args, node.kwargs = (
                    exir_ops.edge.aten.relu.default,
                    node.args[:1],
                    {},
                )
            else:
                # At the very end it is forgotten, too.
                within = [
                    bound if far > 0 else end + sign * step / 2
                    for bound, far, end, sign in zip(bounds, inside, ends, (1, -1), strict=True)
                ]
                node.args, node.kwargs = (node.args[0], *within), {}
        if changed:
            graph_module.recompile()
        return PassResult(graph_module, changed)


def _scale_of_result(node: Node) -> tuple[float, float, float] | None:
    """A step, the least and the largest number of a result's scale; None: it has no single one."""
    scales = {user.args[1:5] for user in node.users if _QUANTIZED in operators.name(user)}
    if len(scales) != 1:
        return None
    [(step, zero, least, largest)] = scales
    return step, (least - zero) * step, (largest - zero) * step


_QUANTIZED = "quantized_decomposed.quantize_per_tensor"


class SameIntegers(ExportPass):  # type: ignore[misc]
    """Gives integers one width where a kernel wants that, or QNN reads them so.

    Upstream's pass makes most of a graph 32-bit integers. It leaves out some constants, and
    indices that a kernel gives.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Puts a cast behind those of the other width."""
        changed = False
        for node in list(graph_module.graph.nodes):
            dtype = _width_of_inputs(node)
            for given in _integers_of(node) if dtype else ():
                value = given.meta["val"]
                if isinstance(value, torch.Tensor) and value.dtype in _INTEGERS - {dtype}:
                    changed = True
                    _cast(node, given, dtype)
        [output] = graph_module.graph.find_nodes(op="output")
        for given in output.all_input_nodes:
            # An input that is a result, too, keeps its type.
            is_cast = operators.name(given) == "aten._to_copy.default"
            if is_cast and given.args[0].op == "placeholder" and _is_narrowed(given):
                changed = True
                output.replace_input_with(given, given.args[0])
        if changed:
            # A part of such casts alone would have no results.
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
        return PassResult(graph_module, changed)


class PlaceholdersFirst(ExportPass):  # type: ignore[misc]
    """Has placeholders before all else: upstream's puts a constant behind what reads it."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Moves calls that stand between placeholders behind the last one."""
        nodes = list(graph_module.graph.nodes)
        last = [node for node in nodes if node.op == "placeholder"][-1]
        calls = [node for node in nodes[: nodes.index(last)] if node.op != "placeholder"]
        for node in reversed(calls):
            last.append(node)
        if calls:
            graph_module.recompile()
        return PassResult(graph_module, bool(calls))


def _is_narrowed(node: Node) -> bool:
    before = node.args[0].meta["val"]  # type: ignore[union-attr]
    return bool(before.dtype == torch.int64 and node.meta["val"].dtype == torch.int32)


_INTEGERS = frozenset((torch.int32, torch.int64))
# QNN reads places as 32-bit integers, and of 64 bits the halves as two.
_PICKING = frozenset({"index", "index_put"})
_OF_ONE_TYPE = ("add", "maximum", "minimum", "mul", "sub", "where")


def _width_of_inputs(node: Node) -> torch.dtype | None:
    """The type that a node's integers must have; None: each may have its own."""
    packet, value = operators.packet(node), node.meta.get("val")
    if packet in _PICKING:
        return torch.int32
    if not isinstance(value, torch.Tensor) or value.dtype not in _INTEGERS:
        return None
    if packet == "cat" or (packet in _OF_ONE_TYPE and value.dtype == torch.int32):
        return value.dtype
    return torch.int32 if packet == "_to_copy" and value.dtype == torch.int64 else None


def _integers_of(node: Node) -> Iterable[Node]:
    """Inputs of a node that must have one width: places only, where it picks by them."""
    if operators.packet(node) in _PICKING:
        return [place for place in node.args[1] if place is not None]
    return node.all_input_nodes


def _cast(node: Node, given: Node, dtype: torch.dtype) -> None:
    copy = exir_ops.edge.aten._to_copy.default
    with node.graph.inserting_before(node):
        made = node.graph.call_function(copy, (given,), {"dtype": dtype})
    made.meta = {**node.meta, "val": given.meta["val"].to(dtype)}
    made.meta.pop(QCOM_QUANT_ATTRS, None)
    node.replace_input_with(given, made)


def _of_blocks(call: Any) -> Any:
    """The pass's method, which fails on all windows but square ones side by side."""

    def blocks_only(self: Any, graph_module: GraphModule) -> PassResult:
        packets = {node: operators.packet(node) for node in graph_module.graph.nodes}
        hidden = {
            node: node.target
            for node, packet in packets.items()
            if (packet == "im2col" and not _has_blocks(node.args[0], *node.args[1:]))
            or (packet == "col2im" and not _has_blocks(node, *node.args[2:]))
        }
        for node in hidden:
            node.target = _hidden
        try:
            return call(self, graph_module)
        finally:
            for node, target in hidden.items():
                node.target = target

    return blocks_only


def _of_each_result(preserve: Any) -> Any:
    """The method, which fails on 64-bit results of an operator that has several."""

    def of_each(self: Any, graph_module: GraphModule) -> None:
        for node in graph_module.graph.nodes:
            # What takes one of them out is cast back.
            if not isinstance(node.meta.get("val"), torch.Tensor):
                node.meta.pop(QCOM_ORIG_DTYPE, None)
        preserve(self, graph_module)

    return of_each


def _has_blocks(picture: Node, kernel: Any, dilation: Any, padding: Any, stride: Any) -> bool:
    """Tells whether windows of pictures are square, lie side by side, and cover all."""
    sizes = picture.meta["val"].shape
    is_plain = [*dilation] == [1, 1] and [*padding] == [0, 0] and [*stride] == [*kernel]
    is_square = kernel[0] == kernel[1] and not any(size % kernel[0] for size in sizes[-2:])
    return len(sizes) == 4 and is_plain and is_square


def _hidden(*args: Any, **kwargs: Any) -> None:
    """Stands for an operator that a pass does not see; it is never called."""
