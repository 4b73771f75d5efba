"""Finds which operator of a partition a backend's compiler refuses.

Partitioners check operators one by one, and the compiler sees what was taken later. Then it may
still refuse: it fuses neighbors, or converts more narrowly, and may name none. So beginnings of the
partition are compiled, by bisection: the last operator of the shortest one that fails is the one.

A beginning has all operators up to one of them; those whose results the rest reads are its outputs.
"""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError, LowerAgain
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from etlower import operators

# Operators of a model that a compiler fails on, one after the other, until the build fails.
_MOST = 24
# Programs may print more behind it.
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)


class Refusals:
    """Operators that a backend's compiler failed on in former attempts of a lowering.

    A partitioner has one, leaves out what it `has`, and is asked again after `find`.
    """

    def __init__(self) -> None:
        self._keys: set[tuple[str, str]] = set()

    def has(self, node: torch.fx.Node) -> bool:
        """Tells whether a compiler failed on a call."""
        return node.op == "call_function" and _key(node) in self._keys

    def find(
        self, before: Snapshot, compiler: Callable[[ExportedProgram], Any], error: Exception
    ) -> BuildError:
        """Finds what a compiler failed on.

        Args:
          before: the partition that it failed on.
          compiler: compiles a partition, and may change it; raises what it fails with.
          error: what it failed with.

        Returns:
          The error of the build, without its hint: no operator is found, or too many were.

        Raises:
          LowerAgain: another attempt leaves the operator to ExecuTorch.
        """
        node = before.first_refused(succeeding(compiler))
        if node is not None and not self.has(node) and len(self._keys) < _MOST:
            self._keys.add(_key(node))
            raise LowerAgain from error
        lines = str(error).strip().splitlines() or [type(error).__name__]
        # Not a heading of what a compiler printed: "Stdout:".
        said = [line for line in lines if line.strip() and not line.rstrip().endswith(":")] or lines
        said = [line for line in said if _ERROR.search(line)] or said
        names = {operators.name(each) for each in before.graph.nodes}
        own = sorted(n.removeprefix("aten.") for n in names if n.startswith("aten."))
        return BuildError(f"a part with {', '.join(own)}: {said[-1].strip().rstrip('.')}.")


def succeeding(compiler: Callable[[ExportedProgram], Any]) -> Callable[[ExportedProgram], bool]:
    """Tells of a program whether a compiler, which raises what it fails with, takes it."""

    def compiles(program: ExportedProgram) -> bool:
        try:
            compiler(program)
        except Exception:
            return False
        return True

    return compiles


def _key(node: torch.fx.Node) -> tuple[str, str]:
    """Names that tell a call from others in the next attempt."""
    return node.name, operators.name(node)


@dataclass(frozen=True)
class Snapshot:
    """A partition as it was before upstream's passes, which change it.

    Attributes:
      program: of the partition.
      graph: a copy of its graph.
      signature: a copy of its signature.
      weights: its table of parameters and buffers, from which passes drop what they fold.
      constants: its table of other tensors.
    """

    program: ExportedProgram
    graph: torch.fx.Graph
    signature: ExportGraphSignature
    weights: dict[str, Any]
    constants: dict[str, Any]

    @staticmethod
    def of(program: ExportedProgram) -> Snapshot:
        """Copies a partition's graph; its weights are not copied."""
        return Snapshot(
            program,
            copy.deepcopy(program.graph),
            copy.deepcopy(program.graph_signature),
            dict(program.state_dict),
            dict(program.constants),
        )

    def beginning(self, count: int) -> ExportedProgram:
        """The partition's first operators as a program.

        Args:
          count: of operators.
        """
        graph = copy.deepcopy(self.graph)
        calls = _calls(graph)
        first, rest = set(calls[:count]), calls[count:]
        [output] = graph.find_nodes(op="output")
        specs = {spec.arg.name: spec for spec in self.signature.input_specs}
        computed = self._computed(graph)
        results = [
            node
            for node in calls[:count]
            if node in computed
            and any(user not in first for user in node.users)
            # Of several results those that are picked are outputs.
            and isinstance(node.meta.get("val"), torch.Tensor)
        ]
        output.args = (tuple(results),)
        for node in reversed(rest):
            graph.erase_node(node)
        graph.eliminate_dead_code()
        for node in graph.find_nodes(op="placeholder"):
            if not node.users:
                graph.erase_node(node)
        kept = [specs[node.name] for node in graph.find_nodes(op="placeholder")]
        outputs = [
            OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results
        ]
        return ExportedProgram(
            root=torch.fx.GraphModule(self.program.graph_module, graph),
            graph=graph,
            graph_signature=ExportGraphSignature(kept, outputs),
            state_dict=dict(self.weights),
            range_constraints=dict(self.program.range_constraints),
            module_call_graph=_call(kept, outputs),
            constants=dict(self.constants),
            verifiers=[self.program.verifier],
        )

    def _computed(self, graph: torch.fx.Graph) -> set[torch.fx.Node]:
        """Nodes that follow from inputs: compilers hand out no others."""
        given = {
            spec.arg.name
            for spec in self.signature.input_specs
            if spec.kind == InputKind.USER_INPUT
        }
        found: set[torch.fx.Node] = set()
        for node in graph.nodes:
            is_given = node.op == "placeholder" and node.name in given
            if is_given or any(each in found for each in node.all_input_nodes):
                found.add(node)
        return found

    def first_refused(self, compiles: Callable[[ExportedProgram], bool]) -> torch.fx.Node | None:
        """Finds the operator with which a partition stops being compiled.

        Args:
          compiles: tells whether the compiler takes a program; it may change it.

        Returns:
          The node; None: the compiler takes all of them.
        """
        refused = self.refused_among(compiles, lambda: False)
        return refused[-1] if refused else None

    def refused_among(
        self, compiles: Callable[[ExportedProgram], bool], is_over: Callable[[], bool]
    ) -> list[torch.fx.Node]:
        """Finds operators among which a partition stops being compiled.

        Args:
          compiles: tells whether the compiler takes a program; it may change it.
          is_over: tells, before each attempt but the first, whether the time for them is over.

        Returns:
          One operator, unless the time was over before; empty: the compiler takes all of them.
        """
        calls = _calls(self.graph)
        bad = len(calls)
        if compiles(self.beginning(bad)):
            return []
        # Nothing is computed before the first operator on an input.
        computed = self._computed(self.graph)
        good = next((number for number, node in enumerate(calls) if node in computed), 0)
        while bad - good > 1 and not is_over():
            middle = (good + bad) // 2
            good, bad = (middle, bad) if compiles(self.beginning(middle)) else (good, middle)
        return [_source(node) for node in calls[good:bad]]


def _source(node: torch.fx.Node) -> torch.fx.Node:
    """The call of the model's: picking one of several results is none."""
    while node.target is operator.getitem:
        node = node.args[0]  # type: ignore[assignment]
    return node


def _call(inputs: list[InputSpec], outputs: list[OutputSpec]) -> list[ModuleCallEntry]:
    """A program's own call, as upstream's partitions have it.

    It names no nodes: passes replace those, and the check behind them would miss results.
    """
    given = [spec.arg for spec in inputs if spec.kind == InputKind.USER_INPUT]
    specs = pytree.tree_structure((tuple(given), {})), pytree.tree_structure(tuple(outputs))
    return [ModuleCallEntry("", ModuleCallSignature([], [], *specs))]


def _calls(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op == "call_function"]
