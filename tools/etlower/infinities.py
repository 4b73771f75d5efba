"""Keeps values in float that were infinite, or no numbers, while a graph was calibrated.

Upstream's observers leave infinities out of a range, or make the range infinite: a mask that a
model computes (`mask.log()`) would count as the least score, or all would be NaN. `annotations`
knows what a model writes; what it computes is seen in calibration only, which is repeated without
scales there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import ObserverBase

from etlower import operators
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
                self._hooks.append(module.register_forward_pre_hook(self._hook(node.args[0].name)))

    def _hook(self, name: str) -> Callable[[Any, tuple[Any, ...]], None]:
        def look(_module: Any, inputs: tuple[Any, ...]) -> None:
            value = inputs[0]
            if value.is_floating_point() and not torch.isfinite(value).all():
                self.names.add(name)

        return look

    def end(self) -> None:
        """Leaves the graph as it was."""
        for hook in self._hooks:
            hook.remove()


def keep(model: GraphModule, names: set[str], note: Callable[[str], None]) -> None:
    """Removes annotations of the operators that read or give such values.

    Args:
      model: an annotated graph, in float.
      names: of its nodes.
      note: is told of each operator that stays in float.
    """
    values = {node for node in model.graph.nodes if node.name in names}
    for node in drop_where(model, values):
        if node.op == "call_function":
            called = f"{name_of(node)}{operators.layer_of(node)}"
            note(f"{called} stays in float: calibration saw an infinity or NaN there.")
