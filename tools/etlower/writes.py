"""Writes into buffers in place, where that is proven right.

A KV cache that takes one token is copied whole, and copied back, by a program in which each write
makes a new tensor: the larger part of a token's time at a long context. ExecuTorch 1.5.1 has a
kernel that writes in place, `index_put_`, for one case: a single 1-D index without negative
numbers, and values of the full shape. In all other cases it fails when it runs. Upstream's
`run_reinplace_pass` takes that kernel for every write, and doesn't know that `view_copy` becomes a
view of the memory that is written to. So a write is in place here if

- it is the last one into a buffer, and nothing but the write reads what is overwritten;
- the graph has the kernel's case, by types and shapes;
- its index is at least 0: by the values that it is computed of, or because `index_copy` takes no
  others. Any other index gets the size added where it is negative, as eager does.

All else is copied and copied back.

Upstream's memory planning gives the result of a write the memory of the buffer, but plans another
one for the graph's output that is the same tensor: every buffer a second time. `_SharedOutputs`
tells it that they are one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.dialects._ops import ops
from torch._prims_common import is_contiguous_or_false
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils import _pytree as pytree

from etlower.lower_bounds import Least

_IN_PLACE = "aten::index_put_"
_EDGE = ops.edge.aten
_COPIES = (torch.ops.aten.index_copy.default, torch.ops.aten.index_copy_.default)


def in_place(
    config: ExecutorchBackendConfig, edge: Any, programs: Mapping[str, ExportedProgram]
) -> ExecutorchBackendConfig:
    """Lets a program write in place where that is right.

    Args:
      config: of the recipe; nothing changes where it uses upstream's pass itself.
      edge: upstream's EdgeProgramManager; its graphs change.
      programs: by method, as they were exported.

    Returns:
      The configuration to emit the program with.
    """
    if config.run_reinplace_pass or config.do_quant_fusion_and_const_prop:
        return config
    changed = [
        _write_in_place(edge.exported_program(name), _copied(programs[name]))
        for name in edge.methods
    ]
    if not any(changed):
        return config
    return dataclasses.replace(config, to_out_var_pass=_SharedOutputs(config.to_out_var_pass))


def _copied(program: ExportedProgram) -> set[str]:
    """Buffers that `index_copy` alone writes to: eager takes no negative index there."""
    buffers = program.graph_signature.inputs_to_buffers
    return {
        buffers[node.name]
        for node in program.graph.find_nodes(op="placeholder")
        if node.name in buffers
        and [user.target for user in node.users if _writes(user, node)] in ([op] for op in _COPIES)
    }


def _writes(user: Node, written: Node) -> bool:
    if user.args[:1] != (written,):
        return False
    return user.target in (*_COPIES, torch.ops.aten.index_put.default) or _is_mutable(user)


def _is_mutable(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _write_in_place(program: ExportedProgram, copied: set[str]) -> bool:
    """Changes the writes of a method; returns whether there are any in place."""
    writes = [
        node
        for node in program.graph.find_nodes(op="call_function", target=_EDGE.index_put.default)
        if _is_last(program, node) and _has_kernel(node)
    ]
    least = Least(program)
    normalized: dict[tuple[Node, int], Node] = {}
    for write in writes:
        buffer = program.graph_signature.inputs_to_buffers[write.args[0].name]
        dimension, index = _index(write)
        if buffer not in copied and least.of(index) < 0:
            size = write.args[0].meta["val"].shape[dimension]
            if (index, size) not in normalized:
                normalized[index, size] = _normalized(index, size, before=write)
            write.replace_input_with(index, normalized[index, size])
        write.target = _EDGE.index_put_.default
    if writes:
        program.graph_module.recompile()
    return bool(writes)


def _is_last(program: ExportedProgram, write: Node) -> bool:
    """Returns whether a write is a buffer's last, and nothing else reads what it overwrites."""
    signature, written = program.graph_signature, write.args[0]
    buffer = signature.inputs_to_buffers.get(written.name)
    return (
        buffer is not None
        and signature.buffers_to_mutate.get(write.name) == buffer
        and len(written.users) == 1
    )


def _has_kernel(write: Node) -> bool:
    """Returns whether the kernel in place has a write's case, but for the numbers in the index."""
    written, indices, values, *accumulate = write.args
    if any(accumulate) or write.kwargs.get("accumulate"):
        return False
    if sum(index is not None for index in indices) != 1:
        return False
    dimension, index = _index(write)
    tensors = [node.meta["val"] for node in (written, index, values)]
    buffer, numbers, rows = tensors
    expected = [*buffer.shape[:dimension], *numbers.shape, *buffer.shape[dimension + 1 :]]
    return (
        numbers.dtype in (torch.int32, torch.int64)
        and numbers.dim() == 1
        and rows.dtype == buffer.dtype
        and rows.dim() == buffer.dim()
        and all(
            statically_known_true(got == size)
            for got, size in zip(rows.shape, expected, strict=True)
        )
        and all(is_contiguous_or_false(tensor) for tensor in tensors)
    )


def _index(write: Node) -> tuple[int, Node]:
    """The dimension that a write has an index for, and the index."""
    return next((i, index) for i, index in enumerate(write.args[1]) if index is not None)


def _normalized(index: Node, size: int, before: Node) -> Node:
    """The index with the size added to what is negative."""
    graph = before.graph

    def call(op: Any, *args: Any) -> Node:
        node = graph.call_function(op, args)
        node.meta = {k: v for k, v in before.meta.items() if k in ("stack_trace", "debug_handle")}
        values = pytree.tree_map_only(Node, lambda argument: argument.meta["val"], args)
        node.meta["val"] = op(*values)
        return node

    with graph.inserting_before(before), index.meta["val"].fake_mode:
        is_negative = call(_EDGE.lt.Scalar, index, 0)
        behind = call(_EDGE.add.Scalar, index, size)
        return call(_EDGE.where.self, is_negative, behind, index)


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
