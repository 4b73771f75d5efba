"""Passes of upstream's XNNPACK compiler, without what they make wrong."""

from __future__ import annotations

import math
from typing import Any

from etbuild.exact import has_channels_last
from etlower.replacing import replace
from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import (
    ChannelsLastTaggedReshapePass,
)
from executorch.backends.xnnpack._passes.convert_to_linear import ConvertToLinearPass
from executorch.backends.xnnpack._passes.decompose_batch_norm import DecomposeBatchNorm
from executorch.backends.xnnpack._passes.fuse_activation_pass import FuseActivationPass
from executorch.backends.xnnpack.serialization.xnnpack_graph_schema import OutputMinMax
from executorch.backends.xnnpack.utils.quant_utils import is_dequant, is_dynamic_qdq
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from executorch.exir.dialects._ops import ops
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.utils.source_matcher_utils import SourcePartition
from xnnpack_weights import own_packed

# Dimensions of a layer's weight.
_MATRIX = 2


def install() -> None:
    """Has, for this process, upstream's backend and its passes do what is right."""
    replace(XnnpackBackend, "preprocess", _own_packed)
    replace(ConvertToLinearPass, "create_linear", _keep_batches)
    replace(FuseActivationPass, "get_output_min_max_from_activation", _all_bounds)
    replace(DecomposeBatchNorm, "decompose_node", _keep_values)
    layouts = ChannelsLastTaggedReshapePass
    replace(layouts, "is_nhwc_node", lambda inner, node: _lies_last(inner, node, True))
    replace(layouts, "is_nchw_node", lambda inner, node: _lies_last(inner, node, False))
    for name in ("input_to_nhwc", "input_to_nchw"):
        replace(layouts, name, _convert_before)


def _keep_values(inner: Any, self: Any, node: Node, graph_module: GraphModule) -> None:
    """Has upstream's pass take a normalization behind another one, which it makes a layer of.

    It asks what that gives, which is not known of a new layer.
    """
    value = node.args[0].meta["val"]
    inner(self, node, graph_module)
    for target in (ops.edge.aten.convolution.default, ops.edge.aten.squeeze_copy.dim):
        for made in graph_module.graph.find_nodes(op="call_function", target=target):
            made.meta.setdefault("val", value)


def _own_packed(inner: Any, program: ExportedProgram, specs: Any) -> Any:
    own_packed(program)
    return inner(program, specs)


def _lies_last(inner: Any, node: Node, asked: bool) -> bool:
    """Has upstream's pass of layouts see that the channels of a quantized input lie last.

    It asks the first row of the batch, which has no channels.
    """
    quantized = node.all_input_nodes[:1] if is_dequant(node) else []
    source = [each for one in quantized for each in one.all_input_nodes[:1]]
    if not source or source[0].op != "placeholder":
        return bool(inner(node))
    return has_channels_last(source[0].meta["val"]) == asked


def _convert_before(
    inner: Any,
    self: ChannelsLastTaggedReshapePass,
    graph_module: GraphModule,
    read: Node,
    reader: Node,
) -> None:
    """Has upstream's pass of layouts convert what is quantized dynamically, where it is quantized.

    It converts what the delegate gets, for all that read it, or what is quantized already.
    """
    if not (is_dequant(read) and is_dynamic_qdq(read)):
        inner(self, graph_module, read, reader)
        return
    quantize = read.args[0]
    source, scale, _ = quantize.all_input_nodes
    for node in (scale.args[0], quantize):
        inner(self, graph_module, source, node)


def _all_bounds(inner: Any, self: FuseActivationPass, activation: Node) -> OutputMinMax:
    """Has upstream's pass take the bounds of all activations behind a layer.

    It takes those of the last one, so that what the ones before cut off comes back.
    """
    bounds = inner(self, activation)
    earlier = FuseActivationPass.get_fused_activation(activation.args[0])
    if earlier is None:
        return bounds
    low, high = float(bounds.output_min), float(bounds.output_max)
    least, most = (
        min(max(float(bound), low), high) for bound in (earlier.output_min, earlier.output_max)
    )
    return OutputMinMax(least, "+inf" if most == math.inf else most)


def _keep_batches(
    inner: Any,
    self: ConvertToLinearPass,
    graph_module: GraphModule,
    node: Node,
    source: SourcePartition,
) -> None:
    """Has upstream's pass leave products of batches whose weights are computed.

    A linear layer of such weights over permuted rows is one: it repeats the weights for each of the
    batch, and the pass takes what is repeated for the weight.
    """
    given = [*source.input_nodes, *source.params]
    weight = self.find(self.get_arg(node, "weight"), given)
    if weight.meta["val"].dim() == _MATRIX:
        inner(self, graph_module, node, source)
    else:
        # The pass looks for calls that came from a linear layer until there is none.
        node.meta["source_fn_stack"] = [(node.name, node.target)]
