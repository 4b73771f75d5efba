"""Upstream's XNNPACK recipes (executorch/backends/xnnpack/recipes) by the names of our targets.

Each takes these options:
  share_mutable_buffers: whether the methods of a program share their state, for example a KV cache;
    default false.
  enable_bf16: whether XNNPACK gets linear layers in bfloat16, for which the target's processor
    needs instructions; default false.
"""

from __future__ import annotations

import logging
import math
import operator
from typing import Any

import torch
from etbuild import (
    RecipeContext,
    fold_constants,
    groups_fit,
    share_mutable_buffers,
    weight_only,
    write_out,
)
from etbuild.biases import own_biases, own_row_weights
from etlower.replacing import replace, replaced
from executorch.backends.xnnpack._passes.convert_to_linear import ConvertToLinearPass
from executorch.backends.xnnpack._passes.fuse_activation_pass import FuseActivationPass
from executorch.backends.xnnpack.partition.config import (
    AddmmConfig,
    AvgPoolingConfig,
    BatchNormConfig,
    ConstantPadConfig,
    ConvolutionConfig,
    LinearConfig,
    MaxDimConfig,
    MaxPool2dConfig,
    MMConfig,
    PreluConfig,
    SoftmaxConfig,
    UpsampleBilinear2dConfig,
    xnnpack_config,
)
from executorch.backends.xnnpack.partition.config.gemm_configs import GEMMConfig
from executorch.backends.xnnpack.partition.config.xnnpack_config import XNNPartitionerConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils import OP_TO_ANNOTATOR
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.backends.xnnpack.serialization.xnnpack_graph_schema import OutputMinMax
from executorch.backends.xnnpack.utils.quant_utils import (
    IS_IMPLICIT_Q_DQ_TAG,
    is_dequant,
    is_quant,
    is_tagged_as_implicit_q_dq,
)
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from executorch.exir.backend.partitioner import PartitionResult
from executorch.exir.backend.utils import WhyNoPartition
from executorch.export import ExportRecipe
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import (
    has_free_unbacked_symbols,
    statically_known_true,
)
from torch.fx.passes.utils.source_matcher_utils import SourcePartition
from xnnpack_layouts import (
    gets_channels_last,
    has_rows,
    is_copy,
    keeps_layout,
    users_of_other_layout,
)
from xnnpack_weights import own_layouts, own_packed

_why = WhyNoPartition(logging.getLogger(__name__))
# Settings of the quantizers of upstream's recipes, of which ours take more in dynamic ones.
_PT2E = {
    XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL: {"is_per_channel": True, "is_dynamic": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL: {"is_per_channel": True, "is_dynamic": False},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR: {"is_per_channel": False, "is_dynamic": False},
}
# XNNPACK's packed 4-bit kernels take groups in multiples of this many columns.
_GROUP_STEP = 32
_MOST_DIMENSIONS = 6
# Parts of the names of what a linear layer becomes.
_OF_PRODUCTS = (
    *("mm.default", "linear.default", "permute", "t_copy", "transpose", "view", "unsqueeze"),
    *("squeeze", "expand", "quantize", "qparams", "clone", "to_copy", "dim_order_copy"),
)
# Dimensions of a layer's weight.
_MATRIX = 2
# No size of a tensor is larger.
_LARGEST = 2**31


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """No quantization."""
    return _made(ctx, XNNPackRecipeType.FP32)


def int8_dynamic_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a channel; activations are quantized as they come (PT2E)."""
    return _made(ctx, XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL)


def int8_static_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a channel, 8-bit activations; needs calibration (PT2E)."""
    return _made(ctx, XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL)


def int8_static_per_tensor(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a tensor, 8-bit activations; needs calibration (PT2E)."""
    return _made(ctx, XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR)


def int8_dynamic_act_int4_weight_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights with one scale a row, 8-bit dynamic activations (torchao)."""
    recipe = _made(ctx, XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL)
    return _filtered(recipe, _GROUP_STEP)


def int8_dynamic_act_int4_weight(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights with one scale a group of columns, 8-bit dynamic activations (torchao).

    Options:
      group_size: columns that share a scale; a multiple of 32; default 32.
    """
    group_size = ctx.options.integer("group_size", default=32)
    kind = XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
    recipe = _made(ctx, kind, group_size=group_size)
    return _filtered(recipe, group_size)


def int8_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights of linear layers with one scale a row; each call converts them (torchao)."""
    return weight_only(_computed_weights(ctx), bits=8)


def int4_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights of linear layers; each call unpacks them (torchao).

    Options:
      group_size: columns that share a scale; even; default 32.
    """
    group_size = ctx.options.integer("group_size", default=32)
    return weight_only(_computed_weights(ctx), bits=4, group_size=group_size)


def _computed_weights(ctx: RecipeContext) -> ExportRecipe:
    """A recipe in whose linear layers XNNPACK takes weights that other operators compute."""
    recipe = _made(ctx, XNNPackRecipeType.FP32)
    for partitioner in recipe.lowering_recipe.partitioners:
        # Upstream's own option concerns the biases of convolutions, too, which then fail.
        linear = partitioner.target_partitioner_configs[LinearConfig.target_name]
        linear.force_non_static_weights_for_f32_linear = True
        # Nor has XNNPACK kernels for computed weights in bfloat16.
        linear.enable_bf16 = False
    return recipe


def _made(ctx: RecipeContext, kind: XNNPackRecipeType, **values: int) -> ExportRecipe:
    """Upstream's recipe of a kind; `values`: the options that it takes and others don't."""
    recipe = ExportRecipe.get_recipe(kind, **values)
    own_packed(XnnpackBackend)
    _keep_batches(ConvertToLinearPass)
    _fuse_all_bounds(FuseActivationPass)
    for partitioner in recipe.lowering_recipe.partitioners:
        partitioner.__class__ = _XnnpackPartitioner
        configs = partitioner.target_partitioner_configs
        upstreams = configs.get(MaxDimConfig.target_name)
        if upstreams is not None:
            configs[MaxDimConfig.target_name] = ours = _MaxDim()
            ours.enabled_precision_types = upstreams.enabled_precision_types
        upstreams = configs.get(UpsampleBilinear2dConfig.target_name)
        if upstreams is not None and ctx.exact("bilinear"):
            configs[UpsampleBilinear2dConfig.target_name] = ours = _Bilinear()
            ours.enabled_precision_types = upstreams.enabled_precision_types
        for ours in _OURS:
            if ours.target_name in configs:
                configs[ours.target_name].__class__ = ours
        # XNNPACK has kernels in bfloat16 for few others, and programs with others don't load.
        linear = configs.get(LinearConfig.target_name)
        if linear is not None:
            linear.enable_bf16 = ctx.options.boolean("enable_bf16", default=False)
    if kind in _PT2E:
        settings = get_symmetric_quantization_config(**_PT2E[kind], is_qat=ctx.qat)
        recipe.quantization_recipe.quantizers = [_Quantizer().set_global(settings)]
        recipe.quantization_recipe.is_qat = ctx.qat
        folds = [] if ctx.qat else [fold_constants]
        biases = [] if _PT2E[kind]["is_dynamic"] else [own_biases, own_row_weights]
        recipe.quantization_recipe.pre_prepare_passes = [*folds, *biases]
        if _PT2E[kind]["is_dynamic"]:
            recipe.quantization_recipe.post_convert_passes = [_split_dynamic]
    exact = write_out(*ctx.exact("addmm", "gelu"), "hardtanh")
    recipe.aten_transform_passes = [*(recipe.aten_transform_passes or []), exact, own_layouts]
    if ctx.options.boolean("share_mutable_buffers", default=False):
        share_mutable_buffers(recipe, ctx.label)
    return recipe


class _XnnpackPartitioner(XnnpackPartitioner):
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
        _convert_at_borders(exported_program.graph)
        _leave_copies(exported_program.graph)
        _split_dequantized(exported_program.graph)
        return result


def _fuse_all_bounds(fuse: type[FuseActivationPass]) -> None:
    """Has upstream's pass take the bounds of all activations behind a layer; once.

    It takes those of the last one, so that what the ones before cut off comes back.

    Args:
      fuse: upstream's class.
    """

    def bounds_of(inner: Any, self: FuseActivationPass, activation: Node) -> OutputMinMax:
        bounds = inner(self, activation)
        earlier = fuse.get_fused_activation(activation.args[0])
        if earlier is None:
            return bounds
        low, high = float(bounds.output_min), float(bounds.output_max)
        least, most = (
            min(max(float(bound), low), high) for bound in (earlier.output_min, earlier.output_max)
        )
        return OutputMinMax(least, "+inf" if most == math.inf else most)

    replace(fuse, "get_output_min_max_from_activation", bounds_of)


def _keep_batches(convert: type[ConvertToLinearPass]) -> None:
    """Has upstream's pass leave products of batches whose weights are computed; once.

    A linear layer of such weights over permuted rows is one: it repeats the weights for each of the
    batch, and the pass takes what is repeated for the weight.

    Args:
      convert: upstream's class.
    """

    def create_linear(
        inner: Any,
        self: ConvertToLinearPass,
        graph_module: GraphModule,
        node: Node,
        source: SourcePartition,
    ) -> None:
        given = [*source.input_nodes, *source.params]
        weight = self.find(self.get_arg(node, "weight"), given)
        if weight.meta["val"].dim() == _MATRIX:
            inner(self, graph_module, node, source)
        else:
            # The pass looks for calls that came from a linear layer until there is none.
            node.meta["source_fn_stack"] = [(node.name, node.target)]

    replace(convert, "create_linear", create_linear)


_upstreams_fits = XNNPartitionerConfig.check_common_constraints


def _fits(self: XNNPartitionerConfig, node: Node, ep: ExportedProgram) -> bool:
    """Upstream's check, without tensors of more dimensions than XNNPACK's have."""
    values = [source.meta.get("val") for source in (node, *node.all_input_nodes)]
    if any(isinstance(v, torch.Tensor) and v.dim() > _MOST_DIMENSIONS for v in values):
        _why(node, reason=f"XNNPACK's tensors have at most {_MOST_DIMENSIONS} dimensions")
        return False
    return bool(_upstreams_fits(self, node, ep))


def _convert_at_borders(graph: Graph) -> None:
    """Has delegates convert what they exchange.

    Upstream takes the conversions around a layer for a part of it, also if it then leaves the layer
    out: the delegate would leave out the conversion, and hand out memory that it did not write.
    """
    for node in list(graph.nodes):
        tag = node.meta.get("delegation_tag")
        if tag is None or not is_tagged_as_implicit_q_dq(node):
            continue
        if is_quant(node) and node.args[0].meta.get("delegation_tag") != tag:
            del node.meta[IS_IMPLICIT_Q_DQ_TAG]
        outside = [user for user in node.users if user.meta.get("delegation_tag") != tag]
        if not is_dequant(node) or not outside:
            continue
        with graph.inserting_after(node):
            converted = graph.node_copy(node)
        del converted.meta[IS_IMPLICIT_Q_DQ_TAG]
        for user in outside:
            user.replace_input_with(node, converted)
        if not node.users:
            graph.erase_node(node)


def _leave_copies(graph: Graph) -> None:
    """Leaves out copies that XNNPACK's lowering fails with.

    It drops copies, and a delegate cannot hand out a tensor twice, or one that it was given.
    """
    for node in graph.nodes:
        tag = node.meta.get("delegation_tag")
        if tag is None or "_clone_dim_order.default" not in str(node.target):
            continue
        source = node.args[0]
        if source.meta["val"].dim_order() != node.meta["val"].dim_order():
            continue
        own = [user for user in node.users if user.meta.get("delegation_tag") == tag]
        is_given = source.meta.get("delegation_tag") != tag
        is_handed_out = any(user.meta.get("delegation_tag") != tag for user in source.users)
        if len(own) < len(node.users) and (is_given or is_handed_out):
            for user in own:
                user.replace_input_with(node, source)
            del node.meta["delegation_tag"]


def _split_dequantized(graph: Graph) -> None:
    """Gives users of a picture that was quantized their own, where some read another layout.

    Upstream converts the layout of such a tensor for one of them, and hands all others the result.
    """
    for node in list(graph.nodes):
        tag = node.meta.get("delegation_tag")
        if tag is None or not is_dequant(node) or node.meta["val"].dim() != 4:
            continue
        # XNNPACK's lowering drops copies; what is left here of one is the delegate's output.
        for copy in [user for user in node.users if is_copy(user, tag)]:
            for user in [user for user in copy.users if user.meta.get("delegation_tag") == tag]:
                user.replace_input_with(copy, node)
            if not copy.users:
                graph.erase_node(copy)
        others = users_of_other_layout(node)
        inside = [user for user in others if user.meta.get("delegation_tag") == tag]
        same = [user for user in node.users if user not in others]
        groups = [[user] for user in inside] + ([same] if same else [])
        stays = len(inside) == len(others)
        for users in groups[1:] if stays else groups:
            with graph.inserting_after(node):
                own = graph.node_copy(node)
            for user in users:
                user.replace_input_with(node, own)


def _split_dynamic(module: GraphModule) -> GraphModule:
    """Has what pointwise convolutions read quantized apart from what other ones read.

    On processors with instructions for it, XNNPACK quantizes the first to bytes without a sign, and
    the others would read these as bytes with one.
    """
    graph = module.graph
    for choice in [node for node in graph.nodes if "choose_qparams" in str(node.target)]:
        chain = {choice: None}
        for node in graph.nodes:
            is_part = node.target is operator.getitem or is_quant(node) or is_dequant(node)
            if is_part and any(source in chain for source in node.all_input_nodes):
                chain[node] = None
        layers = [user for node in chain for user in node.users if user not in chain]
        pointwise = [layer for layer in layers if _is_pointwise(module, layer)]
        if not pointwise or len(pointwise) == len(layers):
            continue
        own: dict[Node, Node] = {}
        place = list(chain)[-1]
        for node in chain:
            with graph.inserting_after(place):
                place = own[node] = graph.node_copy(node, lambda n, own=own: own.get(n, n))
        for layer in pointwise:
            for node in chain:
                layer.replace_input_with(node, own[node])
    module.recompile()
    return module


def _is_pointwise(module: GraphModule, layer: Node) -> bool:
    """Returns whether a layer is a convolution of single pixels, which is a product of matrices."""
    name = str(layer.target)
    if not name.startswith("aten.conv") or "transpose" in name:
        return False
    defaults = ((3, 1), (4, 0), (6, 1))
    given = [layer.args[n] if len(layer.args) > n else default for n, default in defaults]
    stride, padding, groups = ([v] if isinstance(v, int | str) else list(v) for v in given)
    if {*stride, *groups} != {1} or set(padding) - {0, "same", "valid"}:
        return False
    weight = layer.args[1]
    while weight.op == "call_function":
        weight = weight.args[0]
    if weight.op != "get_attr":
        return False
    return all(size == 1 for size in operator.attrgetter(weight.target)(module).shape[2:])


def _may_be_empty(tensor: torch.Tensor) -> bool:
    """Tells whether a tensor has a size that follows from values and is not known to have bounds.

    The bounds are what ExecuTorch plans memory by.
    """
    sizes = [size for size in tensor.shape if has_free_unbacked_symbols(size)]
    return not all(
        statically_known_true(size >= 1) and statically_known_true(size < _LARGEST)
        for size in sizes
    )


class _Addmm(AddmmConfig):
    """Upstream's, without what hooks of a linear layer compute, which it takes unseen."""

    def get_deps_from_src_partition(
        self, node: Node, ep: ExportedProgram, src_partition: SourcePartition
    ) -> tuple[bool, list[Node]]:
        """Returns whether a product can be taken, and what has to be taken with it."""
        if all(map(_is_of_product, src_partition.nodes)):
            found: tuple[bool, list[Node]] = super().get_deps_from_src_partition(
                node, ep, src_partition
            )
            return found
        _why(node, reason="its module computes more than a product")
        return GEMMConfig.get_deps(self, node, ep)  # type: ignore[no-any-return]


class _MM(_Addmm, MMConfig):
    """The same of products without a bias."""


def _is_of_product(node: Node) -> bool:
    """Tells whether a node is a product, its weights, or a view or a conversion of a part."""
    if node.op != "call_function" or node.target is operator.getitem:
        return True
    name = str(getattr(node.target, "__name__", node.target))
    return any(part in name for part in _OF_PRODUCTS)


class _Bilinear(UpsampleBilinear2dConfig):
    """Upstream's, without factors that are not the ratio of sizes, which XNNPACK takes instead."""

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        sizes = zip(node.args[0].meta["val"].shape[2:], node.meta["val"].shape[2:], strict=True)
        factors = node.args[3] if len(node.args) > 3 else None
        has_factor = factors and not node.args[2]
        if has_factor and any(f * a != b for f, (a, b) in zip(factors, sizes, strict=True)):
            _why(node, reason="XNNPACK resizes by the ratio of sizes, and the factor is another")
            return False
        return super().check_constraints(node, ep)


class _Softmax(SoftmaxConfig):
    """Upstream's, without tensors whose channels XNNPACK has last, and without single numbers."""

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        if node.meta["val"].dim() == 0:
            _why(node, reason="XNNPACK's softmax has a dimension")
            return False
        if node.meta["val"].dim() == 4 and gets_channels_last(node):
            _why(node, reason="behind a convolution, XNNPACK computes it over the channels")
            return False
        return super().check_constraints(node, ep)


class _Pad(ConstantPadConfig):
    """Upstream's, without those that XNNPACK's runtime refuses."""

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        if is_dequant(node.args[0]) and not all(map(is_quant, node.users)):
            _why(node, reason="its input is quantized and its output is not")
            return False
        return super().check_constraints(node, ep)


def _has_channels(node: Node) -> bool:
    """Returns whether a tensor can have its channels last, as these operators' lowering wants."""
    if node.meta["val"].dim() == 4:
        return True
    _why(node, reason="XNNPACK's tensors of channels have four dimensions")
    return False


class _AvgPool(AvgPoolingConfig):
    """Upstream's, without pictures that are no batch, with which its lowering fails."""

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        return _has_channels(node) and super().check_constraints(node, ep)


class _MaxPool(MaxPool2dConfig):
    """Upstream's, without pictures that are no batch, with which its lowering fails."""

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        return _has_channels(node) and super().check_constraints(node, ep)


class _PReLU(PreluConfig):
    """Upstream's, with four dimensions: with others its lowering fails."""

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        return _has_channels(node) and super().check_constraints(node, ep)


class _BatchNorm(BatchNormConfig):
    """Upstream's, without those whose factors its lowering cannot make those of the layer before.

    They would become another batch norm's, of the same layer's other call; or those of a linear
    layer's last dimension, whatever the channels are. With transposed convolutions in groups the
    lowering fails.
    """

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        layer = node.args[0]
        if is_dequant(layer) and layer.meta["val"].dim() != 4:
            _why(node, reason="its input is quantized and its factors are not")
            return False
        is_linear = "aten.linear.default" in str(layer.target)
        if is_linear and layer.meta["val"].dim() != 2:
            _why(node, reason="XNNPACK would multiply the linear layer's last dimension instead")
            return False
        if is_linear or "aten.convolution.default" in str(layer.target):
            if not is_linear and layer.args[6] and layer.args[8] > 1:
                _why(node, reason="a transposed convolution in groups does not take its factors")
                return False
            calls = [user for user in layer.args[1].users if user.target == layer.target]
            norms = [user for call in calls for user in call.users if user.target == node.target]
            if any(norm.args[1:5] != node.args[1:5] for norm in norms):
                _why(node, reason="the layer before it has another batch norm elsewhere")
                return False
        return super().check_constraints(node, ep)


class _Convolution(ConvolutionConfig):
    """Upstream's, without transposed ones that XNNPACK's runtime refuses."""

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        stride, transposed, output_padding = node.args[3], node.args[6], node.args[7]
        is_row = node.meta["val"].dim() == 3
        if is_row and is_dequant(node.args[0]) and not is_dequant(node.args[1]):
            _why(node, reason="its input is quantized and its weights are not")
            return False
        if transposed and any(p >= s for p, s in zip(output_padding, stride, strict=False)):
            _why(node, reason="XNNPACK takes no output padding as large as the stride")
            return False
        return super().check_constraints(node, ep)


class _Quantizer(XNNPACKQuantizer):
    """Upstream's (1.5.1), without convolutions that XNNPACK does not take quantized.

    In dynamic recipes it takes more: upstream's leaves a convolution in float that a ReLU follows:
    no pattern of its dynamic recipes has both. Others it quantizes although XNNPACK's runtime fails
    with them: transposed ones of one channel, those whose padding "same" is uneven, and those whose
    input gets a wrong layout.
    """

    def annotate(self, model: GraphModule) -> GraphModule:
        """As upstream's, and convolutions with a ReLU."""
        inner, self.filter_fn = self.filter_fn, self._is_taken
        try:
            super().annotate(model)
            for name in ("conv_relu", "conv_transpose_relu") if self._is_dynamic else ():
                OP_TO_ANNOTATOR[name](model, self.global_config, self._is_taken)
        finally:
            self.filter_fn = inner
        return model

    @property
    def _is_dynamic(self) -> bool:
        config = self.global_config
        return config is not None and config.input_activation.is_dynamic

    def _is_taken(self, node: Node) -> bool:
        """Returns whether XNNPACK has a kernel for a node that is quantized."""
        name = str(node.target)
        if not self._is_dynamic:
            return not _stays_in_float(node)
        if name.startswith("aten.linear."):
            return has_rows(node)
        if node.op != "call_function" or not name.startswith(("aten.conv", "aten.conv_transpose")):
            return True
        weight = node.args[1].meta["val"]
        # A weight's second dimension, or of a transposed one the first, has a group's channels.
        transposed = name.startswith("aten.conv_transpose")
        channels = weight.shape[0 if transposed else 1]
        return (
            weight.dim() == 4 and channels > 1 and keeps_layout(node) and not _pads_unevenly(node)
        )


def _stays_in_float(node: Node) -> bool:
    """Returns whether XNNPACK does not take a node quantized.

    It takes no single numbers, no convolutions of three dimensions, and no transposed ones with an
    output padding as large as the stride.
    """
    computed = [source for source in node.all_input_nodes if source.op != "get_attr"]
    values = [source.meta.get("val") for source in (node, *computed)]
    if any(isinstance(value, torch.Tensor) and value.dim() == 0 for value in values):
        return True
    name = str(node.target)
    if node.op != "call_function" or not name.startswith("aten.conv"):
        return False
    if node.args[1].meta["val"].dim() > 4:
        return True
    if not name.startswith("aten.conv_transpose"):
        return False
    given = (node.args[n] if len(node.args) > n else default for n, default in ((3, 1), (5, 0)))
    strides, paddings = ([v] if isinstance(v, int) else v for v in given)
    return bool(max(paddings, default=0) >= min(strides, default=1))


def _pads_unevenly(node: Node) -> bool:
    """Returns whether a convolution pads one side more: "same" with an even kernel."""
    if not str(node.target).endswith(".padding") or node.args[4:5] != ("same",):
        return False
    sizes = node.args[1].meta["val"].shape[2:]
    dilation = node.args[5] if len(node.args) > 5 else [1]
    return any(dilation[n % len(dilation)] * (size - 1) % 2 for n, size in enumerate(sizes))


class _MaxDim(MaxDimConfig):
    """Maxima that XNNPACK's backend computes.

    Upstream's (1.5.1) takes others, too, and its operator (op_max_dim.py) then fails the lowering.
    """

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        _, *dim_and_kept = node.args
        return dim_and_kept in ([2, True], [3, True]) and super().check_constraints(node, ep)


def _filtered(recipe: ExportRecipe, multiple: int) -> ExportRecipe:
    # Upstream's recipe has no filter: one layer that is too small would fail the whole model.
    for config in recipe.quantization_recipe.ao_quantization_configs:
        config.filter_fn = groups_fit(multiple)
    return recipe


# What upstream's configurations become, by the names of their operators.
_OURS = (_Addmm, _AvgPool, _BatchNorm, _Convolution, _MaxPool, _MM, _Pad, _PReLU, _Softmax)
