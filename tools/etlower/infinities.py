"""Keeps values in float that were infinite, or no numbers, while a graph was calibrated.

Upstream's observers leave infinities out of a range, or make the range infinite: a mask that a
model computes (`mask.log()`) would count as the least score, or all would be NaN. `annotations`
knows what a model writes; what it computes is seen in calibration only, which is repeated without
scales there.

Nor does a zero have a scale whose logarithm or reciprocal is taken: a delegate whose result is off
by a step there gives a number in place of an infinity that the model would take away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import ObserverBase

from etlower import asked_infinities, operators
from etlower.annotations import drop_where, name_of


class Watched:
    """Notes which values of an observed graph are infinite or NaN in its calls.

    Args:
      graph: from prepare_pt2e.
    """

    def __init__(self, graph: GraphModule) -> None:
        self.names: set[str] = set()
        self._hooks = []
        # A recipe's passes may give any module.
        calls = graph.graph.find_nodes(op="call_module") if isinstance(graph, GraphModule) else ()
        for node in calls:
            module = graph.get_submodule(str(node.target))
            if isinstance(module, ObserverBase) and isinstance(node.args[0], Node):
                look = self._hook(node.args[0].name, _divides(node))
                self._hooks.append(module.register_forward_pre_hook(look))
                self._hooks.append(module.register_forward_hook(_passed_on))

    def _hook(self, name: str, is_divisor: bool) -> Callable[[Any, tuple[Any, ...]], Any]:
        def look(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            value, *rest = inputs
            if not value.is_floating_point():
                return inputs
            is_finite = torch.isfinite(value)
            if not is_finite.all() or (is_divisor and not value.all()):
                self.names.add(name)
            if is_finite.all():
                return inputs
            # Some observers fail on what is infinite.
            module.unobserved = value
            return (value.masked_fill(~is_finite, 0), *rest)

        return look

    def end(self) -> None:
        """Leaves the graph as it was."""
        for hook in self._hooks:
            hook.remove()


def _passed_on(module: Any, _inputs: tuple[Any, ...], result: Any) -> Any:
    """Gives the graph the value that an observer did not see."""
    return module.__dict__.pop("unobserved", result)


def _divides(node: Node) -> bool:
    """Tells whether a function gives an infinity where a node is zero."""
    return any(
        _pole_of(user) is node or (operators.packet(user) in _KEEPING_ZEROS and _divides(user))
        for user in node.users
    )


_KEEPING_ZEROS = operators.MOVING | {"abs", "neg", "sqrt", "square"}


def _pole_of(node: Node) -> Node | None:
    """The input whose zeros a function makes infinite; None: it is another function."""
    packet = operators.packet(node).rstrip("_")
    if packet == "pow":
        exponent = node.args[1]
        has_pole = not isinstance(exponent, int | float) or exponent < 0
        source = node.args[0] if has_pole else None
    elif packet == "div":
        source = node.args[1]
    else:
        source = node.args[0] if packet in _INFINITE_AT_ZERO else None
    return source if isinstance(source, Node) else None


_INFINITE_AT_ZERO = frozenset(("log", "log10", "log2", "reciprocal", "rsqrt"))


def keep(model: GraphModule, names: set[str], note: Callable[[str], None]) -> None:
    """Removes annotations of the operators that read or give such values.

    Args:
      model: an annotated graph, in float.
      names: of its nodes.
      note: is told of each operator that stays in float.
    """
    values = {node for node in model.graph.nodes if node.name in names}
    for node in model.graph.nodes:
        pole = _pole_of(node)
        if pole is not None and not values.isdisjoint((node, pole)):
            values |= asked_infinities.behind(pole)
    for node in drop_where(model, values):
        if node.op == "call_function":
            called = f"{name_of(node)}{operators.layer_of(node)}"
            note(f"{called} stays in float: calibration saw an infinity or NaN there or behind.")
