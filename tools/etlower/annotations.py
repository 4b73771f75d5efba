"""Corrects what PT2E's quantizers write on the nodes of a graph.

Quantizers are kept from integers and booleans, which observers cannot take. Some of upstream's
annotate every input of an operator that they know, token indices and masks of language models
included (Core ML's and OpenVINO's in 1.5.1); calibration then fails with '"histogram_cpu" not
implemented for Long'. Others turn the number of each `x + 1` into a tensor of float32 (XNNPACK's
and Vulkan's), so that positions and indices become floats; Arm's give whole numbers 32 bits, also
where the model returns them.

Nor is a layer quantized dynamically whose input is a weight, such as a learned query: its scale
would be computed by operators that no delegate takes, as they have no input of the program, and
that the runtime lacks. The same holds for a weight that is computed from an input, whatever the
recipe, as its scales are those of channels.

Their passes on graphs may give a buffer several names, so that what reads it no longer reads what
was written: Cortex-M's in 1.5.1. Buffers that a graph writes to keep one name and one node.

Nor does a scale hold infinities, as a mask writes them: observers pass over them, and what is
masked would become the least number beside it. Large negative numbers instead would make the scale
too coarse for all others. Nor does one hold the small numbers that keep divisors from zero. Nor has
a tensor without elements one: delegates leave it to kernels, which read no scales. Nor do elements
of a tensor that it is compared with: in two scales they would differ.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    Quantizer,
    SharedQuantizationSpec,
)

from etlower import fixed_scales, guarded_divisors, own_elements, shared_scales, written_state
from etlower.operators import MOVING, gives_floats

# Operators that write a number of the model.
_FILLING = frozenset(("fill", "full", "full_like", "masked_fill", "scalar_tensor", "where"))
_KEEPING_INFINITIES = MOVING | frozenset(
    ("_to_copy", "add", "addbmm", "addmm", "baddbmm", "div", "mul", "neg", "rsub", "sub", "to")
)


_ARM_MARK = "_arm_annotation_info"
# Operators that choose by booleans.
_CHOOSING = frozenset(("masked_fill", "where"))
# What a mask writes in place of -inf is no greater.
_LEAST = -1e4


class FloatsOnly(Quantizer):
    """A quantizer that annotates as another one does, floating-point tensors only.

    Args:
      inner: the other one.
      then: is called with the annotated graph, and may remove annotations.
    """

    def __init__(
        self, inner: Quantizer, then: Callable[[GraphModule], None] = lambda _: None
    ) -> None:
        self._inner, self._then = inner, then

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """As the other one, but numbers that are added to integers stay numbers.

        Nor do outputs of whole numbers become others.
        """
        calls = {n: (n.target, n.args) for n in model.graph.nodes if _of_integers(n)}
        types = [_dtype(node) for node in _outputs(model)]
        state = written_state.buffers(model)
        transformed = self._inner.transform_for_annotation(model)
        written_state.join(transformed, state)
        restored = [
            constant
            for node in transformed.graph.nodes
            if node in calls
            for constant in _restore(node, *calls[node])
        ]
        for constant in restored:
            _remove(transformed, constant)
        if _restore_types(transformed, types) or restored:
            transformed.recompile()
        return transformed

    def annotate(self, model: GraphModule) -> GraphModule:
        """As the other one, without what is not of floats, or shares its scale with such."""
        annotated = self._inner.annotate(model)
        removed: set[Any] = set()
        reached, hidden = _of_inputs(model), infinite(model)
        apart = guarded_divisors.calls(model) | own_elements.compared(model.graph)
        # Upstream's operators that quantize take no others than 32 and 16 bits.
        doubles = {node for node in model.graph.nodes if _dtype(node) == torch.float64}
        for node in model.graph.nodes:
            is_mixed = _is_mixed(node) or _is_any_in(node, doubles)
            removed |= drop(node, _of_integers)
            removed |= drop(node, _is_of_channels_without_scales)
            is_unfit = _is_unfit(node, reached) or fixed_scales.are_joined(node)
            is_hidden = _is_any_in(node, hidden) or node in apart
            if is_mixed or is_hidden or is_unfit or _is_empty(node):
                removed |= drop(node)
        drop_references(model, removed)
        self._then(model)
        for node in shared_scales.untangle(model):
            drop(node)
        return annotated

    def validate(self, model: GraphModule) -> None:
        """As the other one."""
        self._inner.validate(model)

    def prepare_obs_or_fq_callback(self, model: GraphModule, observers: Any) -> None:
        """As the other one."""
        self._inner.prepare_obs_or_fq_callback(model, observers)


def _restore(node: Node, target: Any, args: tuple[Any, ...]) -> list[Node]:
    """Takes floating-point constants out of a call that had numbers there; the constants."""
    if node.target is not target or len(node.args) != len(args):
        return []
    constants = []
    for position, (before, after) in enumerate(zip(args, node.args, strict=True)):
        if isinstance(before, int | float) and isinstance(after, Node) and gives_floats(after):
            node.update_arg(position, before)
            constants.append(after)
    return constants


def _outputs(model: GraphModule) -> list[Any]:
    [output] = model.graph.find_nodes(op="output")
    return tree_leaves(output.args)


def _dtype(node: Any) -> torch.dtype | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None


def _restore_types(model: GraphModule, types: list[torch.dtype | None]) -> bool:
    """Gives outputs of whole numbers their types again; returns whether one had lost it."""
    [output] = model.graph.find_nodes(op="output")
    flat, spec = tree_flatten(output.args)
    changed = False
    for place, (node, dtype) in enumerate(zip(flat, types, strict=False)):
        got = _dtype(node)
        if dtype is None or got in (None, dtype) or dtype.is_floating_point:
            continue
        with model.graph.inserting_before(output):
            flat[place] = model.graph.call_function(torch.ops.aten.to.dtype, (node, dtype))
        flat[place].meta = {**node.meta, "val": node.meta["val"].to(dtype)}
        changed = True
    output.args = tree_unflatten(flat, spec)
    return changed


def _remove(model: GraphModule, constant: Node) -> None:
    """Removes a constant that nothing uses any more, with its tensor."""
    if constant.op != "get_attr" or constant.users:
        return
    model.graph.erase_node(constant)
    if not any(n.op == "get_attr" and n.target == constant.target for n in model.graph.nodes):
        delattr(model, str(constant.target))


def drop_references(model: GraphModule, removed: set[Any]) -> None:
    """Removes what shares a scale with something whose annotation was removed, and so on.

    It removes a node's annotation as a whole: compilers take an operator of which a part has a
    scale for one of integers.

    Args:
      model: the graph.
      removed: edges (source, node) and nodes, as a SharedQuantizationSpec refers to them.
    """
    while removed:
        gone, removed = removed, set()
        for node in model.graph.nodes:
            if any(_refers(spec, gone) for spec in _specs(node).values()):
                removed |= drop(node)


def places(node: Node, annotation: QuantizationAnnotation) -> set[Any]:
    """The edges into a node that an annotation is for, and the node itself if its output is."""
    edges = {
        (s, node) for s, spec in (annotation.input_qspec_map or {}).items() if spec is not None
    }
    return edges | ({node} if annotation.output_qspec is not None else set())


def drop(node: Node, unwanted: Callable[[Node, Any], bool] = lambda *_: True) -> set[Any]:
    """Removes a node's unwanted annotations; the edges and nodes that had one."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None:
        return set()
    before = places(node, annotation)
    for source, spec in list((annotation.input_qspec_map or {}).items()):
        if spec is not None and unwanted(source, spec):
            annotation.input_qspec_map[source] = None
    if annotation.output_qspec is not None and unwanted(node, annotation.output_qspec):
        annotation.output_qspec = None
    if before and not places(node, annotation):
        _remove_mark(node)
    return before - places(node, annotation)


def _remove_mark(node: Node) -> None:
    """Removes what Arm's quantizer writes beside annotations, and its passes go by."""
    custom = node.meta.get("custom", {})
    if _ARM_MARK in custom:
        node.meta["custom"] = {key: custom[key] for key in custom if key != _ARM_MARK}


def _specs(node: Node) -> dict[Node, Any]:
    """Lists what a node's annotation says of its inputs, and of itself."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None:
        return {}
    specs = {**(annotation.input_qspec_map or {}), node: annotation.output_qspec}
    return {value: spec for value, spec in specs.items() if spec is not None}


def drop_where(model: GraphModule, values: set[Node]) -> list[Node]:
    """Removes the annotations of operators that give some values a scale, and what shares it.

    Args:
      model: an annotated graph.
      values: nodes of it.

    Returns:
      The operators.
    """
    nodes = [node for node in model.graph.nodes if _is_any_in(node, values)]
    drop_references(model, set().union(*map(drop, nodes)))
    return nodes


def _is_any_in(node: Node, values: set[Node]) -> bool:
    return not values.isdisjoint(_specs(node))


def _of_inputs(model: GraphModule) -> set[Node]:
    """The nodes whose values depend on the inputs, or on random numbers."""
    reached: set[Node] = set()
    for node in model.graph.nodes:
        is_new = node.op == "placeholder" or torch.Tag.nondeterministic_seeded in _tags(node)
        if is_new or not reached.isdisjoint(node.all_input_nodes):
            reached.add(node)
    return reached


def _tags(node: Node) -> Collection[torch.Tag]:
    return getattr(node.target, "tags", ())


def infinite(model: GraphModule) -> set[Node]:
    """Finds the nodes whose values hold infinities, or what stands for them, that a model writes.

    Args:
      model: the graph.
    """
    found: set[Node] = set()
    for node in model.graph.nodes:
        name = name_of(node)
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(model)
            is_infinite = isinstance(value, torch.Tensor) and _masks(value)
        elif name in _FILLING or name == "mul":
            is_infinite = any(isinstance(a, float) and _masks(torch.tensor(a)) for a in node.args)
        else:
            is_infinite = False
        keeps = name in _FILLING | _KEEPING_INFINITIES or node.target is operator.getitem
        if is_infinite or (keeps and not found.isdisjoint(node.all_input_nodes)):
            found.add(node)
    return found


def name_of(node: Node) -> str:
    """The name of a node's operator, in place or not: "add"."""
    return str(node.target).removeprefix("aten.").partition(".")[0].rstrip("_")


def _masks(value: torch.Tensor) -> bool:
    """Tells whether numbers are infinite, or stand for -inf in a mask."""
    if not value.is_floating_point():
        return False
    return bool((torch.isinf(value) | (value <= _LEAST)).any())


def _is_unfit(node: Node, reached: set[Node]) -> bool:
    """Returns whether an annotation confuses a weight with a dynamic input."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    specs = {n: s for n, s in (annotation.input_qspec_map or {}).items() if s} if annotation else {}
    is_dynamic = any(getattr(spec, "is_dynamic", False) for spec in specs.values())
    return any(
        source in reached
        if getattr(spec, "ch_axis", None) is not None
        else is_dynamic and getattr(spec, "is_dynamic", False) != (source in reached)
        for source, spec in specs.items()
    )


def _is_of_channels_without_scales(_: Node, spec: Any) -> bool:
    """Tells whether a bias would get a scale for each channel, of a weight that has one for all.

    So upstream's quantizers leave it where a layer's weight follows from an input; the kernel that
    dequantizes the bias ends the process.
    """
    if not isinstance(spec, DerivedQuantizationSpec) or spec.ch_axis is None:
        return False
    edges = [edge for edge in spec.derived_from if isinstance(edge, tuple)]
    specs = [_specs(user).get(source) for source, user in edges]
    return all(getattr(each, "ch_axis", None) is None for each in specs)


def _is_empty(node: Node) -> bool:
    """Returns whether a tensor that an annotation is for has no elements."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    specs = (annotation.input_qspec_map or {}) if annotation else {}
    values = [n.meta.get("val") for n in (*(n for n, spec in specs.items() if spec), node)]
    shapes = [value.shape for value in values if isinstance(value, torch.Tensor)]
    return any(isinstance(size, int) and size == 0 for shape in shapes for size in shape)


def _is_mixed(node: Node) -> bool:
    """Tells whether an operator on single elements has integers beside floats, as numbers.

    Quantizers know those of floats only, and compilers count the others in the floats' scale.
    Booleans are numbers where nothing is chosen by them (`(x > 0) * x`).
    """
    if not _specs(node) or torch.Tag.pointwise not in _tags(node):
        return False
    types = {_dtype(given) for given in node.all_input_nodes} - {None}
    if name_of(node) in _CHOOSING:
        types -= {torch.bool}
    floating = {dtype.is_floating_point for dtype in types if dtype is not None}
    return floating == {True, False}


def _of_integers(node: Node, _spec: Any = None) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point


def _refers(spec: Any, gone: set[Any]) -> bool:
    if isinstance(spec, SharedQuantizationSpec):
        return spec.edge_or_node in gone
    if isinstance(spec, DerivedQuantizationSpec):
        return any(source in gone for source in spec.derived_from)
    return False
