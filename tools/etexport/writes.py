"""Writes into buffers in place, where that is safe.

A KV cache that takes one token is copied whole, and copied back, by a program in which each write
makes a new tensor: the larger part of a token's time at a long context. Upstream's
`run_reinplace_pass` (`executorch.exir.passes.reinplace`, 1.5.1) mends that. It is off by default,
and it doesn't know that `view_copy` becomes a view of the memory that is written to. So it is used
where no operator but the write reads what is overwritten.
"""

from __future__ import annotations

from typing import Any

from executorch.exir.passes.reinplace import DEFAULT_INPLACEABLE_OPS
from torch.export import ExportedProgram
from torch.fx import Node


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
