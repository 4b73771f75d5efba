"""Upstream's XNNPACK recipes (executorch/backends/xnnpack/recipes) by the names of our targets.

Each takes these options:
  share_mutable_buffers: whether the methods of a program share their state, for example a KV cache;
    default false.
  enable_bf16: whether XNNPACK gets linear layers in bfloat16, for which the target's processor
    needs instructions; default false.
"""

from __future__ import annotations

import logging

import torch
from etbuild import (
    RecipeContext,
    fold_constants,
    groups_fit,
    share_mutable_buffers,
    weight_only,
    write_out,
)
from etbuild.biases import own_biases
from etlower.replacing import replaced
from executorch.backends.xnnpack.partition.config import (
    AvgPoolingConfig,
    BatchNormConfig,
    ConstantPadConfig,
    ConvolutionConfig,
    LinearConfig,
    MaxDimConfig,
    MaxPool2dConfig,
    PreluConfig,
    SoftmaxConfig,
    UpsampleBilinear2dConfig,
    xnnpack_config,
)
from executorch.backends.xnnpack.partition.config.xnnpack_config import XNNPartitionerConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils import OP_TO_ANNOTATOR
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.backends.xnnpack.utils.quant_utils import is_dequant, is_quant
from executorch.exir.backend.partitioner import PartitionResult
from executorch.exir.backend.utils import WhyNoPartition
from executorch.export import ExportRecipe
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import (
    has_free_unbacked_symbols,
    statically_known_true,
)
from xnnpack_layouts import gets_channels_last, has_rows, keeps_layout

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
        for ours in (_AvgPool, _BatchNorm, _Convolution, _MaxPool, _Pad, _PReLU, _Softmax):
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
        biases = [] if _PT2E[kind]["is_dynamic"] else [own_biases]
        recipe.quantization_recipe.pre_prepare_passes = [*folds, *biases]
    exact = write_out(*ctx.exact("addmm", "gelu"), "hardtanh")
    recipe.aten_transform_passes = [*(recipe.aten_transform_passes or []), exact]
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
        _leave_copies(exported_program.graph)
        return result


_upstreams_fits = XNNPartitionerConfig.check_common_constraints


def _fits(self: XNNPartitionerConfig, node: Node, ep: ExportedProgram) -> bool:
    """Upstream's check, without tensors of more dimensions than XNNPACK's have."""
    values = [source.meta.get("val") for source in (node, *node.all_input_nodes)]
    if any(isinstance(v, torch.Tensor) and v.dim() > _MOST_DIMENSIONS for v in values):
        _why(node, reason=f"XNNPACK's tensors have at most {_MOST_DIMENSIONS} dimensions")
        return False
    return bool(_upstreams_fits(self, node, ep))


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


def _may_be_empty(tensor: torch.Tensor) -> bool:
    """Tells whether a tensor has a size that follows from values and is not known to have bounds.

    The bounds are what ExecuTorch plans memory by.
    """
    sizes = [size for size in tensor.shape if has_free_unbacked_symbols(size)]
    return not all(
        statically_known_true(size >= 1) and statically_known_true(size < _LARGEST)
        for size in sizes
    )


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
        if transposed and any(p >= s for p, s in zip(output_padding, stride, strict=False)):
            _why(node, reason="XNNPACK takes no output padding as large as the stride")
            return False
        return super().check_constraints(node, ep)


class _Quantizer(XNNPACKQuantizer):
    """Upstream's (1.5.1); in dynamic recipes with the convolutions that XNNPACK takes.

    Upstream's leaves a convolution in float that a ReLU follows: no pattern of its dynamic recipes
    has both. Others it quantizes although XNNPACK's runtime fails with them: transposed ones of one
    channel, those whose padding "same" is uneven, and those whose input gets a wrong layout.
    """

    def annotate(self, model: GraphModule) -> GraphModule:
        """As upstream's, and convolutions with a ReLU."""
        if not self._is_dynamic:
            return super().annotate(model)
        inner, self.filter_fn = self.filter_fn, self._is_taken
        try:
            super().annotate(model)
            for name in ("conv_relu", "conv_transpose_relu"):
                OP_TO_ANNOTATOR[name](model, self.global_config, self._is_taken)
        finally:
            self.filter_fn = inner
        return model

    @property
    def _is_dynamic(self) -> bool:
        config = self.global_config
        return config is not None and config.input_activation.is_dynamic

    def _is_taken(self, node: Node) -> bool:
        """Returns whether XNNPACK has a dynamic kernel for a node."""
        name = str(node.target)
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
