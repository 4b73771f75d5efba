"""Delegated part of each method, what stayed with ExecuTorch's own kernels, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from etbuild.estimates import estimate_of
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch.fx import GraphModule, Node

from etlower import operators
from etlower.flops import flops, size
from etlower.partitioners import partitioners_of_method
from etlower.reasons import Reasons

NO_PARTITIONER = "the recipe delegates nothing"
ELSEWHERE = "delegated in other places, but not with these inputs or arguments"
NOWHERE = "no partitioner of the recipe takes this operator"
NOT_HERE = "no partitioner took this operator anywhere in this program"


def of_program(edge: Any, reasons: Reasons, recipe: Any) -> dict[str, Any]:
    """Describes a lowered program's delegation for the report.

    Args:
      edge: upstream's EdgeProgramManager, lowered and not yet emitted.
      reasons: what was said while it was lowered.
      recipe: upstream's ExportRecipe.

    Returns:
      Per method: `nodes` and `flops` of all of it, `delegates` in the order of their calls with the
      same of each, and `left`: the operators that stayed behind, those with the most FLOPs first. A
      delegate has an `estimate` if its compiler gave one (`etbuild.estimates`).
    """
    graphs = {name: edge.exported_program(name).graph_module for name in sorted(edge.methods)}
    taken: Counter[str] = Counter()
    for module in graphs.values():
        for delegate in delegates(module):
            taken.update(map(operators.name, inside(delegate)))
    return {
        name: _method(module, _Why(reasons, partitioners_of_method(recipe, name), taken))
        for name, module in graphs.items()
    }


def _method(module: GraphModule, why: _Why) -> dict[str, Any]:
    amounts = [_delegate(delegate) for delegate in delegates(module)]
    left = _operators(module)
    by_operator: dict[str, list[Node]] = {}
    for node in left:
        by_operator.setdefault(operators.name(node), []).append(node)
    listed = [
        {"operator": name, **_amount(nodes), "why": why.of(nodes)}
        for name, nodes in by_operator.items()
    ]
    whole = _amount(left)
    for amount in amounts:
        whole = {key: whole[key] + amount[key] for key in whole}
    listed.sort(key=lambda row: (-row["flops"], -row["nodes"], row["operator"]))
    return {**whole, "delegates": amounts, "left": listed}


def _delegate(delegate: LoweredBackendModule) -> dict[str, Any]:
    estimate = estimate_of(delegate.processed_bytes)
    described = {"backend": delegate.backend_id, **_amount(inside(delegate))}
    return {**described, "estimate": estimate} if estimate else described


def _amount(nodes: Sequence[Node]) -> dict[str, int]:
    return {"nodes": len(nodes), "flops": sum(map(flops, nodes))}


def delegates(module: GraphModule) -> Iterator[LoweredBackendModule]:
    """The delegates that a graph calls, in order, with those in its branches and loops."""
    for owner, node in operators.walk(module):
        delegate = node.args and getattr(owner, str(getattr(node.args[0], "target", "")), None)
        if isinstance(delegate, LoweredBackendModule):
            yield delegate


def inside(delegate: LoweredBackendModule) -> list[Node]:
    """The operators that a delegate was made of."""
    return _operators(delegate.original_module.graph_module)


def _operators(module: GraphModule) -> list[Node]:
    return [node for _, node in operators.walk(module) if operators.name(node)]


class _Why:
    """Finds the reasons for nodes that stayed behind.

    Args:
      reasons: the partitioners' own.
      partitioners: the recipe's for this method.
      taken: how often each operator was delegated, in all methods.
    """

    def __init__(self, reasons: Reasons, partitioners: Sequence[Any], taken: Counter[str]) -> None:
        self._reasons = reasons
        self._partitioners = partitioners
        self._taken = taken

    def of(self, nodes: Sequence[Node]) -> list[dict[str, Any]]:
        """The reasons for an operator's nodes, the most frequent first, with an example of each."""
        by_reason: dict[str, list[Node]] = {}
        for node in nodes:
            by_reason.setdefault(self._reason(node), []).append(node)
        ordered = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
        return [
            {"reason": reason, "nodes": len(same), "example": described(same[0])}
            for reason, same in ordered
        ]

    def _reason(self, node: Node) -> str:
        said = self._reasons.of(node)
        if said:
            return "; ".join(f"{who}: {text}" if who else text for who, text in said.items())
        if not self._partitioners:
            return NO_PARTITIONER
        name = operators.name(node)
        if self._taken[name]:
            return ELSEWHERE
        if any(self._may_take(partitioner, name) for partitioner in self._partitioners):
            return NOT_HERE
        return NOWHERE

    def _may_take(self, partitioner: Any, name: str) -> bool:
        """Tells whether a partitioner knows an operator; those that list none may know all."""
        known = getattr(partitioner, "target_partitioner_configs", None)
        return known is None or name.split(".", 1)[1] in known


def described(node: Node) -> str:
    """A node's inputs: "float32 [1, ≤512]", where ≤ is the bound of a dynamic dimension.

    Sizes that are computed are inputs, too.
    """
    inputs = []
    for tensor in operators.inputs(node):
        sizes = ((n if isinstance(n, int) else f"≤{size(n)}") for n in tensor.shape)
        dtype = str(tensor.dtype).removeprefix("torch.")
        inputs.append(f"{dtype} [{', '.join(map(str, sizes))}]")
    computed = [given.meta.get("val") for given in node.all_input_nodes]
    inputs += [f"size ≤{size(n)}" for n in computed if isinstance(n, torch.SymInt)]
    return ", ".join(inputs) or "no inputs"
