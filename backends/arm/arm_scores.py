"""Observes scores of which a mask hides some from a softmax.

Upstream's passes (ExecuTorch 1.5.1) make -256 of what a mask hides, in place of -inf, and give it
one scale with the scores, which then have steps of 1 in 8 bits. Here a scale ends `_BELOW` below
the least score that counts: what is hidden becomes that, of which a softmax makes less than 2e-7.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import Any

import torch
from etlower import operators
from etlower.operators import MOVING
from torchao.quantization.pt2e.quantizer.quantizer import SharedQuantizationSpec

_ANNOTATION = "quantization_annotation"
_BELOW = 16.0
# Upstream's number for -inf, above which values are seen, and how far hidden ones are from these.
_HIDDEN, _SEEN, _GAP = -256.0, -128.0, 64.0
_FILLING = frozenset(("full", "full_like", "masked_fill", "scalar_tensor", "where"))
_KEEPING = _FILLING | MOVING | {"add", "sub"}


def observe(quantizer: Any) -> None:
    """Has a quantizer observe scores behind masks.

    Args:
      quantizer: upstream's, whose `annotate` is replaced.
    """
    inner = quantizer.annotate

    def annotate(model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        annotated = inner(model)
        found = _hiding(annotated)
        for node in annotated.graph.nodes:
            given = getattr(node.meta.get(_ANNOTATION), "input_qspec_map", None) or {}
            for source in found.intersection(given):
                _replace(source, node)
            if node in found and node.meta.get(_ANNOTATION) is not None:
                _replace(None, node)
                for source, spec in given.items():
                    if isinstance(spec, SharedQuantizationSpec):
                        _replace(None, source)
        return annotated

    quantizer.annotate = annotate


def _hiding(model: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The nodes whose values hold what stands for -inf."""
    found: set[torch.fx.Node] = set()
    for node in model.graph.nodes:
        name = operators.packet(node).rstrip("_")
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(model)
            hides = isinstance(value, torch.Tensor) and value.is_floating_point()
            hides = hides and bool((value == _HIDDEN).any())
        else:
            hides = name in _FILLING and _HIDDEN in node.args
        if hides or (name in _KEEPING and not found.isdisjoint(node.all_input_nodes)):
            found.add(node)
    return found


def _replace(source: torch.fx.Node | None, node: torch.fx.Node) -> None:
    """Replaces what observes an input of a node, or its result; of a shared scale, the first."""
    while True:
        annotation = node.meta.get(_ANNOTATION)
        if annotation is None:
            return
        given = annotation.input_qspec_map or {}
        spec = given.get(source) if source is not None else annotation.output_qspec
        if not isinstance(spec, SharedQuantizationSpec):
            break
        place = spec.edge_or_node
        source, node = place if isinstance(place, tuple) else (None, place)
    made = getattr(getattr(spec, "observer_or_fake_quant_ctr", None), "p", None)
    if made is None or not isinstance(made.func, type) or issubclass(made.func, _Scores):
        return
    observer = _scores(made.func).with_args(*made.args, **made.keywords)
    replaced = dataclasses.replace(spec, observer_or_fake_quant_ctr=observer)
    # PT2E gives a result and those who read it one observer.
    if source is None:
        annotation.output_qspec = replaced
        for reader in node.users:
            if node in (getattr(reader.meta.get(_ANNOTATION), "input_qspec_map", None) or {}):
                _replace(node, reader)
    else:
        given[source] = replaced
        _replace(None, source)


class _Scores:
    """Takes note of a tensor's values that a mask does not hide, and of others right below."""

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        scores = x_orig.detach()
        hidden = scores < _SEEN
        if hidden.any():
            if hidden.all():
                return x_orig
            least = scores[~hidden].min()
            if least - scores[hidden].max() > _GAP:
                scores = scores.clamp(min=least - _BELOW)
        super().forward(scores)  # type: ignore[misc]
        return x_orig


@functools.cache
def _scores(observer: type) -> Any:
    return type(f"Scores{observer.__name__}", (_Scores, observer), {})
