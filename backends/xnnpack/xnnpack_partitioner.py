"""A partitioner for XNNPACK, and what delegates exchange at their borders."""

from __future__ import annotations

import logging

import torch
import xnnpack_circles
from etlower import exchanged, operators, partition_tags
from etlower.replacing import replaced
from executorch.backends.xnnpack.partition.config import xnnpack_config
from executorch.backends.xnnpack.partition.config.xnnpack_config import XNNPartitionerConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.utils.quant_utils import (
    IS_IMPLICIT_Q_DQ_TAG,
    is_dequant,
    is_quant,
    is_tagged_as_implicit_q_dq,
)
from executorch.exir.backend.partitioner import PartitionResult
from executorch.exir.backend.utils import WhyNoPartition
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols, statically_known_true
from xnnpack_layouts import is_copy, users_of_other_layout

_why = WhyNoPartition(logging.getLogger(__name__))
_MOST_DIMENSIONS = 6
# They take bytes and give floats where activations are quantized as they come.
_LAYERS = frozenset({"addmm", "bmm", "convolution", "linear", "matmul", "mm"})
# No size of a tensor is larger.
_LARGEST = 2**31


class GuardedXnnpackPartitioner(XnnpackPartitioner):
    """Takes tensors whose sizes follow from values, too, where these have bounds.

    Upstream leaves them out, as they may be empty, which XNNPACK's tensors cannot be.

    Attributes:
      takes_bounded_sizes: that it does, for `etlower.prefixes`.
    """

    takes_bounded_sizes = True

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags what XNNPACK takes."""
        checks = (
            (xnnpack_config, "has_free_unbacked_symbols", _may_be_empty),
            (XNNPartitionerConfig, "check_common_constraints", _fits),
        )
        with replaced(*checks):
            result = super().partition(exported_program)
        xnnpack_circles.split(result)
        with exchanged.results_named(exported_program):
            _convert_at_borders(exported_program.graph)
            _leave_copies(exported_program.graph)
            _split_dequantized(exported_program.graph)
        return result


_upstreams_fits = XNNPartitionerConfig.check_common_constraints


def _fits(self: XNNPartitionerConfig, node: Node, ep: ExportedProgram) -> bool:
    """Upstream's check, without tensors of more dimensions than XNNPACK's have."""
    values = [source.meta.get("val") for source in (node, *node.all_input_nodes)]
    if any(isinstance(v, torch.Tensor) and v.dim() > _MOST_DIMENSIONS for v in values):
        _why(node, reason=f"XNNPACK's tensors have at most {_MOST_DIMENSIONS} dimensions")
        return False
    return bool(_upstreams_fits(self, node, ep))


def _may_be_empty(tensor: torch.Tensor) -> bool:
    """Tells whether a tensor has a size that follows from values and is not known to have bounds.

    The bounds are what ExecuTorch plans memory by.
    """
    sizes = [size for size in tensor.shape if has_free_unbacked_symbols(size)]
    return not all(
        statically_known_true(size >= 1) and statically_known_true(size < _LARGEST)
        for size in sizes
    )


def _convert_at_borders(graph: Graph) -> None:
    """Has delegates convert what they exchange.

    Upstream takes the conversions around a layer for a part of it, also if it then leaves the layer
    out: the delegate would leave out the conversion, and hand out memory that it did not write.
    What computes floats in the delegate gets a conversion of its own, too: it would read bytes.
    """
    for node in list(graph.nodes):
        tag = partition_tags.of(node)
        if tag is None or not is_tagged_as_implicit_q_dq(node):
            continue
        if is_quant(node) and partition_tags.of(node.args[0]) != tag:
            del node.meta[IS_IMPLICIT_Q_DQ_TAG]
        inside = [user for user in node.users if partition_tags.of(user) == tag]
        of_bytes = [user for user in inside if _computes_bytes(user)]
        others = [user for user in node.users if user not in (of_bytes or inside)]
        if not is_dequant(node) or not others:
            continue
        with graph.inserting_after(node):
            converted = graph.node_copy(node)
        del converted.meta[IS_IMPLICIT_Q_DQ_TAG]
        for user in others:
            user.replace_input_with(node, converted)
        if not node.users:
            graph.erase_node(node)


def _computes_bytes(node: Node) -> bool:
    """Tells whether an operator is part of one on bytes, which but for layers has such a result."""
    if is_quant(node) or is_dequant(node):
        return is_tagged_as_implicit_q_dq(node)
    return operators.packet(node) in _LAYERS or any(map(_computes_bytes, node.users))


def _leave_copies(graph: Graph) -> None:
    """Leaves out copies that XNNPACK's lowering fails with.

    It drops copies of what a part computes, and a delegate cannot hand out a tensor twice.
    """
    sources: dict[Node, Node] = {}
    copies: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if _is_dropped(node):
            sources[node] = sources.get(node.args[0], node.args[0])
            copies.setdefault(sources[node], []).append(node)
    for source, own in copies.items():
        handed_out = {node: partition_tags.readers_outside(node) for node in (source, *own)}
        if sum(map(bool, handed_out.values())) <= 1:
            continue
        for copy in own:
            copy.replace_input_with(copy.args[0], source)
            for user in [user for user in copy.users if user not in handed_out[copy]]:
                user.replace_input_with(copy, source)
        for copy in own:
            if handed_out[copy]:
                del copy.meta[partition_tags.TAG]


def _is_dropped(node: Node) -> bool:
    """Tells whether a node is a copy of what its part computes, in the same order of dimensions."""
    tag = partition_tags.of(node)
    return (
        tag is not None
        and is_copy(node, tag)
        and partition_tags.of(node.args[0]) == tag
        and node.args[0].meta["val"].dim_order() == node.meta["val"].dim_order()
    )


def _split_dequantized(graph: Graph) -> None:
    """Gives users of a picture that was quantized their own, where some read another layout.

    Upstream converts the layout of such a tensor for one of them, and hands all others the result.
    """
    for node in list(graph.nodes):
        tag = partition_tags.of(node)
        if tag is None or not is_dequant(node) or node.meta["val"].dim() != 4:
            continue
        # XNNPACK's lowering drops copies; what is left here of one is the delegate's output.
        for copy in [user for user in node.users if is_copy(user, tag)]:
            for user in [user for user in copy.users if partition_tags.of(user) == tag]:
                user.replace_input_with(copy, node)
            if not copy.users:
                graph.erase_node(copy)
        others = users_of_other_layout(node)
        inside = [user for user in others if partition_tags.of(user) == tag]
        same = [user for user in node.users if user not in others]
        groups = [[user] for user in inside] + ([same] if same else [])
        stays = len(inside) == len(others)
        for users in groups[1:] if stays else groups:
            with graph.inserting_after(node):
                own = graph.node_copy(node)
            for user in users:
                user.replace_input_with(node, own)
