"""Lets Core ML's quantizer look for the layers and activations that a graph has.

Replaces `_get_aten_graph_module`, `annotate_weighted_mod_pattern` and
`annotate_binary_op_act_pattern` of Core ML's quantizer. There 405 patterns are made by strict
exports of small functions, one of each layer with each activation: over a minute of each method.

Why it is equivalent: a pattern calls the operators of its layer and its activation; where a graph
lacks one of them, nothing can match. The example inputs of all patterns are drawn, as what a
model's calibration draws comes after them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from etlower.replacing import replaced
from torch import nn
from torch.fx import GraphModule, Node

from etfast.graph_operators import has_all
from etfast.unit import Unit

_MODULE = "executorch.backends.apple.coreml.quantizer._coreml_quantizer_utils"
_BINARY = (
    *(operator.add, torch.add, operator.iadd, operator.mul, torch.mul, operator.imul),
    torch.matmul,
)
# The normalization is no variable of a pattern, but its inputs are.
_NORMALIZED = "bn_weight"


@dataclass(frozen=True)
class Pattern:
    """A pattern that is exported when a graph may have it.

    Attributes:
      module: what is exported.
      inputs: its example inputs.
    """

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]

    def operators(self) -> frozenset[str]:
        """Lists operators that its graph calls."""
        forward = type(self.module).forward
        given = inspect.getclosurevars(forward).nonlocals
        names = set()
        if "mod_fn" in given:
            names.add(f"{given['mod_fn'].__name__}.default")
        if _NORMALIZED in forward.__code__.co_varnames:
            names.add("batch_norm.default")
        calls = [(given["act_fn"], given["act_in_place"]), (given.get("binary_op"), False)]
        return frozenset(names.union(*(_of_functions().get(call, ()) for call in calls)))


class _Each(nn.Module):
    """Functions of copies of one tensor."""

    def __init__(self, calls: list[Callable[[torch.Tensor], torch.Tensor]]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(call(x.clone()) for call in self.calls)


@functools.cache
def _of_functions() -> dict[tuple[Any, bool], set[str]]:
    """The operators of each activation, as it is and in place, and of each function of two."""
    from executorch.backends.apple.coreml.quantizer import _coreml_quantizer_utils as utils

    in_place, others = utils._supported_activations, utils._supported_activations_no_inplace
    calls: dict[tuple[Any, bool], Callable[[torch.Tensor], torch.Tensor]] = {}
    calls |= {(each, True): functools.partial(each, inplace=True) for each in in_place}
    calls |= {(each, False): each for each in (*in_place, *others)}
    calls |= {(each, False): functools.partial(_of_two, each) for each in _BINARY}
    program = torch.export.export(_Each([*calls.values()]), (torch.ones(1),), strict=False)
    results = program.graph.output_node().args[0]
    return {key: _behind(node) for key, node in zip(calls, results, strict=True)}


def _of_two(function: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return function(x, x)


def _behind(result: Node) -> set[str]:
    """The operators that a result is computed by, but for the copy."""
    nodes = [result]
    for node in nodes:
        nodes += node.all_input_nodes
    calls = {node.target.__name__ for node in nodes if node.op == "call_function"}
    return calls - {"clone.default"}


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.backends.apple.coreml.quantizer import _coreml_quantizer_utils as utils

    upstream = utils._get_aten_graph_module

    def where_it_may_be(annotate: Callable[..., Any]) -> Callable[..., Any]:
        def annotated(model: GraphModule, pattern_gm: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(pattern_gm, Pattern):
                if not has_all(model, pattern_gm.operators()):
                    model.graph.eliminate_dead_code()
                    model.recompile()
                    return []
                pattern_gm = upstream(pattern_gm.module, pattern_gm.inputs)
            return annotate(model, pattern_gm, *args, **kwargs)

        return annotated

    names = ("annotate_weighted_mod_pattern", "annotate_binary_op_act_pattern")
    return replaced(
        (utils, "_get_aten_graph_module", lambda module, inputs: Pattern(module, inputs)),
        *((utils, name, where_it_may_be(getattr(utils, name))) for name in names),
    )


UNIT = Unit(
    name="coreml_patterns",
    relies_on={
        _MODULE: {
            "_get_aten_graph_module": "1f6870093476",
            "_get_weighted_mod_pattern": "b3d2b185fcc2",
            "_get_weighted_mod_bn_pattern": "4890cc84ffba",
            "get_binary_op_act_pattern": "7924294e0d6e",
            "annotate_weighted_mod_pattern": "f1c9363a1930",
            "annotate_binary_op_act_pattern": "0cfa611afb43",
        },
        "torchao.quantization.pt2e.utils": {
            "_get_aten_graph_module_for_pattern": "2760e12e1e6e5325",
        },
    },
    install=_install,
    needs=(_MODULE,),
)
