"""Maps each instruction of a program to the module of the model that it came from.

The runtime's events name instructions by number. Upstream relates these to debug handles while it
emits a program (`debug_handle_map`), and a handle belongs to the nodes that were made from one call
of the exported model, which know their module. So nothing is added to the program. Instructions in
branches and loops have no handles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch.fx import GraphModule, Node

from etlower import operators
from etlower.delegation import delegates, inside
from etlower.flops import flops

# Module, operator and FLOPs of a delegated node.
_Call = tuple[str, str, int]


class Calls:
    """Modules by instruction, from what is known before and after a program is emitted."""

    def __init__(self) -> None:
        self._modules: dict[str, dict[int, str]] = {}
        self._delegates: dict[str, dict[tuple[int, ...], list[list[_Call]]]] = {}

    def keep(self, edge: Any) -> None:
        """Keeps what the nodes of a program say.

        Args:
          edge: upstream's EdgeProgramManager, lowered and not yet emitted.
        """
        for method in sorted(edge.methods):
            graph = edge.exported_program(method).graph_module
            parts = list(delegates(graph))
            modules = _modules([graph, *(part.original_module.graph_module for part in parts)])
            by_handles: dict[tuple[int, ...], list[list[_Call]]] = {}
            for part in parts:
                calls = [_call(node, modules) for node in inside(part)]
                by_handles.setdefault(_handles(part), []).append(calls)
            self._modules[method], self._delegates[method] = modules, by_handles

    def of_program(self, manager: Any) -> dict[str, Any]:
        """The modules by method and instruction.

        Args:
          manager: upstream's ExecutorchProgramManager.

        Returns:
          Per method: `kernels`, by number of the instruction its module; `delegates`, by number of
          the instruction [module, operator, FLOPs] of each node in it.
        """
        return {
            method: self._method(method, handles)
            for method, handles in sorted(manager.debug_handle_map.items())
            if method in self._modules
        }

    def _method(self, method: str, handles: dict[int, int | list[int]]) -> dict[str, Any]:
        modules = self._modules[method]
        waiting = {key: list(calls) for key, calls in self._delegates[method].items()}
        kernels: dict[str, str] = {}
        delegated: dict[str, list[_Call]] = {}
        for instruction, handle in sorted(handles.items()):
            if not isinstance(handle, list):
                kernels[str(instruction)] = modules.get(handle, "")
            elif waiting.get(tuple(handle)):
                delegated[str(instruction)] = waiting[tuple(handle)].pop(0)
        return {"kernels": kernels, "delegates": delegated}


def _modules(graphs: Sequence[GraphModule]) -> dict[int, str]:
    """The module of each debug handle.

    Nodes that quantization added know none of their own; those of one handle have the same.
    """
    modules: dict[int, str] = {}
    for graph in graphs:
        for _, node in operators.walk(graph):
            handle = node.meta.get("debug_handle")
            if handle is not None and not modules.get(handle):
                modules[handle] = operators.module_of(node)
    return modules


def _call(node: Node, modules: dict[int, str]) -> _Call:
    module = operators.module_of(node) or modules.get(node.meta.get("debug_handle", 0), "")
    return (module, operators.name(node), flops(node))


def _handles(delegate: LoweredBackendModule) -> tuple[int, ...]:
    """Returns the debug handles that upstream's emitter lists of a delegate."""
    nodes = delegate.original_module.graph.nodes
    handles = [n.meta.get("debug_handle") for n in nodes if n.op == "call_function"]
    return tuple(handle for handle in handles if handle is not None)
