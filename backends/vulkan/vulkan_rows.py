"""Rows that layers with 4-bit weights multiply, as Vulkan's runtime gets them right.

It (ExecuTorch 1.3.1) multiplies the rows of the first batch only, and has room for the sums of as
many quantized rows as there are features: what it gives for more of either is wrong, without an
error, or it ends the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from etbuild import BuildError, graph_calls
from etbuild.graph_calls import call, value_of
from etlower import delegation, operators
from etlower.replacing import replace, replaced
from executorch.backends.vulkan import utils
from executorch.backends.vulkan.patterns import quantized_linear
from executorch.exir.dialects._ops import ops as exir_ops
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

_ATEN = torch.ops.aten
_EDGE = exir_ops.edge.aten
_QUANTIZED = "torchao."
# Dimensions of rows of features, and of those in batches.
_ROWS, _BATCHES = 2, 3


def install() -> None:
    """Has, for this process, upstream's fusion give layers the rows that they multiply."""
    replace(quantized_linear.QuantizedLinearMatch, "__init__", _matched)
    replace(quantized_linear.QuantizedLinearMatch, "is_weight_pergroup_quantized", _is_in_groups)
    replace(quantized_linear, "get_param_tensor", _unpacked)
    replace(quantized_linear, "make_linear_dq8ca_q4gsw_op", _in_chunks)


def in_one_batch(label: str) -> Callable[[str, ExportedProgram], ExportedProgram]:
    """A pass for layers whose weights torchao quantized: all of their rows in one batch.

    Args:
      label: of the recipe, for messages.
    """

    def apply(method: str, program: ExportedProgram) -> ExportedProgram:
        for module in program.graph_module.modules():
            if not isinstance(module, GraphModule):
                continue
            for node in module.graph.find_nodes(op="call_function", target=_ATEN.linear.default):
                if operators.name(node.args[1]).startswith(_QUANTIZED):
                    if not _is_one_batch(node.args[0].meta["val"].shape):
                        _join(node)
                    _check(node, f'{label}: the method "{method}"')
            module.graph.eliminate_dead_code()
            module.recompile()
        return program

    return apply


def _is_one_batch(shape: torch.Size) -> bool:
    is_single = isinstance(shape[0], int) and shape[0] == 1
    return len(shape) == _ROWS or (len(shape) == _BATCHES and is_single)


def _check(layer: Node, where: str) -> None:
    """Refuses quantized rows whose number varies beyond what the runtime has room for."""
    *_, rows, features = layer.args[0].meta["val"].shape
    is_fixed = isinstance(rows, int)
    if is_fixed or not _chain(layer.args[0]) or (most := delegation.size(rows)) <= features:
        return
    raise BuildError(
        f"{where} calls {operators.name(layer)}{operators.place_of(layer)} with up to {most} rows "
        f"of {features} features, and Vulkan's runtime gives other numbers for more quantized "
        "rows than features.",
        f"Lower the largest sizes (dynamic_shapes) to {features} rows, give the method inputs of "
        "one size, or quantize weights only: int4_weight_only.",
    )


def _chain(x: Node) -> list[Node]:
    """Nodes that quantize activations as they come, and dequantize them; empty: none do."""
    if not operators.name(x).startswith(_QUANTIZED):
        return []
    stored, _, *scales = x.args[:4]
    return [scales[0].args[0], *scales, stored, x]


def _join(layer: Node) -> None:
    """Has a layer multiply rows of several batches, or a single one, as those of one batch."""
    graph, result = layer.graph, layer.meta["val"]
    chain = _chain(layer.args[0])
    source = chain[0].args[0] if chain else layer.args[0]
    features = source.meta["val"].shape[-1]
    with graph.inserting_before(layer):
        rows = call(layer, _ATEN.reshape.default, source, [-1, features])
        copies = {source: rows}
        for node in chain:
            copies[node] = _copied(node, copies)
    copies.setdefault(layer.args[0], rows)
    layer.args = (copies[layer.args[0]], *layer.args[1:])
    layer.meta["val"] = value_of(layer)
    with graph.inserting_after(layer):
        whole = graph.call_function(_ATEN.reshape.default)
    whole.meta = {**layer.meta, "val": result}
    layer.replace_all_uses_with(whole)
    with graph.inserting_before(whole):
        sizes = graph_calls.sizes(layer, source)
    whole.args = (layer, [*sizes[:-1], result.shape[-1]])


def _copied(node: Node, copies: dict[Node, Node]) -> Node:
    """A copy of a node, for rows; its blocks are rows, as well."""
    copy = node.graph.node_copy(node, lambda given: copies.get(given, given))
    copy.args = tuple(
        [1, given[-1]] if isinstance(given, list | tuple) else given for given in copy.args
    )
    copy.meta = {**node.meta, "val": value_of(copy)}
    return copy


def _matched(inner: Any, self: Any, layer: Node) -> None:
    """As upstream's, which takes what is before and behind views for a layer's rows.

    Only views that drop the dimension of a single batch leave the rows as they are.
    """
    x = layer.args[1 if layer.target is _EDGE.addmm.default else 0]
    if utils.is_view_copy_node(x) and _drops_batch(x):
        inner(self, layer)
        return
    with replaced((utils, "is_view_copy_node", lambda _: False)):
        inner(self, layer)


def _drops_batch(view: Node) -> bool:
    before, after = view.args[0].meta["val"].shape, view.meta["val"].shape
    return _is_one_batch(before) and [*before[-_ROWS:]] == [*after]


_KEPT, _GROUPS = "vulkan_unpacked", "vulkan_groups"


def _is_in_groups(inner: Any, self: Any) -> Any:
    """As upstream's, of a weight as it was before the first of several layers packed it."""
    return self.weight_node.meta.setdefault(_GROUPS, inner(self))


def _unpacked(inner: Any, program: ExportedProgram, node: Node) -> Any:
    """As upstream's, of a weight as it was before the first of several layers packed it."""
    found = inner(program, node)
    is_shared = len(node.users) > 1 or any(len(user.users) > 1 for user in node.users)
    return node.meta.setdefault(_KEPT, found) if is_shared else found


def _in_chunks(inner: Any, program: Any, module: GraphModule, match: Any, *given: Any) -> None:
    """As upstream's; more rows than features are multiplied one part after the other."""
    inner(program, module, match, *given)
    layer = match.output_node.prev
    x = layer.args[0]
    *batch, rows, features = x.meta["val"].shape
    if not isinstance(rows, int) or rows <= features:
        return
    graph, dimension = module.graph, len(batch)
    with graph.inserting_before(layer):
        parts = [
            _part(layer, graph.call_function(_EDGE.slice_copy.Tensor, (x, dimension, *ends)))
            for ends in _ends(rows, features)
        ]
        whole = graph.call_function(_EDGE.cat.default, (parts, layer.meta["val"].dim() - 2))
    whole.meta = dict(layer.meta)
    layer.replace_all_uses_with(whole)
    graph.erase_node(layer)


def _ends(rows: int, most: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, most):
        yield start, min(start + most, rows)


def _part(layer: Node, rows: Node) -> Node:
    """A layer of some rows, with scales of their own."""
    graph, scale = layer.graph, layer.args[1]
    chosen = scale.args[0]
    made = graph.call_function(chosen.target, (rows, *chosen.args[1:]), chosen.kwargs)
    scales = [graph.call_function(each.target, (made, each.args[1])) for each in layer.args[1:3]]
    return graph.call_function(layer.target, (rows, *scales, *layer.args[3:]), layer.kwargs)
