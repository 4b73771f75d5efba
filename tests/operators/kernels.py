"""Kernels that the runtime lacks, and the nets of a program that need them.

A program with a kernel too many does not load, so one net would keep the others from being run, and
each would have to be lowered alone. The graph tells which outputs depend on such a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner import runtime

from tests.operators import reference
from tests.operators.nets import Net
from tests.operators.outcome import BUILD, Outcome


def refused(nets: Sequence[Net], lowered: Any, missing: Sequence[str]) -> list[Outcome | None]:
    """Finds the nets that need kernels that the runtime lacks.

    Args:
      nets: of a program.
      lowered: its exported program, after the delegates took their parts.
      missing: names of kernels: "aten::addmv.out".

    Returns:
      BUILD for those that do for sure, as linking refuses them; None for the others, and for all
      beside a delegate, which may give numbers of one net to another.
    """
    if any("call_delegate" in str(node.target) for node in lowered.graph.nodes):
        return [None] * len(nets)
    known = {name.partition(".")[0] for name in runtime.info()["operators"]}
    # Of an operator with other kernels, the graph does not tell which one is meant.
    by_operator = {n.partition(".")[0]: n for n in missing if n.partition(".")[0] not in known}
    outputs = iter(_user_outputs(lowered))
    outcomes: list[Outcome | None] = []
    for net in nets:
        count = len(reference.outputs(net, net.inputs))
        called = {name for _ in range(count) for name in _called(next(outputs))}
        lacking = sorted(by_operator[name] for name in called & by_operator.keys())
        outcomes.append(Outcome(BUILD, f"no kernel: {', '.join(lacking)}") if lacking else None)
    return outcomes


def _user_outputs(lowered: Any) -> list[Any]:
    nodes = {node.name: node for node in lowered.graph.nodes}
    return [nodes.get(str(name)) for name in lowered.graph_signature.user_outputs]


def _called(output: Any) -> set[str]:
    """Names of operators that an output depends on, but for what a delegate was given."""
    queue, seen, names = [output], set(), set()
    while queue:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.op == "call_function":
            schema = getattr(node.target, "_schema", None)
            names |= {schema.name} if schema else set()
            # A delegate may have parts of several nets.
            if "call_delegate" not in str(node.target):
                queue += node.all_input_nodes
    return names
