"""Partitions for QNN make their weights themselves; refused weights name their readers."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import qualcomm_compiler
import qualcomm_differences
import qualcomm_partitioner
import qualcomm_partitions
import qualcomm_passes
import torch
from etbuild import BuildError, LowerAgain
from etlower import operators, partition_tags
from executorch.backends.qualcomm import _passes
from executorch.backends.qualcomm.partition import qnn_partitioner
from executorch.backends.qualcomm.utils.constants import (
    QCOM_BYPASS_NODE,
    QCOM_QUANT_ATTRS,
)
from executorch.exir import to_edge
from executorch.exir.dialects._ops import ops as exir_ops
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import Partition


def _layers() -> tuple[Graph, dict[str, Node]]:
    """Two layers of one stored weight, and between them what QNN does not take."""
    graph = Graph()
    x, stored, zeros = (graph.placeholder(name) for name in ("x", "stored", "zeros"))
    narrow = graph.call_function(torch.ops.aten.to.dtype, (zeros, torch.int32))
    weights = [graph.call_function(torch.ops.aten.sub.Tensor, (stored, narrow)) for _ in range(2)]
    for node in (narrow, *weights):
        node.meta[QCOM_BYPASS_NODE] = True
    first = graph.call_function(torch.ops.aten.linear.default, (x, weights[0]))
    between = graph.call_function(torch.ops.aten.relu.default, (first,))
    second = graph.call_function(torch.ops.aten.linear.default, (between, weights[1]))
    graph.output(second)
    names = ("narrow", "weight", "other", "first", "second")
    return graph, dict(zip(names, (narrow, *weights, first, second), strict=True))


@pytest.mark.parametrize("given", [["narrow", "weight"], ["weight"], []])
def test_partitions_make_their_weights(given: list[str]) -> None:
    """Wherever the steps to a weight were put, each partition has all of its own."""
    graph, nodes = _layers()
    partitions = [
        Partition(0, [*(nodes[name] for name in given), nodes["first"]]),
        Partition(1, [nodes["second"]]),
    ]
    for partition in partitions:
        qualcomm_partitions.own_weights(partition)
    graph.lint()
    for partition, layer in zip(partitions, ("first", "second"), strict=True):
        weight = nodes[layer].args[1]
        assert {weight, weight.args[1]} < set(partition.nodes)
        assert all(node.meta[QCOM_BYPASS_NODE] for node in (weight, weight.args[1]))
    assert nodes["first"].args[0].name == "x"


@pytest.mark.parametrize("is_result", [True, False])
def test_the_copy_of_a_weight_that_is_a_result_stays(is_result: bool) -> None:
    """A part has the weight, and its output would be the weight itself."""
    qualcomm_passes.leave_out_passes()
    graph = Graph()
    x, weight = graph.placeholder("x"), graph.placeholder("weight")
    x.meta["val"] = weight.meta["val"] = torch.empty(1, 4)
    copy = graph.call_function(exir_ops.edge.aten.repeat.default, (weight, [1, 1]))
    copy.meta["val"] = torch.empty(1, 4)
    product = graph.call_function(exir_ops.edge.aten.mul.Tensor, (x, weight if is_result else copy))
    graph.output((product, copy) if is_result else (product,))
    _passes.RemoveRedundancy()._remove(GraphModule(nn.Module(), graph))
    assert [node.name for node in graph.nodes if node.op == "call_function"] == [
        *(["aten_repeat_default"] if is_result else []),
        "aten_mul_tensor",
    ]


class Scores(nn.Module):
    """A layer's scores of each pixel, and their softmax over the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """x of (n, 3, h, w)"""
        scores = self.layer(x)
        return scores, scores.softmax(1)


@pytest.mark.parametrize("first", ["output", "aten__softmax_default"])
def test_each_reader_gets_its_order_once(first: str) -> None:
    """Whichever of two the pass meets first."""
    qualcomm_passes.leave_out_passes()
    program = to_edge(torch.export.export(Scores().eval(), (torch.randn(1, 3, 5, 6),)))
    edge = program.exported_program()
    # As a part's output has them.
    output = edge.graph.output_node()
    output.args = (list(output.args[0]),)
    [layer] = [node for node in edge.graph.nodes if operators.packet(node) == "convolution"]
    layer.users = dict.fromkeys(sorted(layer.users, key=lambda reader: reader.name != first))
    _passes.LayoutTransform(edge, insert_permute=True).call(edge.graph_module)
    [results] = output.args
    turned = [node.args for node in results]
    assert [order for _, order in turned] == [(0, 3, 1, 2)] * 2
    assert [operators.packet(source) for source, _ in turned] == ["convolution", "_softmax"]


class Angles(nn.Module):
    """A function of a layer's scores that takes them twice, and has an order of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (n, 3, h, w)"""
        scores = self.layer(x)
        return torch.atan2(scores, scores)


def test_a_value_that_is_taken_twice_is_turned_once() -> None:
    qualcomm_passes.leave_out_passes()
    program = to_edge(torch.export.export(Angles().eval(), (torch.randn(1, 3, 5, 6),)))
    edge = program.exported_program()
    _passes.LayoutTransform(edge, insert_permute=True).call(edge.graph_module)
    [angles] = [node for node in edge.graph.nodes if operators.packet(node) == "atan2"]
    [given] = angles.all_input_nodes
    assert angles.args == (given, given)
    assert given.args[1] == (0, 3, 1, 2)
    assert operators.packet(given.args[0]) == "convolution"


@pytest.mark.parametrize(
    ("says", "stays"), [(True, True), (False, False), (RuntimeError("no"), False)]
)
def test_what_is_refused_leaves_no_scale(
    says: Any, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream asks the compiler about an operator whose input has the scale of its result."""
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(exir_ops.edge.aten.relu.default, (x,))
    x.meta[QCOM_QUANT_ATTRS] = {"scale": 0.5}

    def supported(self: Any, modules: Any, node: Node) -> bool:
        x.meta[QCOM_QUANT_ATTRS] = {"scale": 0.1}
        if isinstance(says, Exception):
            raise says
        return bool(says)

    checker = qnn_partitioner.QnnOperatorSupport
    monkeypatch.setattr(checker, "is_node_supported", supported)
    with qualcomm_partitioner._refusing(lambda node: stays):
        assert not checker.is_node_supported(None, {}, node)
    assert x.meta[QCOM_QUANT_ATTRS] == {"scale": 0.5}
    if says is True:
        with qualcomm_partitioner._refusing(lambda node: False):
            assert checker.is_node_supported(None, {}, node)
        assert x.meta[QCOM_QUANT_ATTRS] == {"scale": 0.1}


@pytest.mark.parametrize(("readers", "scaled"), [(1, True), (2, True), (2, False)])
def test_what_others_read_is_not_written_into(readers: int, scaled: bool) -> None:
    """Else they would read it in the scale of what is written."""
    graph = Graph()
    x, places, rows = (graph.placeholder(name) for name in ("x", "places", "rows"))
    x.meta["val"], places.meta["val"] = torch.empty(5, 3), torch.zeros(2, dtype=torch.int32)
    rows.meta["val"] = torch.empty(2, 3)
    put = graph.call_function(exir_ops.edge.aten.index_put.default, (x, [places], rows))
    put.meta["val"] = torch.empty(5, 3)
    if scaled:
        put.meta[QCOM_QUANT_ATTRS] = {"scale": 0.1}
    graph.output((put, *[x] * (readers - 1)))
    assert qualcomm_differences.is_computed_otherwise(put) == (readers > 1 and scaled)


def test_places_have_32_bits() -> None:
    """QNN would read each of 64 bits as two."""
    graph = Graph()
    x, places = graph.placeholder("x"), graph.placeholder("places")
    x.meta["val"], places.meta["val"] = torch.empty(8, 3), torch.zeros(5, dtype=torch.int64)
    picked = graph.call_function(exir_ops.edge.aten.index.Tensor, (x, [None, places]))
    picked.meta["val"] = torch.empty(8, 5)
    graph.output((picked,))
    module = GraphModule(nn.Module(), graph)
    assert qualcomm_passes.SameIntegers().call(module).modified
    [_, cast] = picked.args[1]
    assert picked.args[0] is x
    assert cast.args == (places,)
    assert cast.meta["val"].dtype == torch.int32


@pytest.mark.parametrize(
    ("rows", "is_own", "stays"), [(2, False, True), (1, False, False), (2, True, False)]
)
def test_rows_that_a_number_scales(rows: int, is_own: bool, stays: bool) -> None:
    """QNN picks those of the first row of places only, where these are an input of a part."""
    graph = Graph()
    table, places, number = (graph.placeholder(name) for name in ("table", "places", "number"))
    table.meta["val"], number.meta["val"] = torch.empty(8, 3), torch.tensor(4.0)
    places.meta["val"] = torch.zeros([5] * rows, dtype=torch.int32)
    if is_own:
        cast = exir_ops.edge.aten._to_copy.default
        value = places.meta["val"]
        places = graph.call_function(cast, (places,), {"dtype": torch.int32})
        places.meta["val"] = value
    picked = graph.call_function(exir_ops.edge.aten.embedding.default, (table, places))
    picked.meta["val"] = torch.empty(*[5] * rows, 3)
    scaled = graph.call_function(exir_ops.edge.aten.mul.Tensor, (picked, number))
    scaled.meta["val"] = picked.meta["val"]
    assert qualcomm_differences.scales_rows(scaled) == stays


def test_what_reads_a_refused_weight_stays() -> None:
    """A weight that ExecuTorch made would be an activation for QNN."""
    _, nodes = _layers()
    partitioner = object.__new__(qualcomm_partitioner.Partitioner)
    partitioner._refused, partitioner._label, partitioner._chip = set(), "//:recipe", "SM8650"
    with pytest.raises(LowerAgain):
        partitioner.leave_out(nodes["weight"], "failed")
    assert {name for name, _ in partitioner._refused} == {nodes["first"].name}
    with pytest.raises(LowerAgain):
        partitioner.leave_out(nodes["narrow"], "failed")
    assert {name for name, _ in partitioner._refused} == {
        nodes["first"].name,
        nodes["second"].name,
    }
    with pytest.raises(BuildError, match="SM8650 refuses the operator aten.sub.Tensor"):
        partitioner.leave_out(nodes["weight"], "failed")


def test_what_is_filled_like_a_result_closes_no_circle() -> None:
    """A reader elsewhere gets a copy; the partition would otherwise wait for its own result."""
    graph = Graph()
    x = graph.placeholder("x")
    row = graph.call_function(torch.ops.aten.select.int, (x, 0, 0))
    zeros = graph.call_function(torch.ops.aten.full_like.default, (row, 0))
    negated = graph.call_function(torch.ops.aten.neg.default, (zeros,))
    total = graph.call_function(torch.ops.aten.add.Tensor, (row, negated))
    elsewhere = graph.call_function(torch.ops.aten.sub.Tensor, (total, negated))
    graph.output(elsewhere)
    partition = Partition(0, [row, zeros, negated, total])
    qualcomm_partitions.leave_constants(partition, ())
    graph.lint()
    assert set(partition.nodes) == {row, zeros, negated, total}
    copy = elsewhere.args[1]
    assert total.args == (row, negated)
    assert copy is not negated
    assert copy.args[0] is not zeros
    assert copy.args[0].args == (row, 0)


def test_what_is_filled_like_a_result_may_be_a_result() -> None:
    """The program gives its copy, and the partition loses what nothing reads."""
    graph = Graph()
    x = graph.placeholder("x")
    row = graph.call_function(torch.ops.aten.select.int, (x, 0, 0))
    ones = graph.call_function(torch.ops.aten.full_like.default, (row, 1))
    negated = graph.call_function(torch.ops.aten.neg.default, (ones,))
    graph.output((negated,))
    partition = Partition(0, [row, ones, negated])
    qualcomm_partitions.leave_constants(partition, ())
    graph.lint()
    [output] = graph.find_nodes(op="output")
    [given] = output.args[0]
    assert given is not negated
    assert given.target is torch.ops.aten.neg.default
    assert set(partition.nodes) == {row}
    assert partition_tags.is_read(partition)
    assert not partition_tags.is_read(Partition(1, []))


def test_constants_that_are_copied_into_a_tensor_stay() -> None:
    """Of that tensor only the size counts: the part would have a result without an input."""
    graph = Graph()
    x, constant = graph.placeholder("x"), graph.placeholder("constant")
    row = graph.call_function(torch.ops.aten.select.int, (x, 0, 0))
    copied = graph.call_function(torch.ops.aten.copy.default, (row, constant))
    result = graph.call_function(torch.ops.aten.unsqueeze.default, (copied, 0))
    total = graph.call_function(torch.ops.aten.neg.default, (x,))
    graph.output((result, total))
    partition = Partition(0, [copied, result, total])
    qualcomm_partitions.leave_constants(partition, ("constant",))
    assert set(partition.nodes) == {total}


def test_placeholders_come_first() -> None:
    """Upstream puts a constant behind what is computed of constants, and reads it there."""
    graph = Graph()
    stored = graph.placeholder("stored")
    total = graph.call_function(torch.ops.aten.neg.default, (stored,))
    number = graph.placeholder("number")
    total.args = (number,)
    graph.output(total)
    module = GraphModule(nn.Module(), graph)
    assert qualcomm_passes.PlaceholdersFirst().call(module).modified
    graph.lint()
    assert not qualcomm_passes.PlaceholdersFirst().call(module).modified


def test_bounds_that_are_tensors_are_no_numbers() -> None:
    graph = Graph()
    x, least = graph.placeholder("x"), graph.placeholder("least")
    clamp = graph.call_function(torch.ops.aten.clamp.Tensor, (x, least))
    assert qualcomm_differences.bounds_of(clamp) is None
    clamp.args = (x, -1.0, 2.0)
    assert qualcomm_differences.bounds_of(clamp) == (-1.0, 2.0)


def test_memory_is_zero_where_it_is_asked_for() -> None:
    """The compiler leaves some of it as it was, and writes that into a payload.

    Up to 1 KiB, which GNU's library keeps for each thread, stays as it is.
    """
    size = 4096
    qualcomm_compiler.clear_memory()
    libraries = ctypes.CDLL(None)
    libraries.malloc.restype = ctypes.c_void_p
    libraries.free.argtypes = [ctypes.c_void_p]
    for _ in range(3):
        place = libraries.malloc(size)
        assert ctypes.string_at(place, size) == bytes(size)
        ctypes.memset(place, 7, size)
        libraries.free(place)
