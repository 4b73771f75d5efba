"""Keeps quantisers from integers and booleans, which observers can't take.

Some of upstream's annotate every input of an operator they know, token indices and masks of
language models included (Core ML's and OpenVINO's in 1.5.1); calibration then fails with
'"histogram_cpu" not implemented for Long'.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    DerivedQuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)


class FloatsOnly(Quantizer):
    """A quantiser that annotates as another one does, floating-point tensors only."""

    def __init__(self, inner: Quantizer) -> None:
        self._inner = inner

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """As the other one."""
        return self._inner.transform_for_annotation(model)

    def annotate(self, model: GraphModule) -> GraphModule:
        """As the other one, without what is not of floats, or shares its scale with such."""
        annotated = self._inner.annotate(model)
        removed: set[Any] = set()
        for node in model.graph.nodes:
            removed |= _drop(node, _of_integers)
        while removed:
            gone, removed = removed, set()
            for node in model.graph.nodes:
                removed |= _drop(node, lambda _, spec, gone=gone: _refers(spec, gone))
        return annotated

    def validate(self, model: GraphModule) -> None:
        """As the other one."""
        self._inner.validate(model)

    def prepare_obs_or_fq_callback(self, model: GraphModule, found: Any) -> None:
        """As the other one."""
        self._inner.prepare_obs_or_fq_callback(model, found)


def _drop(node: Node, unwanted: Any) -> set[Any]:
    """Removes a node's unwanted annotations; the edges and nodes that had one."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None:
        return set()
    gone: set[Any] = set()
    for source, spec in list((annotation.input_qspec_map or {}).items()):
        if spec is not None and unwanted(source, spec):
            annotation.input_qspec_map[source] = None
            gone.add((source, node))
    if annotation.output_qspec is not None and unwanted(node, annotation.output_qspec):
        annotation.output_qspec = None
        gone.add(node)
    return gone


def _of_integers(node: Node, _spec: Any) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point


def _refers(spec: Any, gone: set[Any]) -> bool:
    if isinstance(spec, SharedQuantizationSpec):
        return spec.edge_or_node in gone
    if isinstance(spec, DerivedQuantizationSpec):
        return any(place in gone for place in spec.derived_from)
    return False
