"""Upstream's checks of operators, without calls that XNNPACK computes wrong or fails on."""

from __future__ import annotations

import logging
import operator
from collections.abc import Collection, Mapping

from etlower import operators
from executorch.backends.xnnpack.partition.config import (
    AddmmConfig,
    AvgPoolingConfig,
    BatchNormConfig,
    ConstantPadConfig,
    ConvolutionConfig,
    MaxDimConfig,
    MaxPool2dConfig,
    MeanDimConfig,
    MMConfig,
    PreluConfig,
    ReciprocalSquareRootConfig,
    SoftmaxConfig,
    UpsampleBilinear2dConfig,
)
from executorch.backends.xnnpack.partition.config.gemm_configs import GEMMConfig
from executorch.backends.xnnpack.partition.config.xnnpack_config import XNNPartitionerConfig
from executorch.backends.xnnpack.utils.quant_utils import is_dequant, is_quant
from executorch.exir.backend.utils import WhyNoPartition
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.passes.utils.source_matcher_utils import SourcePartition
from xnnpack_layouts import gets_channels_last

_why = WhyNoPartition(logging.getLogger(__name__))
# Parts of the names of what a linear layer becomes.
_OF_PRODUCTS = (
    *("mm.default", "linear.default", "permute", "t_copy", "transpose", "view", "unsqueeze"),
    *("squeeze", "expand", "quantize", "qparams", "clone", "to_copy", "dim_order_copy"),
)
# Activations that become bounds of what they follow.
_FUSED = frozenset({"hardtanh", "relu"})


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


class _Mean(MeanDimConfig):
    """Upstream's, without averages of 8 bits whose sizes vary.

    Of batches other than the example's, XNNPACK's are something else.
    """

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        given = node.args[0]
        varies = any(not isinstance(size, int) for size in given.meta["val"].shape)
        if is_dequant(given) and varies:
            _why(node, reason="XNNPACK averages 8 bits for the sizes of the example")
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


def _are_quantized(results: Collection[Node]) -> bool:
    """Tells whether all that read a row quantize it, or its activation.

    Upstream's pass that has rows computed as pictures then takes what computes it for quantized.
    """
    if len(results) == 1:
        [only] = results
        results = only.users if operators.packet(only) in _FUSED else results
    return bool(results) and all(map(is_quant, results))


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
        results = [user for item in node.users for user in item.users]
        if layer.meta["val"].dim() != 4 and (is_dequant(layer) or _are_quantized(results)):
            _why(node, reason="its input or result is quantized and its factors are not")
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
        has_scale = is_dequant(node.args[0]) or _are_quantized(node.users)
        if is_row and has_scale and not is_dequant(node.args[1]):
            _why(node, reason="its input or result is quantized and its weights are not")
            return False
        if transposed and any(p >= s for p, s in zip(output_padding, stride, strict=False)):
            _why(node, reason="XNNPACK takes no output padding as large as the stride")
            return False
        return super().check_constraints(node, ep)


class _MaxDim(MaxDimConfig):
    """Maxima that XNNPACK's backend computes.

    Upstream's (1.5.1) takes others, too, and its operator (op_max_dim.py) then fails the lowering.
    """

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        _, *dim_and_kept = node.args
        return dim_and_kept in ([2, True], [3, True]) and super().check_constraints(node, ep)


class _ReciprocalRoot(ReciprocalSquareRootConfig):
    """Upstream's, without those of what may be zero, for which XNNPACK gives NaN on x86."""

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        if not _is_above_zero(node.args[0], ep):
            _why(node, reason="its input may be zero, for which XNNPACK gives no infinity")
            return False
        return super().check_constraints(node, ep)


def _is_above_zero(node: Node, ep: ExportedProgram) -> bool:
    """Tells whether a number above zero is added to a tensor, or is its least."""
    if operators.packet(node) not in ("add", "clamp") or len(node.args) < 2:
        return False
    number = operators.number_of(ep, node.args[1])
    return number is not None and not number <= 0


# What upstream's configurations become, by the names of their operators.
_OURS = (
    *(_Addmm, _AvgPool, _BatchNorm, _Bilinear, _Convolution, _MaxDim, _MaxPool, _Mean, _MM, _Pad),
    *(_PReLU, _ReciprocalRoot, _Softmax),
)


def install(configs: Mapping[str, XNNPartitionerConfig], resizes_by_ratio: bool) -> None:
    """Replaces upstream's checks of a partitioner by these.

    Args:
      configs: the partitioner's checks by the names of operators, which are changed.
      resizes_by_ratio: whether XNNPACK resizes by the ratio of sizes where a factor is another.
    """
    for ours in _OURS:
        if ours.target_name in configs and not (resizes_by_ratio and ours is _Bilinear):
            configs[ours.target_name].__class__ = ours
