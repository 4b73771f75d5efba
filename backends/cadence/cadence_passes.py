"""Passes for Cadence's programs, around upstream's and instead of one."""

from __future__ import annotations

import functools
import operator
from typing import Any

# Registers the operators that upstream's passes name as they are imported.
import executorch.backends.cadence.aot.ops_registrations  # noqa: F401
import sympy
import torch
from etbuild.graph_calls import call
from executorch.backends.cadence.aot import reorder_ops, replace_ops
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import PassResult
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate
from torch.utils._sympy.functions import FloorDiv

_FULL = exir_ops.edge.aten.full.default
_PERMUTE = exir_ops.edge.aten.permute_copy.default
_VIEW = exir_ops.edge.aten.view_copy.default


class ScalarTensors(replace_ops.ReplaceScalarTensorWithFullPass):  # type: ignore[misc]
    """Replaces `scalar_tensor`, as upstream's pass, which makes a row of a 32-bit float of it."""

    def maybe_remove_or_replace(self, node: Node) -> bool:
        """Replaces a node."""
        with node.graph.inserting_before(node):
            full = node.graph.call_function(
                _FULL, ([], node.args[0]), {"dtype": node.meta["val"].dtype}
            )
        full.meta = node.meta
        node.replace_all_uses_with(full)
        return True


class Products(replace_ops.ReplaceMMWithAddMMPass):  # type: ignore[misc]
    """Adds zeros to products of matrices, as upstream's pass, but of 32-bit floats only."""

    def maybe_remove_or_replace(self, node: Node) -> bool:
        """Replaces a node."""
        return bool(_is_single(node) and super().maybe_remove_or_replace(node))


class Convolutions(replace_ops.ReplaceAtenConvolutionWithCadenceConvolutionPass):  # type: ignore[misc]
    """Makes convolutions Cadence's, as upstream's pass, but those of 32-bit floats only."""

    def maybe_remove_or_replace(self, node: Node) -> bool:
        """Replaces a node."""
        return bool(_is_single(node) and super().maybe_remove_or_replace(node))


def _is_single(node: Node) -> bool:
    """Tells whether a result has 32-bit floats, which are those of Cadence's kernels."""
    return bool(node.meta["val"].dtype == torch.float32)


class WholeWindows(replace_ops.ReplaceTrivialConvWithLinear):  # type: ignore[misc]
    """Makes layers of convolutions over all of a picture; upstream's fails on sizes that vary."""

    def maybe_remove_or_replace(self, node: Node) -> bool:
        """Replaces a node."""
        return bool(_has_known_sizes(node) and super().maybe_remove_or_replace(node))


class Repeats(replace_ops.ReplaceRepeatWithCatPass):  # type: ignore[misc]
    """Joins copies of a tensor; upstream's fails on sizes that vary, which a kernel takes."""

    def maybe_remove_or_replace(self, node: Node) -> bool:
        """Replaces a node."""
        return bool(_has_known_sizes(node) and super().maybe_remove_or_replace(node))


class Branches(reorder_ops.AdvanceQuantizeOpAboveDefInBranchPass):  # type: ignore[misc]
    """Quantizes a value before parts are taken of it, as upstream's pass, but to one scale only.

    Upstream takes the scale of one part for all, and cuts off what is beyond it in the others.
    """

    def get_descendent_quant_ops(self, node: Node) -> list[Node]:
        """Finds what quantizes the parts of a node; none, if these have several scales."""
        found = super().get_descendent_quant_ops(node)
        return found if len({each.args[1:] for each in found}) == 1 else []


def _has_known_sizes(node: Node) -> bool:
    shapes = (value.shape for value in (node.args[0].meta["val"], node.meta["val"]))
    return all(isinstance(size, int) for shape in shapes for size in shape)


def count_from_start(graph_module: GraphModule) -> PassResult:
    """Counts the dimensions of permutations from the start: upstream's passes compare them so."""
    changed = False
    for node in graph_module.graph.find_nodes(op="call_function", target=_PERMUTE):
        given, dims = node.args
        from_start = [dim % len(dims) for dim in dims]
        if from_start != [*dims]:
            node.args, changed = (given, from_start), True
    return PassResult(graph_module, changed)


def compute_sizes(graph_module: GraphModule) -> PassResult:
    """Has the program compute sizes that vary, where upstream's passes copy them as symbols.

    The emitter takes numbers and nodes only. `full_like` becomes a `full` of such a shape.
    """
    sizes: dict[sympy.Expr, Node] = {}
    read: dict[sympy.Expr, tuple[Node, int]] = {}
    changed = False
    for node in graph_module.graph.nodes:
        if any(isinstance(each, torch.SymInt) for each in _arguments(node)):
            with graph_module.graph.inserting_before(node):

                def computed(given: Any) -> Any:
                    if not isinstance(given, torch.SymInt):
                        return given
                    return _size(node, given.node.expr, sizes, read)  # noqa: B023

                node.args = map_aggregate(node.args, computed)
                node.kwargs = map_aggregate(node.kwargs, computed)
            changed = True
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    read.setdefault(size.node.expr, (node, dim))
    if changed:
        graph_module.recompile()
    return PassResult(graph_module, changed)


def _arguments(node: Node) -> list[Any]:
    found: list[Any] = []
    map_aggregate((node.args, node.kwargs), found.append)
    return found


# Kinds of terms to what computes them of two.
_TERMS = {sympy.Add: operator.add, sympy.Mul: operator.mul, FloorDiv: operator.floordiv}


def _size(
    before: Node,
    size: sympy.Expr,
    sizes: dict[sympy.Expr, Node],
    read: dict[sympy.Expr, tuple[Node, int]],
) -> Node | int:
    """A size as a node of the graph, which stands before another one; numbers as they are.

    Args:
      before: the node.
      size: a term of symbols.
      sizes: what was made before; is added to.
      read: tensors and dimensions by the size that they have.
    """
    if size.is_Integer:
        return int(size)
    if size not in sizes:
        if size in read:
            sizes[size] = call(before, torch.ops.aten.sym_size.int, *read[size])
        else:
            if not size.args:
                raise ValueError(f"no tensor before {before.name} has the size {size}")
            parts = [_size(before, each, sizes, read) for each in size.args]
            sizes[size] = functools.reduce(
                lambda one, other: call(before, _TERMS[size.func], one, other), parts
            )
    return sizes[size]


class ResultShapes:
    """Two passes, one before upstream's and one behind them; each method goes through both."""

    def __init__(self) -> None:
        self._noted: list[torch.Size | None] = []

    def note(self, graph_module: GraphModule) -> PassResult:
        """Keeps in mind which shapes the results have."""
        self._noted = [_shape(given) for given in _results(graph_module)]
        return PassResult(graph_module, False)

    def restore(self, graph_module: GraphModule) -> PassResult:
        """Gives each result the shape that it had."""
        [output] = graph_module.graph.find_nodes(op="output")
        results, changed = _results(graph_module), False
        for place, (given, shape) in enumerate(zip(results, self._noted, strict=True)):
            if shape is None or _shape(given) == shape:
                continue
            changed = True
            with graph_module.graph.inserting_before(output):
                view = graph_module.graph.call_function(_VIEW, (given, [*shape]))
            view.meta = {**given.meta, "val": given.meta["val"].reshape(shape)}
            results[place] = view
        if changed:
            output.args = (tuple(results),)
            graph_module.recompile()
        return PassResult(graph_module, changed)


def _results(graph_module: GraphModule) -> list[Node]:
    [output] = graph_module.graph.find_nodes(op="output")
    return [*output.args[0]]


def _shape(given: Node) -> torch.Size | None:
    value = given.meta.get("val") if isinstance(given, Node) else None
    return value.shape if isinstance(value, torch.Tensor) else None
