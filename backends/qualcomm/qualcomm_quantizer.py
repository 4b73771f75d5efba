"""Upstream's quantizer for QNN, on graphs that it quantizes right.

It takes a layer's weight for one only where it is stored, and QNN computes constants of whole
numbers wrong: what follows from weights and constants alone is computed before, such as the parts
of a weight that attention to another sequence has. Calls of one layer get biases of their own, as
they have scales of their own. Averages over windows are written so that QNN's compiler does not
split them with a scale that is too small, and in 16 bits SiLU so that it does not fuse it.
Groups of transposed convolutions become convolutions, as QNN mixes up the scales of their channels.
Upstream's quantizer also takes whole numbers beside floats, which its lowering then gives other
types; here they stay whole.

Scales of weights that are small beside others of their layer, or zero, are too small: QNN computes
something else, and a bias, which has the scale of the weight times that of the input, is cut off at
32 bits. `enlarge_scales` makes them larger, by little beside what the result's scale shows.

What a mask hides from a softmax, upstream gives the value -255, or -65535 in 16 bits, and one scale
with the scores, which then have steps of 1. Here the scale ends `_BELOW` below the least score that
counts. Where infinities go elsewhere, they stay, and have no scale (etlower/annotations.py).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Collection, Iterator
from typing import Any

import torch
from etbuild import fold_constants
from etbuild.biases import own_biases
from etbuild.exact import write_out_before_quantization
from etbuild.transposed import split_groups
from etlower import operators
from etlower.annotations import drop, drop_references, infinite
from executorch.backends.qualcomm.quantizer.observers.concat_observer import ConcatObserver
from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
from torchao.quantization.pt2e import (
    DerivedObserverOrFakeQuantize,
    FakeQuantizeBase,
    MinMaxObserver,
    ObserverBase,
)

# With activations of 16 bits.
_WIDE = (QuantDtype.use_16a8w, QuantDtype.use_16a4w, QuantDtype.use_16a16w)
_ANNOTATION = "quantization_annotation"
# Of etbuild.write_out.
_RULES = (
    *("attention_heads", "circular_padding", "einsum", "elu", "even_windows", "many_dimensions"),
    *("sum_factor", "uneven_padding"),
)
# Operators whose results are of equal numbers.
_FILLING = frozenset(
    f"{name}{like}" for name in ("full", "ones", "zeros") for like in ("", "_like")
)
# What a mask adds, or puts in place of a score, in the float graph.
_HIDDEN = -255.0
# By how much hidden scores are below the others in a scale: a softmax makes less than 2e-7 of them.
_BELOW = 16.0
# What is so far below the largest score counts as hidden.
_FAR = 24.0
# Steps of a bias at most: what is added to it has 32 bits, too.
_STEPS = 2.0**28
# The scales of a layer's input and weight over that of its result are at least that. QNN fails
# below 2 ** -24.
_LEAST_FACTOR = 2.0**-22


class Quantizer(QnnQuantizer):
    """Upstream's quantizer; see the module."""

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Prepares a captured graph; see upstream's class."""
        split_groups(model, least_channels=2)
        fold_constants(model)
        own_biases(model)
        wide = ("swish",) if self.default_quant_config.quant_dtype in _WIDE else ()
        write_out_before_quantization(model, *_RULES, *wide)
        return super().transform_for_annotation(model)

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Annotates a graph; see upstream's class."""
        annotated = super().annotate(model)
        even = [node for node in annotated.graph.nodes if _joins_even(annotated, node)]
        drop_references(annotated, {place for node in even for place in drop(node)})
        for node in annotated.graph.nodes:
            annotation = node.meta.get(_ANNOTATION)
            if annotation is None:
                continue
            if not operators.gives_floats(node):
                annotation.output_qspec = None
            observer = _observer(annotation.output_qspec)
            if observer is not None and observer.func is ConcatObserver:
                annotation.output_qspec = _observed_by(annotation.output_qspec, _Joined)
            for given in [n for n in annotation.input_qspec_map if not operators.gives_floats(n)]:
                del annotation.input_qspec_map[given]
        return annotated

    def _replace_inf(self, graph_module: torch.fx.GraphModule) -> None:
        """Makes numbers of infinities before a softmax; upstream's makes others of all."""
        hidden = _hidden_from_softmax(infinite(graph_module))
        for node in hidden:
            if node.op == "get_attr":
                _limit(graph_module, node)
            else:
                node.args = tuple(_limited(arg) for arg in node.args)
        for node in hidden:
            dims = {user.args[1] for user in node.users if _is_softmax(user)}
            if node.op == "call_function" and len(dims) == 1:
                for annotation, source in _annotations_of(node):
                    _observe_scores(annotation, source, *dims)
        graph_module.recompile()


def _joins_even(model: torch.fx.GraphModule, node: torch.fx.Node) -> bool:
    """Tells whether a call joins something with a constant of equal numbers.

    Of these QNN's compiler makes a padding, and layers of channels then read other numbers.
    """
    if _name(node) not in ("cat", "concat"):
        return False
    if any(_name(given) in _FILLING for given in node.all_input_nodes):
        return True
    stored = [given for given in node.all_input_nodes if given.op == "get_attr"]
    values = [operator.attrgetter(str(given.target))(model) for given in stored]
    return any(bool((value == value.flatten()[:1]).all()) for value in values)


def enlarge_scales(model: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Gives weights scales with which QNN computes their layers.

    Args:
      model: with observers that have seen the calibration.

    Returns:
      The same.
    """
    for node in model.graph.nodes:
        if node.op != "call_function" or not _name(node).startswith(("conv", "linear")):
            continue
        x, weight, *bias = (_module_of(model, each) for each in node.args[:3])
        result = _observer_behind(model, node)
        if not isinstance(weight, ObserverBase | FakeQuantizeBase) or x is None:
            continue
        scales, zeros = weight.calculate_qparams()
        given, _ = x.calculate_qparams()
        least = torch.zeros_like(scales)
        if result is not None:
            least = torch.maximum(least, result.calculate_qparams()[0] / given * _LEAST_FACTOR)
        if bias and isinstance(bias[0], DerivedObserverOrFakeQuantize):
            value = operator.attrgetter(str(node.args[2].args[0].target))(model).detach().abs()
            least = torch.maximum(least, _by_scale(value, scales) / given / _STEPS)
        if (least > scales).any():
            enlarged = torch.maximum(least, scales).to(scales.dtype)
            weight.calculate_qparams = lambda *_, made=(enlarged, zeros), **__: made
    return model


def _module_of(model: torch.fx.GraphModule, node: Any) -> Any:
    is_call = isinstance(node, torch.fx.Node) and node.op == "call_module"
    return model.get_submodule(str(node.target)) if is_call else None


def _observer_behind(model: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    """The observer of a result, or of what is fused with it."""
    for user in node.users:
        found = _module_of(model, user)
        if found is None and user.op == "call_function" and len(node.users) == 1:
            found = _observer_behind(model, user)
        if found is not None:
            return found
    return None


def _by_scale(values: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The largest value of a bias for each scale of a weight."""
    channels, of_weight = values.numel(), scales.numel()
    if of_weight % channels == 0:  # Blocks of a channel have scales of their own.
        return values.repeat_interleave(of_weight // channels).reshape(scales.shape)
    # Channels of one place in the groups of a transposed convolution share one.
    return values.reshape(-1, of_weight).amax(0).reshape(scales.shape)


class _Joined(ConcatObserver):
    """Gives a concatenation and its inputs one scale; upstream's fails on inputs without one."""

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Takes note of a tensor."""
        low, high = torch.aminmax(x_orig.detach())
        self.min_val, self.max_val = min(self.min_val, low), max(self.max_val, high)
        if not self.input_observers:
            for given in self.concat_node.args[0]:
                while given.op == "call_module":
                    module = given.graph.owning_module
                    self.input_observers.append(module.get_submodule(given.target))
                    given = given.args[0]
        for observer in self.input_observers:
            observer.min_val, observer.max_val = self.min_val, self.max_val
        return x_orig


class _Scores(MinMaxObserver):
    """Observes scores of which some are hidden from a softmax.

    Args:
      dim: over which the softmax goes.
      options: of upstream's observer.
    """

    def __init__(self, dim: int, **options: Any) -> None:
        super().__init__(**options)
        self._dim = dim

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Takes note of a tensor."""
        scores = x_orig.detach()
        seen = scores[scores > scores.amax(self._dim, keepdim=True) - _FAR]
        least = seen.min() - (_BELOW if seen.numel() < scores.numel() else 0)
        super().forward(torch.stack([least, seen.max()]))
        return x_orig


def _hidden_from_softmax(nodes: Collection[torch.fx.Node]) -> list[torch.fx.Node]:
    """Those whose values only a softmax reads, in the end."""
    left = set(nodes)
    while elsewhere := {n for n in left if not _is_read_well(n, left)}:
        left -= elsewhere
    return [n for n in nodes if n in left]


def _is_read_well(node: torch.fx.Node, others: Collection[torch.fx.Node]) -> bool:
    return bool(node.users) and all(user in others or _is_softmax(user) for user in node.users)


def _is_softmax(node: torch.fx.Node) -> bool:
    return _name(node) in ("softmax", "_softmax")


def _annotations_of(node: torch.fx.Node) -> Iterator[tuple[Any, torch.fx.Node | None]]:
    """The annotations for a node's result: its own, and those of readers, with their source."""
    for reader in (node, *node.users):
        annotation = reader.meta.get(_ANNOTATION)
        if annotation is not None:
            yield annotation, None if reader is node else node


def _observe_scores(annotation: Any, source: torch.fx.Node | None, dim: int) -> None:
    spec = annotation.input_qspec_map.get(source) if source else annotation.output_qspec
    observer = _observer(spec)
    if observer is None or observer.func is not MinMaxObserver:
        return
    if source:
        annotation.input_qspec_map[source] = _observed_by(spec, _Scores, dim=dim)
    else:
        annotation.output_qspec = _observed_by(spec, _Scores, dim=dim)


def _observer(spec: Any) -> Any:
    """Finds what makes a scale's observer, with its options; None: another scale's observes it."""
    return getattr(getattr(spec, "observer_or_fake_quant_ctr", None), "p", None)


def _observed_by(spec: Any, observer: Any, **options: Any) -> Any:
    made = observer.with_args(**options, **_observer(spec).keywords)
    return dataclasses.replace(spec, observer_or_fake_quant_ctr=made)


def _limit(model: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Limits a constant of the graph, which gets a tensor of its own: others may have it, too."""
    value = operator.attrgetter(str(node.target))(model)
    node.target = f"_limited_{node.name}"
    model.register_buffer(node.target, value.detach().clamp(_HIDDEN, -_HIDDEN))


def _limited(value: Any) -> Any:
    return max(_HIDDEN, min(value, -_HIDDEN)) if isinstance(value, float) else value


def _name(node: torch.fx.Node) -> str:
    packet = getattr(node.target, "overloadpacket", node.target)
    return str(packet).rpartition(".")[2].rstrip("_")
