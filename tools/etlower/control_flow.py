"""Values of control flow that stay what they are.

ExecuTorch 1.5.1 plans one region of memory for the bodies of all control-flow operators of a graph,
and gives a result of `torch.cond` the memory that its branch wrote. So the next operator with a
body overwrites it. A view is planned where its base is: it misses a base that lies elsewhere when
the program runs, as results of `cond` do, and carries and captured tensors in the body of a loop.
A body whose output is one of its inputs shares that input's memory: scan writes the next carry
before it has read the row, and a result of cond ends with its operand.

Three rules keep all values, at each depth:

- no output of a body is an input of it, or a view of one: it is copied in the body;
- what a view would miss is copied, and the copy is viewed;
- a result that would be overwritten is copied directly behind its operator, before anything else
  runs. Partitioners may leave the `getitem` of a result behind later operators, so that moves, too.

Programs whose values are safe keep the bytes that upstream's API writes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import torch
from executorch.exir.dialects._ops import ops
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

_VIEWS = (torch.ops.aten.view_copy.default, ops.edge.aten.view_copy.default)
_HIGHER = torch.ops.higher_order
# Operators with bodies: which of their arguments are bodies, and which the rows that a loop reads.
BODIES = {_HIGHER.cond: (1, 2), _HIGHER.map_impl: (0,), _HIGHER.scan: (0,)}
_ROWS = {_HIGHER.map_impl: 1, _HIGHER.scan: 2}


class CopyResults(PassBase):
    """Copies values of control flow that ExecuTorch would lose; for graphs of the edge dialect."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes the graph and those of its bodies."""
        modified = _copy_results(graph_module)
        for call, body in bodies(graph_module):
            modified |= _copy_outputs(body) | _copy_inputs(call, body) | self.call(body).modified
        return PassResult(graph_module, modified)


def bodies(module: GraphModule) -> Iterator[tuple[Node, GraphModule]]:
    """The control-flow operators of a graph and their bodies, but not those inside of bodies."""
    for node in module.graph.nodes:
        for position in BODIES.get(node.target, ()):
            yield node, getattr(module, node.args[position].target)


def _copy_outputs(body: GraphModule) -> bool:
    """Copies outputs that are inputs of a body, or views of these."""
    output = body.graph.output_node()
    shared = [node for node in output.all_input_nodes if _base(node).op != "call_function"]
    for node in shared:
        with body.graph.inserting_before(output):
            output.replace_input_with(node, _clone(node))
    return _recompiled(body, shared)


def _base(node: Node) -> Node:
    while node.target in _VIEWS:
        node = node.args[0]
    return node


def _copy_inputs(call: Node, body: GraphModule) -> bool:
    """Copies inputs of a loop's body that are viewed and lie elsewhere than planned."""
    if call.target not in _ROWS:
        return False
    position = _ROWS[call.target]
    before = sum(len(arguments) for arguments in call.args[1:position])
    inputs = body.graph.find_nodes(op="placeholder")
    elsewhere = [*inputs[:before], *inputs[before + len(call.args[position]) :]]
    viewed = [node for node in elsewhere if _is_viewed(node)]
    for node in viewed:
        _copy(node, behind=inputs[-1])
    return _recompiled(body, viewed)


def _copy_results(module: GraphModule) -> bool:
    """Copies results that are viewed, and those of `cond` that a later operator overwrites."""
    position = {node: number for number, node in enumerate(module.graph.nodes)}
    calls = [node for node in position if node.target in BODIES]
    ends = [*(position[call] for call in calls[1:]), len(position)]
    lost = [
        (call, result)
        for call, end in zip(calls, ends, strict=False)
        for result in call.users
        if _is_viewed(result)
        or (call.target is _HIGHER.cond and any(position[user] >= end for user in result.users))
    ]
    for call, result in lost:
        assert result.target is operator.getitem
        call.append(result)
        _copy(result, behind=result)
    return _recompiled(module, lost)


def _is_viewed(node: Node) -> bool:
    return any(user.target in _VIEWS for user in node.users)


def _copy(node: Node, behind: Node) -> None:
    """Lets all users of a node use a copy of it."""
    with node.graph.inserting_after(behind):
        copy = _clone(node)
    node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)


def _clone(node: Node) -> Node:
    copy = node.graph.call_function(ops.edge.aten.clone.default, (node,))
    copy.meta = {
        k: v for k, v in node.meta.items() if k in ("val", "stack_trace", "nn_module_stack")
    }
    return copy


def _recompiled(module: GraphModule, changed: Sequence[object]) -> bool:
    if changed:
        module.recompile()
    return bool(changed)
