"""Recipes for Intel's OpenVINO (executorch/backends/openvino); upstream has no recipes for it.

All take the option `device`: CPU (default), GPU or NPU: what the program is compiled for. OpenVINO
compiles for GPU and NPU only on a machine that has one.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import openvino_compiler
import openvino_guards
import openvino_scales
import torch
from etbuild import RecipeContext, fold_constants, static_shapes, write_out
from etbuild.exact import write_out_before_quantization
from etbuild.recipes import static_captured
from etbuild.recurrent import CELLS, LAYERS, write_out_recurrent
from etlower.replacing import replaced
from executorch.backends.openvino.quantizer import OpenVINOQuantizer, QuantizationMode
from executorch.exir import EdgeCompileConfig
from executorch.exir.backend.backend_details import CompileSpec
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe
from nncf.common.quantization.structs import QuantizationScheme
from nncf.experimental.torch.fx.nncf_graph_builder import GraphConverter
from nncf.torch.model_graph_manager import get_weight_tensor_port_ids
from torch.export import ExportedProgram
from torch.fx.node import map_arg
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

# Dimensions of a matrix.
_MATRIX = 2
_WEIGHT_ONLY = frozenset(OpenVINOQuantizer.WEIGHTS_ONLY_COMPRESSION_MODES)


@dataclass
class _Quantization(QuantizationRecipe):
    """Upstream's, with what its own tests for OpenVINO do: weights are quantized by the compiler.

    Attributes:
      fold_quantize: for convert_pt2e.
    """

    fold_quantize: bool = True


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """The precision of the weights."""
    return _made(ctx, "openvino_fp32")


def int8(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights and activations, symmetric; needs calibration (PT2E)."""
    return _made(ctx, "openvino_int8", QuantizationMode.INT8_SYM)


def int8_mixed(ctx: RecipeContext) -> ExportRecipe:
    """8-bit symmetric weights, asymmetric activations; needs calibration (PT2E)."""
    return _made(ctx, "openvino_int8_mixed", QuantizationMode.INT8_MIXED)


def int8_transformer(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights and activations, tuned for transformers; needs calibration (PT2E)."""
    return _made(ctx, "openvino_int8_transformer", QuantizationMode.INT8_TRANSFORMER)


def int8_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a channel.

    Options:
      symmetric: whether zero is always 0; default true.
    """
    symmetric = ctx.options.boolean("symmetric", default=True)
    mode = QuantizationMode.INT8WO_SYM if symmetric else QuantizationMode.INT8WO_ASYM
    return _made(ctx, "openvino_int8_weight_only", mode)


def int4_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights with one scale a group of columns; embeddings and the last layer get 8 bits.

    Options:
      group_size: columns that share a scale; layers whose columns it does not divide stay in
        float; default 32.
      symmetric: whether zero is always 0; default true.
    """
    symmetric = ctx.options.boolean("symmetric", default=True)
    group_size = ctx.options.integer("group_size", default=32)
    mode = QuantizationMode.INT4WO_SYM if symmetric else QuantizationMode.INT4WO_ASYM
    return _made(ctx, "openvino_int4_weight_only", mode, group_size=group_size)


def _made(
    ctx: RecipeContext,
    name: str,
    mode: QuantizationMode | None = None,
    **settings: Any,
) -> ExportRecipe:
    """A recipe.

    Args:
      ctx: with the options.
      name: of the recipe.
      mode: of the quantizer; None: no quantization.
      settings: of the quantizer.
    """
    openvino_compiler.install()
    device = ctx.options.text("device", "CPU")
    quantization = None
    if mode is not None:
        quantization = _Quantization(
            quantizers=[_Quantizer(mode=mode, **settings)],
            pre_prepare_passes=[
                static_captured(ctx.label, "OpenVINO"),
                *([] if mode in _WEIGHT_ONLY else _BEFORE),
                _without_gradients,
            ],
            post_convert_passes=[] if mode in _WEIGHT_ONLY else [openvino_scales.keep_zero],
            fold_quantize=mode in _WEIGHT_ONLY,
        )
    return ExportRecipe(
        name=name,
        quantization_recipe=quantization,
        # It pads with zeros instead of reflections.
        aten_transform_passes=[
            static_shapes(ctx.label, "OpenVINO"),
            write_out(*ctx.exact("reflection_pad")),
        ],
        lowering_recipe=LoweringRecipe(
            partitioners=[_Partitioner([CompileSpec("device", device.encode())])],
            # Its quantizer brings operators that are not among the edge dialect's.
            edge_compile_config=EdgeCompileConfig(_check_ir_validity=False),
        ),
    )


class _Partitioner(openvino_guards.GuardedPartitioner):
    """Upstream's (1.5.1), which keeps operators whole that it then does not take."""

    def ops_to_not_decompose(self, ep: ExportedProgram) -> Any:
        """As upstream's, without the others."""
        operators, _ = super().ops_to_not_decompose(ep)
        return operators, self._is_taken

    def _is_taken(self, node: torch.fx.Node) -> bool:
        # Compressed weights of 4 bits, which the partitioner looks for.
        if node.target is torch.ops.aten.stack.default:
            return all("bitwise" in str(source.target) for source in node.all_input_nodes)
        return openvino_guards.Supported().is_node_supported({}, node)


class _Quantizer(OpenVINOQuantizer):
    """Upstream's (1.5.1), which takes a normalization's bias for a weight, and fails on it.

    It also fails on weights of 4 bits whose columns the size of groups does not divide. Of
    operators with several results NNCF knows some only; it fails on others, such as a sort, and on
    weights that are computed.
    """

    def get_nncf_quantization_setup(self, model: torch.fx.GraphModule, nncf_graph: Any) -> Any:
        """As upstream's, which fails where values of one scale are symmetric and asymmetric.

        Products of transformers want symmetric ones, which may be joined with others.
        """
        setup = super().get_nncf_quantization_setup(model, nncf_graph)
        for group in setup.unified_scale_groups.values():
            points = [setup.quantization_points[number] for number in group]
            configs = [point.qconfig for point in points]
            is_symmetric = [config.mode == QuantizationScheme.SYMMETRIC for config in configs]
            if any(is_symmetric):
                for point in points:
                    point.qconfig = configs[is_symmetric.index(True)]
        return setup

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """As upstream's, for weights of two dimensions and more."""
        with replaced(
            (GraphConverter, "get_edge_params", staticmethod(_edge)),
            (OpenVINOQuantizer, "_get_weight_edge", staticmethod(_weight_edge)),
            (OpenVINOQuantizer, "_get_edge_or_node", staticmethod(_edge_or_node)),
        ):
            model = super().annotate(model)
        for node in model.graph.nodes:
            annotation = node.meta.get(Q_ANNOTATION_KEY)
            specs = annotation.input_qspec_map if annotation else {}
            for source in list(specs):
                if source.op == "get_attr" and not self._fits(source.meta["val"], specs[source]):
                    del specs[source]
        return model

    @staticmethod
    def _fill_torch_ao_annotation(edge_or_node: Any, qspec: Any, annotation: Any) -> None:
        """As upstream's, which has a value that is joined with itself share its own scale."""
        if getattr(qspec, "edge_or_node", None) != edge_or_node:
            OpenVINOQuantizer._fill_torch_ao_annotation(edge_or_node, qspec, annotation)

    def _fits(self, weight: torch.Tensor, spec: Any) -> bool:
        """Tells whether a weight is a matrix, whose columns fill groups where it gets 4 bits."""
        observer = getattr(spec, "observer_or_fake_quant_ctr", None)
        in_groups = "INT4WeightObserver" in str(getattr(observer, "p", observer))
        size = self._algo.group_size if in_groups else 1
        return weight.dim() >= _MATRIX and weight.shape[-1] % max(size, 1) == 0


_stored_weight_edge = OpenVINOQuantizer._get_weight_edge


def _weight_edge(node: Any, graph: Any) -> tuple[Any, Any]:
    """As upstream's, which looks for constants; what quantizes weights leaves others alone."""
    if get_weight_tensor_port_ids(graph.get_node_by_name(node.name), graph):
        return _stored_weight_edge(node, graph)
    return node.all_input_nodes[:2][-1], node


_stored_edge_or_node = OpenVINOQuantizer._get_edge_or_node


def _edge_or_node(node: torch.fx.Node, point: Any, graph: Any) -> Any:
    """As upstream's, which counts an input once that is given twice."""
    place = getattr(point.insertion_point, "input_port_id", None)
    if place is None or point.is_weight_quantization_point():
        return _stored_edge_or_node(node, point, graph)
    given: list[torch.fx.Node] = []
    map_arg(node.args, given.append)
    return given[place], node


_edge_of_nncf = GraphConverter.get_edge_params


def _edge(model: Any, source: Any, known: Any, reader: Any, number: int) -> tuple[int, Any]:
    """The number of a result and its shape: NNCF's own, or else that of several results."""
    place, shape = _edge_of_nncf(model, source, known, reader, number)
    results = source.meta.get("val")
    if shape is not None or reader.target is not operator.getitem:
        return place, shape
    return reader.args[1], tuple(results[reader.args[1]].shape)


def _without_recurrent(captured: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Writes out recurrent layers, which NNCF fails on."""
    return write_out_recurrent(captured, *LAYERS, *CELLS)


def _without_padded_averages(captured: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Pads with zeros: averages of 8 bits (OpenVINO 2025.4) pad with what the step 0 stands for."""
    write_out_before_quantization(captured, "padded_average")
    return captured


# Before layers get 8 bits.
# Of zeros, as states begin with, a layer would add to its constant result in each call.
_BEFORE = [_without_recurrent, fold_constants, _without_padded_averages]


def _without_gradients(captured: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """NNCF copies weights, which it can't where they have gradients."""
    for parameter in captured.parameters():
        parameter.requires_grad_(False)
    return captured
