"""Upstream's quantizer for QNN, on graphs that it quantizes right.

It takes a layer's weight for one only where it is stored, and QNN computes constants of whole
numbers wrong: what follows from weights and constants alone is computed before, such as the parts
of a weight that attention to another sequence has. It also quantizes whole numbers beside floats,
which its lowering then gives other types; here they stay whole.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from etbuild.exact import write_out_before_quantization
from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer
from torch.utils._pytree import tree_map_only

_ANNOTATION = "quantization_annotation"


class Quantizer(QnnQuantizer):
    """Upstream's quantizer; see the module."""

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Prepares a captured graph; see upstream's class."""
        _fold_constants(model)
        write_out_before_quantization(model, "elu")
        return super().transform_for_annotation(model)

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Annotates a graph; see upstream's class."""
        annotated = super().annotate(model)
        for node in annotated.graph.nodes:
            annotation = node.meta.get(_ANNOTATION)
            if annotation is None:
                continue
            if not _is_float(node):
                annotation.output_qspec = None
            for given in [n for n in annotation.input_qspec_map if not _is_float(n)]:
                del annotation.input_qspec_map[given]
        return annotated


def _is_float(node: torch.fx.Node) -> bool:
    value: Any = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values[:1])


def _fold_constants(model: torch.fx.GraphModule) -> None:
    """Stores what a graph computes of weights and constants alone."""
    known: dict[torch.fx.Node, Any] = {}
    changed = _changed(model.graph)
    for node in model.graph.nodes:
        if node.op == "get_attr" and node not in changed:
            known[node] = _stored(model, node.target)
        elif node.op == "call_function" and _is_function(node.target):
            given = node.all_input_nodes
            if all(each in known for each in given) and node not in changed:
                args, kwargs = tree_map_only(torch.fx.Node, known.get, (node.args, node.kwargs))
                with torch.no_grad():
                    known[node] = node.target(*args, **kwargs)
    for node, value in known.items():
        if node.op == "get_attr" or not isinstance(value, torch.Tensor):
            continue
        if all(user in known for user in node.users):
            continue
        name = f"_constant_{node.name}"
        model.register_buffer(name, value.detach().clone())
        with model.graph.inserting_before(node):
            stored = model.graph.get_attr(name)
        stored.meta = dict(node.meta)
        node.replace_all_uses_with(stored)
    model.graph.eliminate_dead_code()
    model.recompile()


def _changed(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Nodes whose memory the graph writes to, directly or through views of it."""
    left = [
        node.args[0]
        for node in graph.nodes
        if node.op == "call_function" and getattr(node.target, "_schema", None) is not None
        if node.target._schema.is_mutable and isinstance(node.args[0], torch.fx.Node)
    ]
    found: set[torch.fx.Node] = set()
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


def _is_function(target: Any) -> bool:
    """Tells whether an operator gives the same result for the same inputs, and changes nothing."""
    if target is operator.getitem:
        return True
    schema = getattr(target, "_schema", None)
    random = torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())
    return schema is not None and not schema.is_mutable and not random


def _stored(model: torch.fx.GraphModule, path: str) -> Any:
    value: Any = model
    for name in path.split("."):
        value = getattr(value, name)
    return value
