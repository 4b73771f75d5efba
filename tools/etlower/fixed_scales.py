"""Joins of values whose scale is fixed, as that of probabilities, with others.

A quantizer that shares one scale among all that a concatenation joins, or a maximum compares, gives
the others the fixed one: what lies beyond 1 is cut off.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torchao.quantization.pt2e import FixedQParamsFakeQuantize, FixedQParamsObserver
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    FixedQParamsQuantizationSpec,
    SharedQuantizationSpec,
)

from etlower import operators, shared_scales

_FIXED = (FixedQParamsFakeQuantize, FixedQParamsObserver)


def are_joined(node: Node) -> bool:
    """Tells of an annotated call whether another value would get a fixed scale.

    Args:
      node: of a graph that was annotated; its annotation is to be dropped then.
    """
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None:
        return False
    for value, spec in _inputs(annotation).items():
        source = _source(spec)
        if source is not None and _unmoved(value) is not source:
            return True
    joins = len([given for given in node.all_input_nodes if _is_float(given)]) > 1
    return joins and _source(annotation.output_qspec) is not None and not _is_all_of_one(node)


def _is_all_of_one(node: Node) -> bool:
    """Tells whether all that a call is given has the elements of one result."""
    return len({_unmoved(given) for given in node.all_input_nodes if _is_float(given)}) == 1


def _inputs(annotation: Any) -> dict[Node, Any]:
    return dict(annotation.input_qspec_map or {})


def _source(spec: Any) -> Node | None:
    """The call whose result has the fixed scale that a specification shares; None: none has."""
    seen: list[Any] = []
    while isinstance(spec, SharedQuantizationSpec) and spec not in seen:
        seen.append(spec)
        place = spec.edge_or_node
        annotation = (place if isinstance(place, Node) else place[1]).meta.get(Q_ANNOTATION_KEY)
        if annotation is None:
            return None
        if isinstance(place, Node):
            spec = annotation.output_qspec
        else:
            spec = _shared_by_value(_inputs(annotation).get(place[0]), place[0])
        if _is_fixed(spec):
            return _unmoved(place if isinstance(place, Node) else place[0])
    return None


def _shared_by_value(spec: Any, value: Node) -> Any:
    """Names what counts for a call's input: the result's own, if both say the same."""
    annotation = value.meta.get(Q_ANNOTATION_KEY)
    own = annotation and annotation.output_qspec
    if not _is_fixed(own) or isinstance(spec, SharedQuantizationSpec):
        return spec
    is_same = all(getattr(own, n, None) == getattr(spec, n, None) for n in shared_scales.COMPARED)
    return own if is_same else spec


def _is_fixed(spec: Any) -> bool:
    """Tells whether a specification has a scale, or an observer that has one."""
    made = getattr(getattr(spec, "observer_or_fake_quant_ctr", None), "p", None)
    is_of_observer = made is not None and issubclass(made.func, _FIXED)
    return isinstance(spec, FixedQParamsQuantizationSpec) or is_of_observer


def _unmoved(node: Node) -> Node:
    """The call whose result's elements a value has."""
    while operators.packet(node) in operators.MOVING and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()
