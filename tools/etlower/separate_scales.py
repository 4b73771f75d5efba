"""Keeps values of very different ranges under scales of their own, where they meet in one tensor.

A static recipe gives a tensor one scale. Where boxes up to 640 are concatenated with scores up to
1, 8 bits leave the scores no level but 0. So the ranges of what a concatenation joins are measured
in the float graph, on the calibration inputs. If one of them would be left with fewer than
`_LEVELS` of the levels, the annotation of the concatenation is removed: it stays in float, and its
inputs keep their scales. What follows element by element, other concatenations included, stays in
float, too, or the tensor would get its one scale there. An operator that mixes elements (a
convolution, a linear layer) ends that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    QuantizationSpec,
    SharedQuantizationSpec,
)

from etlower import operators
from etlower.annotations import drop, drop_references
from etlower.operators import MOVING

# Levels that every input of a concatenation must have.
_LEVELS = 16
# Positions of the arguments whose values an operator puts side by side; cat and stack: a list.
_JOINED = {
    "where": (1, 2),
    "slice_scatter": (0, 1),
    "select_scatter": (0, 1),
    "index_put": (0, 2),
    "index_put_": (0, 2),
    "index_copy": (0, 3),
    "scatter": (0, 3),
}
# Operators beside pointwise ones that keep elements, or channels, apart.
_KEEPING = MOVING | frozenset(
    (
        *("adaptive_avg_pool2d", "avg_pool2d", "dropout", "dropout_", "hardtanh", "hardtanh_"),
        *("max_pool2d", "relu", "relu_", "relu6", "upsample_bilinear2d", "upsample_nearest2d"),
        *_JOINED,
    )
)
# A graph's calls for one input: the least and the largest value of nodes.
_Ranges = dict[Node, tuple[float, float]]


def keep(
    model: GraphModule,
    calibrate: Callable[[Callable[..., Any]], None],
    note: Callable[[str], None],
) -> None:
    """Removes annotations from a graph where values of very different ranges would share a scale.

    Args:
      model: an annotated graph, in float.
      calibrate: calls what it is given with the calibration inputs.
      note: is told of each concatenation that stays in float.
    """
    joins = {n: _sources(n) for n in model.graph.nodes if len(_sources(n)) > 1}
    joins = {node: sources for node, sources in joins.items() if _has_scale(node)}
    if not joins:
        return
    ranges = _measured(model, calibrate, {s for sources in joins.values() for s in sources})
    removed: set[Any] = set()
    for node in _to_keep(model, joins, ranges):
        removed |= _drop_all({node, *_after(node)})
        note(_sentence(node, joins[node], ranges))
    drop_references(model, removed)


def _drop_all(nodes: set[Node]) -> set[Any]:
    """Removes the annotations of nodes; of the graph's output, those for what it takes of them."""
    removed: set[Any] = set()
    for node in nodes:
        is_output = node.op == "output"
        removed |= drop(node, lambda source, _, every=not is_output: every or source in nodes)
    return removed


def _sources(node: Node) -> list[Node]:
    """Returns what a node puts side by side in one tensor."""
    if node.op != "call_function" or not node.args:
        return []
    first = node.args[0]
    if isinstance(first, tuple | list):
        parts: Sequence[Any] = first
    else:
        positions = _JOINED.get(_name(node), ())
        parts = [node.args[p] for p in positions if p < len(node.args)]
    return [p for p in dict.fromkeys(parts) if isinstance(p, Node) and operators.gives_floats(p)]


def _name(node: Node) -> str:
    return str(getattr(node.target, "overloadpacket", node.target)).rpartition(".")[2]


def _after(node: Node) -> Iterator[Node]:
    """The nodes behind one that keep its elements apart, and the graph's output among them."""
    seen, queue = {node}, [node]
    while queue:
        for user in queue.pop().users:
            if user not in seen and _keeps(user):
                seen.add(user)
                queue.append(user)
                yield user


def _keeps(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    if node.op == "output":
        return True
    return torch.Tag.pointwise in tags or _name(node) in _KEEPING or _name(node) == "getitem"


def _has_scale(node: Node) -> bool:
    return any(_levels(part) for part in (node, *_after(node)))


def _specs(node: Node) -> list[Any]:
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None:
        return []
    return [s for s in ((annotation.input_qspec_map or {}).values()) if s is not None] + [
        s for s in (annotation.output_qspec,) if s is not None
    ]


def _levels(node: Node) -> int:
    """Levels of the static scales that a node is annotated with, the fewest; 0: it has none."""
    found = [_levels_of(spec) for spec in _specs(node)]
    return min((levels for levels in found if levels), default=0)


def _levels_of(spec: Any, depth: int = 32) -> int:
    while isinstance(spec, SharedQuantizationSpec) and depth:
        where, depth = spec.edge_or_node, depth - 1
        node = where[1] if isinstance(where, tuple) else where
        annotation = node.meta.get(Q_ANNOTATION_KEY)
        if annotation is None:
            return 0
        is_edge = isinstance(where, tuple)
        spec = annotation.input_qspec_map.get(where[0]) if is_edge else annotation.output_qspec
    if not isinstance(spec, QuantizationSpec) or spec.is_dynamic:
        return 0
    if spec.quant_min is not None and spec.quant_max is not None:
        return int(spec.quant_max - spec.quant_min + 1)
    info = torch.iinfo(spec.dtype)
    return int(info.max - info.min + 1)


class _Measuring(Interpreter):
    """Runs a graph and keeps the ranges of some of its nodes."""

    def __init__(self, model: GraphModule, nodes: set[Node], ranges: _Ranges) -> None:
        super().__init__(model)
        self._nodes, self._ranges = nodes, ranges

    def run_node(self, n: Node) -> Any:
        """As the Interpreter's."""
        value = super().run_node(n)
        if n in self._nodes and isinstance(value, torch.Tensor):
            finite = value[torch.isfinite(value)]
            if finite.numel():
                low, high = self._ranges.get(n, (0.0, 0.0))
                self._ranges[n] = min(low, float(finite.min())), max(high, float(finite.max()))
        return value


def _measured(
    model: GraphModule, calibrate: Callable[[Callable[..., Any]], None], nodes: set[Node]
) -> _Ranges:
    """The ranges of nodes on all inputs, zero included. The graph's state stays as it was."""
    ranges: _Ranges = {}
    state = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        calibrate(lambda *inputs: _Measuring(model, nodes, ranges).run(*inputs))
        for buffer, values in reversed(state):
            buffer.copy_(values)
    return ranges


def _width(node: Node, ranges: _Ranges) -> float:
    low, high = ranges.get(node, (0.0, 0.0))
    return high - low


def _spread(sources: Iterable[Node], ranges: _Ranges) -> float:
    """The largest range in proportion to the smallest; zeros are exact under any scale."""
    widths = [width for source in sources if (width := _width(source, ranges)) > 0]
    return max(widths) / min(widths) if widths else 1.0


def _to_keep(
    model: GraphModule, joins: Mapping[Node, Sequence[Node]], ranges: _Ranges
) -> list[Node]:
    """The joins whose inputs differ too much, and those that share a scale with such values."""
    found = [n for n in joins if _spread(joins[n], ranges) > _most(n)]
    # A tensor that several concatenations take gives all of them one scale.
    groups = _Groups(model, set(found))
    members: dict[Node, list[Node]] = {}
    for node in joins:
        if node not in found and _levels(node):
            members.setdefault(groups.of(node), []).append(node)
    for nodes in members.values():
        sources = [source for node in nodes for source in joins[node]]
        if _spread(sources, ranges) > min(map(_most, nodes)):
            found += nodes
    return [node for node in joins if node in set(found)]


def _most(node: Node) -> float:
    """The largest spread that leaves every input enough levels."""
    levels = [_levels(part) for part in (node, *_after(node))]
    return min(count for count in levels if count) / _LEVELS


class _Groups:
    """Nodes that have one scale, since annotations refer to each other."""

    def __init__(self, model: GraphModule, without: set[Node]) -> None:
        self._parent: dict[Node, Node] = {}
        for node in model.graph.nodes:
            annotation = node.meta.get(Q_ANNOTATION_KEY)
            if annotation is None or node in without:
                continue
            for source, spec in (annotation.input_qspec_map or {}).items():
                self._join(source, spec)
            self._join(node, annotation.output_qspec)

    def of(self, node: Node) -> Node:
        """The node that stands for a group."""
        while node in self._parent:
            node = self._parent[node]
        return node

    def _join(self, node: Node, spec: Any) -> None:
        if not isinstance(spec, SharedQuantizationSpec):
            return
        where = spec.edge_or_node
        one, other = self.of(node), self.of(where[0] if isinstance(where, tuple) else where)
        if one is not other:
            self._parent[one] = other


def _sentence(node: Node, sources: Sequence[Node], ranges: _Ranges) -> str:
    widths = sorted(_width(source, ranges) for source in sources)
    called = f"{_name(node)}{operators.layer_of(node)}"
    least = next((w for w in widths if w > 0), 0.0)
    if not math.isfinite(widths[-1]) or widths[-1] / (least or 1.0) < 2:
        return f"{called} stays in float, as it shares a scale with such a one."
    return (
        f"{called} stays in float: it joins values whose ranges differ, from "
        f"{least:.3g} to {widths[-1]:.3g}, and one scale would leave the smaller ones few levels."
    )
