"""Annotations that share a scale in a circle get one, and others stay as they are."""

from __future__ import annotations

import random

import pytest
import torch
from etlower import shared_scales
from torch.fx import GraphModule, symbolic_trace
from torchao.quantization.pt2e import MinMaxObserver, prepare
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

BYTES = QuantizationSpec(torch.int8, MinMaxObserver, -128, 127, torch.per_tensor_affine)


class Net(torch.nn.Module):
    """Slices that are joined with themselves, and other readers of them."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """x and y of one shape"""
        z = x + y
        joined = torch.cat([z[..., :3], z[..., 3:]], -1)
        return torch.cat([torch.where(z > 0, z, y)[..., :3], joined], -1), z - joined, z * z


def annotated(seed: int) -> GraphModule:
    """The net's graph, in which values share their scales at random."""
    model, chosen = symbolic_trace(Net()), random.Random(seed)
    nodes = [node for node in model.graph.nodes if node.op == "call_function"]
    seen = []
    for node in nodes:
        edges = [(source, node) for source in node.all_input_nodes]
        later = [other for other in nodes if chosen.random() < 0.2]
        specs = {}
        for place in (*edges, node):
            known = [*seen, *specs, *later]
            shares = known and chosen.random() < 0.6
            specs[place] = SharedQuantizationSpec(chosen.choice(known)) if shares else BYTES
        inputs = {source: specs[source, node] for source, _ in edges}
        node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(inputs, specs[node])
        seen += specs
    return model


def groups(model: GraphModule) -> dict[object, int]:
    """The group of each place, of which each has one observer."""
    specs = prepare._get_edge_or_node_to_qspec(model)
    found = prepare._get_edge_or_node_to_group_id(specs)
    prepare._get_obs_or_fq_map(found, specs, is_qat=False)
    return found


def test_circles_get_one_scale() -> None:
    """Places point anywhere, and torchao finds an observer for all that share one."""
    tangled = 0
    for seed in range(300):
        model = annotated(seed)
        before = prepare._get_edge_or_node_to_qspec(model)
        try:
            groups(model)
        except (AssertionError, RecursionError):
            tangled += 1
        else:
            assert shared_scales.untangle(model) == []
            assert prepare._get_edge_or_node_to_qspec(model) == before
            continue
        unknown = shared_scales.untangle(model)
        if unknown:
            continue
        found = groups(model)
        for place, spec in before.items():
            if isinstance(spec, SharedQuantizationSpec) and spec.edge_or_node in found:
                assert found[place] == found[spec.edge_or_node]
    assert tangled > 30


def test_circles_without_a_scale_are_named() -> None:
    """Of two results that share each other's scale, none says what it is."""
    model = symbolic_trace(Net())
    first, second = [node for node in model.graph.nodes if node.op == "call_function"][:2]
    for node, other in ((first, second), (second, first)):
        shared = SharedQuantizationSpec(other)
        node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation({}, shared)
    with pytest.raises(AssertionError, match="make sure only refer to"):
        groups(model)
    assert shared_scales.untangle(model) == [first, second]
