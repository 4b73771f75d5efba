"""Makes XNNPACK's patterns, and looks for them, in graphs that could hold one.

Replaces `ConvertToUpsampleBilinear2d.call` and `ConvertToSDPAPass.call`. There the patterns of a
bilinear resize are made by four exports and lowerings of a small model, and those of attention by
two, for which torch imports its compiler: seconds of a process that lowers one program. Then they
are looked for in each partition.

Why it is equivalent: each of the patterns has an operator of a few that other layers seldom have;
where a graph has none of them, nothing can match, and the rest of the pass follows.
"""

from __future__ import annotations

import contextlib
from typing import Any

from etlower.replacing import replaced
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult

from etfast.unit import Unit

# Of these each pattern has one at least.
RESIZE = frozenset(
    {
        "aten._unsafe_index.Tensor",
        "aten.index.Tensor",
        "aten.upsample_bilinear2d.vec",
    }
)
# Of a softmax that gives zeros where all is masked.
ATTENTION = frozenset({"aten.logical_not.default"})


def may_match(graph_module: GraphModule, operators: frozenset[str]) -> bool:
    """Tells whether a graph has an operator without which no pattern is."""
    return any(
        node.op == "call_function" and getattr(node.target, "__name__", "") in operators
        for node in graph_module.graph.nodes
    )


def make() -> None:
    """Makes the patterns for processes that are forked later."""
    from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa

    bilinear_2d.get_graphs_dict()
    sdpa.get_graphs()


def _looking(owner: Any, operators: frozenset[str]) -> tuple[Any, str, Any]:
    """The replacement of a pass's `call`."""
    upstream = owner.call

    def call(self: Any, graph_module: GraphModule) -> PassResult:
        if may_match(graph_module, operators):
            return upstream(self, graph_module)
        graph_module.recompile()
        result = super(owner, self).call(graph_module)
        return PassResult(result.graph_module, True)

    return owner, "call", call


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.backends.xnnpack._passes.convert_to_sdpa import ConvertToSDPAPass
    from executorch.backends.xnnpack._passes.convert_to_upsample_bilinear2d import (
        ConvertToUpsampleBilinear2d,
    )

    return replaced(
        _looking(ConvertToUpsampleBilinear2d, RESIZE), _looking(ConvertToSDPAPass, ATTENTION)
    )


UNIT = Unit(
    name="xnnpack_patterns",
    relies_on={
        "executorch.backends.xnnpack._passes.convert_to_sdpa": {
            "ConvertToSDPAPass": "d23a04af509e40ea",
        },
        "executorch.backends.xnnpack._passes.convert_to_upsample_bilinear2d": {
            "ConvertToUpsampleBilinear2d": "711c5e3e00df8749",
        },
        "executorch.backends.xnnpack.partition.graphs.bilinear_2d": {
            "_get_bilinear_2d_graphs": "77141bc03a50d7d1",
        },
        "executorch.backends.xnnpack.partition.graphs.sdpa": {
            "get_graphs": "665b47517d50bd9e",
        },
        "torch._decomp.decompositions": {
            "safe_softmax": "d55da08335ea8a90",
            "_upsample_linear": "6a8c737800d7089c",
        },
    },
    install=_install,
    needs=("executorch.backends.xnnpack._passes",),
)
