"""Outputs of a delegate, derived from what is known of the graph that it was made of."""

from __future__ import annotations

import operator
from typing import Any

from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from etfast.fake_tensors import description
from etfast.known_results import functional, key_of, known_result, repeatable


class _Unknown(Exception):
    """The graph must be run."""


def outputs(lowered_module: Any, args: Any, mode: Any) -> Any:
    """Returns what running a delegate's graph on fake tensors would give.

    The graph has the results of its operators, each of which is known to come from its operator and
    its arguments. So on arguments that say what the graph's inputs say it would give the same; but
    for gradients, which a delegate has only where its arguments have them.

    Args:
      lowered_module: ExecuTorch's LoweredBackendModule.
      args: its arguments: fake tensors of the mode.
      mode: FakeTensorMode that it would be run in.

    Returns:
      Its outputs, nested as the graph gives them; None: some result isn't known.
    """
    program = lowered_module.original_module
    signature = program.graph_signature
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in signature.output_specs):
        return None
    try:
        _check_inputs(program, args, mode)
        leaves = _outputs(program.graph, mode)
    except _Unknown:
        return None
    return pytree.tree_unflatten(leaves, program.call_spec.out_spec)


def _check_inputs(program: Any, args: Any, mode: Any) -> None:
    signature = program.graph_signature
    weights = {**program.state_dict, **program.constants}
    given = iter(pytree.tree_leaves(args))
    for node, spec in zip(program.graph.nodes, signature.input_specs, strict=False):
        before = node.meta.get("val")
        after = next(given, None) if spec.kind is InputKind.USER_INPUT else weights.get(spec.target)
        if type(before) is not FakeTensor or after is None or not hasattr(after, "layout"):
            raise _Unknown
        if isinstance(after, FakeTensor) and after.fake_mode is not mode:
            raise _Unknown
        if before.fake_mode is not mode or description(before) != description(after):
            raise _Unknown
        if spec.kind is InputKind.USER_INPUT and after.requires_grad:
            raise _Unknown
    if next(given, None) is not None:
        raise _Unknown


def _outputs(graph: Graph, mode: Any) -> list[FakeTensor]:
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "output":
            return _results(node, graph)
        if node.op == "placeholder":
            continue
        if node.op != "call_function":
            raise _Unknown
        if node.target is operator.getitem:
            source, index = node.args
            values = source.meta.get("val")
            if not isinstance(values, list | tuple) or values[index] is not value:
                raise _Unknown
            continue
        target = node.target._op if isinstance(node.target, EdgeOpOverload) else node.target
        if not isinstance(target, OpOverload) or not functional(target):
            raise _Unknown
        if not any(_came_from(node, target, of, value, mode) for of in (_value, _constant)):
            raise _Unknown
    raise _Unknown


def _came_from(node: Node, target: Any, of: Any, value: Any, mode: Any) -> bool:
    args, kwargs = pytree.tree_map_only(Node, of, (node.args, node.kwargs))
    key = key_of(target, args, kwargs)
    return key is not None and known_result(value, key, mode)


def _value(source: Node) -> Any:
    return source.meta.get("val")


def _constant(source: Node) -> Any:
    """A constant as it was before it became an input: the operator ran on the tensor itself."""
    value = source.meta.get("val")
    constant = getattr(value, "constant", None)
    return value if constant is None else constant


def _results(output: Node, graph: Graph) -> list[FakeTensor]:
    sources = pytree.tree_leaves(output.args[0])
    values = [source.meta["val"] for source in sources if isinstance(source, Node)]
    inputs = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
    ids = set(map(id, inputs))
    if (
        len(values) < len(sources)
        or len({id(value) for value in values}) < len(values)
        or any(
            type(v) is not FakeTensor or id(v) in ids or not repeatable(v, inputs) for v in values
        )
        or any(value.requires_grad for value in values)
    ):
        raise _Unknown
    return values
