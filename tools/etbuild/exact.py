"""Operators written out as others, where a delegate or a kernel computes something else for them.

A rule has operators and when it applies; what a node is written as is an ordinary function of
tensors, traced with the node's shapes. Graphs without such a node stay as they are, to the byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node


@dataclass(frozen=True)
class _Rule:
    """A rule.

    Attributes:
      operators: names of aten operators with overload: "addmm.default".
      applies: tells of a node whether it is to be written out.
      function: what is computed instead, of the operator's own arguments.
    """

    operators: tuple[str, ...]
    applies: Callable[[Node], bool]
    function: Callable[..., Any]


def write_out(*names: str) -> Callable[[str, ExportedProgram], ExportedProgram]:
    """A pass for `ExportRecipe.aten_transform_passes` that writes operators out as others.

    Args:
      names: of rules:
        "addmm": `torch.addmm` with factors, as a product and a sum.
        "gelu": GELU that is approximated by tanh, in programs that are not quantized: beside the
          noise of a quantization its difference of 5e-4 is nothing.
        "integer_remainder": `%` of whole numbers, whose sign is the divisor's.
        "reflection_pad": as slices that are turned and joined.

    Returns:
      The pass.

    Raises:
      KeyError: no rule has that name.

    Example:

        ExportRecipe(name="npu", aten_transform_passes=[write_out("addmm")], …)
    """
    unknown = sorted(set(names) - _RULES.keys())
    if unknown:
        raise KeyError(f"{unknown[0]}: expected one of {', '.join(sorted(_RULES))}")
    return _WriteOut(names)


@dataclass(frozen=True)
class _WriteOut:
    """The pass; two of the same rules are equal, so that recipes with both can be mixed."""

    names: tuple[str, ...]

    def __call__(self, method: str, program: ExportedProgram) -> ExportedProgram:
        from torch.fx import GraphModule

        rules = [_RULES[name] for name in self.names]
        for module in program.graph_module.modules():
            if isinstance(module, GraphModule):
                _write_out_in(module, rules)
        return program


def _write_out_in(module: GraphModule, rules: list[_Rule]) -> None:
    changed = False
    for node in list(module.graph.nodes):
        name = str(node.target).removeprefix("aten.")
        for rule in rules:
            if node.op == "call_function" and name in rule.operators and rule.applies(node):
                _replace(node, rule.function)
                changed = True
    if changed:
        module.recompile()


def _replace(node: Node, function: Callable[..., Any]) -> None:
    """Puts the graph of a function before a node, which becomes its last operator."""
    from torch.fx import Node as FxNode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils import _pytree as pytree

    flat, tree = pytree.tree_flatten((node.args, node.kwargs))
    places = [n for n, value in enumerate(flat) if isinstance(value, FxNode)]

    def computed(*values: Any) -> Any:
        filled = list(flat)
        for place, value in zip(places, values, strict=True):
            filled[place] = value
        args, kwargs = pytree.tree_unflatten(filled, tree)
        return function(*args, **kwargs)

    inputs = [flat[place] for place in places]
    traced = make_fx(computed)(*(source.meta["val"] for source in inputs)).graph
    [output] = traced.find_nodes(op="output")
    last = output.args[0]
    nodes: dict[Node, Node] = dict(zip(traced.find_nodes(op="placeholder"), inputs, strict=True))
    with node.graph.inserting_before(node):
        for made in traced.nodes:
            if made.op == "call_function" and made is not last:
                nodes[made] = node.graph.node_copy(made, nodes.__getitem__)
                nodes[made].meta = {**node.meta, "val": made.meta["val"]}
    # The node stays, as the program's signature has its name.
    node.args = pytree.tree_map_only(FxNode, nodes.__getitem__, last.args)
    node.kwargs = pytree.tree_map_only(FxNode, nodes.__getitem__, last.kwargs)
    node.target = last.target


def _argument(node: Node, position: int, name: str, default: Any) -> Any:
    given: Any = node.args[position] if len(node.args) > position else default
    return node.kwargs.get(name, given)


def _dtype(node: Node) -> Any:
    return node.meta["val"].dtype


def _has_factors(node: Node) -> bool:
    return (_argument(node, 3, "beta", 1), _argument(node, 4, "alpha", 1)) != (1, 1)


def _addmm(bias: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    product = alpha * (x @ y)
    # What is multiplied by zero counts for nothing, be it infinite.
    return product if beta == 0 else beta * bias + product


def _is_unquantized_tanh(node: Node) -> bool:
    """Tells whether a GELU is the approximation, in 32-bit floats of a graph without integers."""
    import torch

    approximates = node.kwargs.get("approximate") == "tanh" and _dtype(node) == torch.float32
    quantized = ("quantized_decomposed.", "torchao.")
    return approximates and not any(
        str(other.target).startswith(quantized) for other in node.graph.nodes
    )


def _gelu(x: Any, *, approximate: str) -> Any:
    """As torch computes it: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))."""
    cube = x * x * x
    inner = x + cube * 0.044715
    return (x * 0.5) * ((inner * math.sqrt(2 / math.pi)).tanh() + 1.0)


def _is_whole(node: Node) -> bool:
    return not _dtype(node).is_floating_point


def _integer_remainder(x: Any, y: Any) -> Any:
    import torch

    rest = torch.fmod(x, y)
    return torch.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _always(node: Node) -> bool:
    return True


def _reflection_pad(x: Any, padding: list[int]) -> Any:
    import torch

    for place in range(len(padding) // 2):
        dim, (before, after) = x.dim() - 1 - place, padding[2 * place : 2 * place + 2]
        size = x.shape[dim]
        parts = [x]
        if before > 0:
            parts.insert(0, x.narrow(dim, 1, before).flip(dim))
        if after > 0:
            parts.append(x.narrow(dim, size - 1 - after, after).flip(dim))
        x = torch.cat(parts, dim) if len(parts) > 1 else x
        if before < 0 or after < 0:
            x = x.narrow(dim, max(-before, 0), x.shape[dim] - max(-before, 0) - max(-after, 0))
    return x


_RULES: Mapping[str, _Rule] = {
    "addmm": _Rule(("addmm.default",), _has_factors, _addmm),
    "gelu": _Rule(("gelu.default",), _is_unquantized_tanh, _gelu),
    "integer_remainder": _Rule(
        ("remainder.Scalar", "remainder.Tensor"), _is_whole, _integer_remainder
    ),
    "reflection_pad": _Rule(
        tuple(f"reflection_pad{n}d.default" for n in (1, 2, 3)), _always, _reflection_pad
    ),
}
