"""Recurrent layers written out as the operators that they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etbuild.exact.nodes import aten

if TYPE_CHECKING:
    from torch.fx import GraphModule

# Layers over a sequence, and single steps of one.
LAYERS = ("gru.input", "lstm.input", "rnn_relu.input", "rnn_tanh.input")
CELLS = ("gru_cell.default", "lstm_cell.default", "rnn_relu_cell.default", "rnn_tanh_cell.default")


def write_out_recurrent(graph: GraphModule, *names: str) -> GraphModule:
    """Writes out recurrent layers, each step of a sequence by itself.

    Args:
      graph: of ATen operators and fixed sizes, before it is quantized.
      names: of operators, with overload: "lstm.input".

    Returns:
      The graph itself where it has none of them, or else another one of the same tensors.
    """
    import torch

    functions = torch.export.default_decompositions()
    called = {node.target for node in graph.graph.nodes}
    table = {op: functions[op] for op in map(aten, names) if op in called}
    if not table:
        return graph
    values = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
    inputs = tuple(torch.zeros(value.shape, dtype=value.dtype) for value in values)
    program = torch.export.export(graph, inputs)
    return program.run_decompositions(table).module(check_guards=False)
