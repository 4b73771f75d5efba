"""A backend that knows one operation: adding a tensor to itself."""

from __future__ import annotations

from executorch.exir.backend.backend_details import (
    BackendDetails,
    CompileSpec,
    ExportedProgram,
    PreprocessResult,
)
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.dialects._ops import ops


class DoublerBackend(BackendDetails):
    """Its payload says what is doubled how often."""

    @staticmethod
    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        """Counts the additions."""
        count = sum(node.op == "call_function" for node in program.graph.nodes)
        return PreprocessResult(f"double {count}".encode())


class DoublerPartitioner(Partitioner):
    """Takes x + x."""

    def __init__(self) -> None:
        self._spec = DelegationSpec(DoublerBackend.__name__, [])

    def partition(self, program: ExportedProgram) -> PartitionResult:
        """Tags the additions, each for itself."""
        tags = {}
        for number, node in enumerate(program.graph.nodes):
            if node.target == ops.edge.aten.add.Tensor and node.args[0] is node.args[1]:
                tag = f"double_{number}"
                node.meta["delegation_tag"] = tag
                tags[tag] = self._spec
        return PartitionResult(tagged_exported_program=program, partition_tags=tags)
