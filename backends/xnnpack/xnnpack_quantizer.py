"""XNNPACK's quantizer, without what XNNPACK does not take quantized."""

from __future__ import annotations

import operator

import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils import OP_TO_ANNOTATOR
from executorch.backends.xnnpack.utils.quant_utils import is_dequant, is_quant
from torch.fx import GraphModule, Node


class Quantizer(XNNPACKQuantizer):
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
        if node.op != "call_function" or not name.startswith(("aten.conv", "aten.conv_transpose")):
            return True
        weight = node.args[1].meta["val"]
        # A weight's second dimension, or of a transposed one the first, has a group's channels.
        transposed = name.startswith("aten.conv_transpose")
        channels = weight.shape[0 if transposed else 1]
        return weight.dim() == 4 and channels > 1 and not _pads_unevenly(node)


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


def split_dynamic(module: GraphModule) -> GraphModule:
    """Has what pointwise convolutions, other ones and linear layers read quantized apart.

    On processors with instructions for it, XNNPACK quantizes for pointwise ones to bytes without a
    sign, and the others would read these as bytes with one. Linear layers read another layout.
    """
    graph = module.graph
    for choice in [node for node in graph.nodes if "choose_qparams" in str(node.target)]:
        chain = {choice: None}
        for node in graph.nodes:
            is_part = node.target is operator.getitem or is_quant(node) or is_dequant(node)
            if is_part and any(source in chain for source in node.all_input_nodes):
                chain[node] = None
        kinds: dict[tuple[bool, bool], list[Node]] = {}
        for layer in [user for node in chain for user in node.users if user not in chain]:
            kind = (str(layer.target).startswith("aten.conv"), _is_pointwise(module, layer))
            kinds.setdefault(kind, []).append(layer)
        place = list(chain)[-1]
        for kind in sorted(kinds)[1:]:
            own: dict[Node, Node] = {}
            for node in chain:
                with graph.inserting_after(place):
                    place = own[node] = graph.node_copy(node, lambda n, own=own: own.get(n, n))
            for layer in kinds[kind]:
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
