"""Floats of QNN's that are almost those of eager mode: a zero's sign, and a last digit.

To most operators neither matters. Comparisons and others that jump read something else, so they get
numbers as eager mode has them: within QNN without the sign, behind it rounded.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from etlower import operators, own_elements
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects._ops import ops
from qualcomm_differences import VIEWS, bounds_of, is_of_an_edge
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult


class OneZero(PassBase):
    """Compares floats without the sign of zero: to QNN, -0 is neither equal to 0 nor above it.

    Args:
      program: whose constants tell which comparisons are with zeros.
    """

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._targets = operators.stored(program)
        self._tensors = {**program.state_dict, **program.constants}

    def call(self, graph_module: GraphModule) -> PassResult:
        """Writes what is compared as the difference of its positive and its negative part."""
        kept_out = own_elements.compared(graph_module.graph)
        signed = [
            (node, given)
            for node in graph_module.graph.nodes
            if operators.packet(node) in ("eq", "ge", "le", "ne")
            and node not in kept_out
            # That asks for NaN, which QNN has not.
            and node.args[0] is not node.args[1]
            and not any(self._has_no_zeros(each) for each in node.args)
            for given in node.all_input_nodes
            if self._may_be_signed(given)
        ]
        aten = ops.edge.aten
        for node, given in signed:
            with graph_module.graph.inserting_before(node):
                negative = _called(node, aten.neg.default, given)
                parts = [_called(node, aten.relu.default, each) for each in (given, negative)]
                node.replace_input_with(given, _called(node, aten.sub.Tensor, *parts))
        if signed:
            graph_module.recompile()
        return PassResult(graph_module, bool(signed))

    def _constant(self, node: Node) -> torch.Tensor | None:
        while operators.packet(node) in _COPIES:
            node = node.args[0]  # type: ignore[assignment]
        # Constants that upstream's passes lifted were renamed since.
        names = (node.name, node.name.removeprefix("b_"))
        targets = [self._targets[name] for name in names if name in self._targets]
        return self._tensors.get(targets[0]) if targets and node.op == "placeholder" else None

    def _has_no_zeros(self, value: Any) -> bool:
        if not isinstance(value, Node):
            return bool(value)
        constant = self._constant(value)
        return constant is not None and bool(torch.all(constant != 0))

    def _may_be_signed(self, node: Node) -> bool:
        if not node.meta["val"].dtype.is_floating_point or self._constant(node) is not None:
            return False
        return operators.packet(node) not in _UNSIGNED and "dequantize" not in operators.name(node)


_COPIES = frozenset(("alias_copy", "clone", "_clone_dim_order", "lift_fresh_copy"))
_UNSIGNED = frozenset(("abs", "arange", "exp", "full", "full_like", "relu", "sigmoid", "_softmax"))


def _called(node: Node, target: Any, *given: Node) -> Node:
    """A call like the first of the tensors that it is given, at a node's place."""
    made = node.graph.call_function(target, given)
    made.meta = {**node.meta, "val": torch.clone(given[0].meta["val"])}
    return made


class LowerBounds(PassBase):
    """Writes bounds as `maximum` and `minimum` where the lower one is below zero, or none is.

    QNN's compiler makes a part of a layer or of a function before it of such a `clamp`, and
    computes it as the distance from the lower bound: in 16 bits, small numbers lose the digits that
    the bound does not have.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Replaces those of floats that have no scale."""
        aten = ops.edge.aten
        nodes = [node for node in graph_module.graph.nodes if _ends_below_zero(node)]
        for node in nodes:
            lowest, highest = bounds_of(node)  # type: ignore[misc]
            given = node.args[0]
            with graph_module.graph.inserting_before(node):
                for target, bound in ((aten.maximum, lowest), (aten.minimum, highest)):
                    if bound is not None:
                        given = _called(node, target.default, given, _number(node, bound))
            node.replace_all_uses_with(given)
            graph_module.graph.erase_node(node)
        if nodes:
            graph_module.recompile()
        return PassResult(graph_module, bool(nodes))


def _ends_below_zero(node: Node) -> bool:
    bounds = bounds_of(node)
    if bounds is None or is_of_an_edge(node):
        return False
    given = node.args[0]
    if not given.meta["val"].is_floating_point() or "dequantize" in operators.name(given):
        return False
    return bounds[0] is None or bounds[0] < 0


class FunctionsApart(PassBase):
    """Puts a bound that changes nothing between layers and functions that QNN fuses into them.

    What is fused comes from a coarse table: a `tanh` behind a linear layer is 7e-3 off in 16-bit
    floats, a sigmoid 4e-3.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes the inputs of such functions of floats that have no scale."""
        maximum = ops.edge.aten.maximum.default
        nodes = [node for node in graph_module.graph.nodes if _is_fused(node)]
        for node in nodes:
            given = node.args[0]
            with graph_module.graph.inserting_before(node):
                bounded = _called(node, maximum, given, _number(given, _LEAST))
            node.replace_input_with(given, bounded)
        if nodes:
            graph_module.recompile()
        return PassResult(graph_module, bool(nodes))


_LEAST = torch.finfo(torch.float16).min
_FUSED = frozenset(("gelu", "sigmoid", "silu", "tanh"))
_LAYERS = frozenset(
    {
        *("addmm", "baddbmm", "bmm", "convolution", "linear", "matmul", "mm"),
        *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"),
    }
)
# What its compiler moves, or folds into a layer.
_FOLDED = VIEWS | {"add", "cat", "clone", "div", "mul", "stack", "sub"}


def _is_fused(node: Node) -> bool:
    if operators.packet(node) not in _FUSED or "dequantize" in operators.name(node.args[0]):
        return False
    return node.meta["val"].is_floating_point() and _follows_layer(node)


def _follows_layer(node: Node) -> bool:
    known, left = {node}, [node.args[0]]
    while left:
        each = left.pop()
        packet = operators.packet(each)
        if packet in _LAYERS:
            return True
        if packet.removesuffix("_copy") in _FOLDED:
            left += [given for given in each.all_input_nodes if given not in known]
            known.update(left)
    return False


def _number(node: Node, number: float) -> Node:
    """A tensor of one number that has the dimensions of a node's result."""
    value = node.meta["val"]
    shape = [1] * value.dim()
    dtype, device = value.dtype, value.device
    target = ops.edge.aten.full.default
    made = node.graph.call_function(target, (shape, float(number)), {"dtype": dtype})
    made.meta = {**node.meta, "val": value.new_full(shape, number, dtype=dtype, device=device)}
    return made


class RoundedResults(PassBase):
    """Rounds what ExecuTorch's kernels read of QNN's 16-bit floats to numbers that these hold.

    QNN hands them out as 32-bit floats whose last digit is off: 1.0000001 for 1. So `==`, `floor`,
    `acos` and others that jump would say something else. Results, and functions that do not jump,
    take them as they are.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Puts two casts behind such results, in the graph of a program that was lowered."""
        half, single = torch.float16, torch.float32
        results = [
            (module, node)
            for module, node in _walk(graph_module)
            if _is_of_delegate(node)
            and operators.values(node)[0].dtype == single
            and any(_jumps(user) for user in node.users)
        ]
        for module, node in results:
            graph = module.graph
            users = [user for user in node.users if _jumps(user)]
            with graph.inserting_after(node):
                rounded = graph.call_function(_COPY, (node,), {"dtype": half})
            with graph.inserting_after(rounded):
                result = graph.call_function(_COPY, (rounded,), {"dtype": single})
            rounded.meta = {**node.meta, "val": node.meta["val"].to(half)}
            result.meta = {**node.meta, "val": torch.clone(node.meta["val"])}
            for user in users:
                user.replace_input_with(node, result)
            module.recompile()
        return PassResult(graph_module, bool(results))


# They keep small differences small, wherever they are, or move numbers.
_SMOOTH = frozenset(
    {
        *("abs", "add", "addmm", "amax", "amin", "bmm", "cat", "clamp", "clone", "constant_pad_nd"),
        *("convolution", "erf", "exp", "expand_copy", "gelu", "hardtanh", "leaky_relu", "linear"),
        *("_log_softmax", "max_pool2d_with_indices", "maximum", "mean", "minimum", "mm", "mul"),
        *("native_group_norm", "native_layer_norm", "neg", "permute_copy", "relu", "repeat"),
        *("rsub", "select_copy", "sigmoid", "slice_copy", "_softmax", "split_with_sizes_copy"),
        *("squeeze_copy", "sub", "sum", "tanh", "transpose_copy", "unsqueeze_copy", "view_copy"),
        *("upsample_bilinear2d", "upsample_nearest2d", "avg_pool2d"),
    }
)
_COPY = ops.edge.aten._to_copy.default


def _walk(module: GraphModule) -> Iterator[tuple[GraphModule, Node]]:
    """The calls of a graph and those of its branches and loops, with the graph that has them."""
    graphs = {id(each): each for each, _ in operators.walk(module)}
    return ((each, node) for each in graphs.values() for node in list(each.graph.nodes))


def _is_of_delegate(node: Node) -> bool:
    return (
        node.target is operator.getitem
        and node.args[0].target is executorch_call_delegate
        and bool(operators.values(node))
    )


def _jumps(node: Node) -> bool:
    """Tells whether a kernel that reads a number, or what follows from it, may jump."""
    seen: set[Node] = set()
    left = [node]
    while left:
        each = left.pop()
        if each in seen or each.op == "output" or each.target is executorch_call_delegate:
            continue
        seen.add(each)
        if each.target is not operator.getitem and operators.packet(each) not in _SMOOTH:
            return True
        left += each.users
    return False
