"""Writes into buffers in place, where that is safe.

A KV cache that takes one token is copied whole, and copied back, by a program in which each write
makes a new tensor: the larger part of a token's time at a long context. Upstream's
`run_reinplace_pass` (`executorch.exir.passes.reinplace`, 1.5.1) mends that. It is off by default,
and it doesn't know that `view_copy` becomes a view of the memory that is written to. So it is used
where no operator but the write reads what is overwritten.

Upstream's memory planning gives the result of a write the memory of the buffer, but plans another
one for the graph's output that is the same tensor: every buffer a second time. `_SharedOutputs`
tells it that they are one.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes.reinplace import DEFAULT_INPLACEABLE_OPS
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils import _pytree as pytree

_IN_PLACE = "aten::index_put_"


def in_place(config: ExecutorchBackendConfig, edge: Any) -> ExecutorchBackendConfig:
    """A configuration that lets a program write in place, if that is safe.

    Args:
      config: of the recipe; one that uses upstream's pass itself stays as it is.
      edge: upstream's EdgeProgramManager.
    """
    if config.run_reinplace_pass or not are_safe(edge):
        return config
    shared = _SharedOutputs(config.to_out_var_pass)
    return dataclasses.replace(
        config,
        run_reinplace_pass=True,
        to_out_var_pass=shared,
        passes=[_Handles(edge), *config.passes],
    )


def are_safe(edge: Any) -> bool:
    """Whether upstream's pass can be used on a program.

    Args:
      edge: upstream's EdgeProgramManager.

    Returns:
      Whether there are writes, and each is into a buffer that nothing else reads and that holds
      the write's result afterwards.
    """
    programs = [edge.exported_program(name) for name in edge.methods]
    writes = [
        (program, node)
        for program in programs
        for node in program.graph.nodes
        if node.target in DEFAULT_INPLACEABLE_OPS
    ]
    return bool(writes) and all(_is_safe(program, node) for program, node in writes)


def _is_safe(program: ExportedProgram, write: Node) -> bool:
    signature, written = program.graph_signature, write.args[0]
    buffer = signature.inputs_to_buffers.get(written.name)
    return (
        buffer is not None
        and signature.buffers_to_mutate.get(write.name) == buffer
        and len(written.users) == 1
    )


class _Handles(PassBase):
    """Gives writes in place the debug handles of those that upstream's pass replaces by them.

    No program holds them. What upstream's pass does keep is the node's value, the same object.

    Args:
      edge: upstream's EdgeProgramManager, before that pass.
    """

    def __init__(self, edge: Any) -> None:
        super().__init__()
        graphs = [edge.exported_program(name).graph for name in edge.methods]
        self._writes = {
            id(node.meta["val"]): node
            for graph in graphs
            for node in graph.nodes
            if node.target in DEFAULT_INPLACEABLE_OPS
        }

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes metadata, not the graph."""
        for node in graph_module.graph.nodes:
            write = self._writes.get(id(node.meta.get("val")))
            if write is not None and "debug_handle" not in node.meta:
                node.meta["debug_handle"] = write.meta.get("debug_handle")
        return PassResult(graph_module, False)


class _SharedOutputs(PassBase):
    """The last pass before memory is planned; then a written buffer and its output are one.

    Args:
      before: upstream's pass in this place.
    """

    def __init__(self, before: Any) -> None:
        super().__init__()
        self.before = before

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes the tensors' specifications, not the graph."""
        done = self.before(graph_module)
        graph = done.graph_module.graph
        for node in graph.nodes:
            if node.op == "call_function" and _name(node.target) == _IN_PLACE:
                node.meta["spec"] = node.args[0].meta["spec"]
        output = graph.output_node()
        output.meta["spec"] = pytree.tree_map_only(
            Node, lambda node: node.meta.get("spec"), output.args[0]
        )
        return done


def _name(target: Any) -> str | None:
    schema = getattr(target, "_schema", None)
    return schema.name if schema is not None else None
