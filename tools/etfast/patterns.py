"""XNNPACK's pattern of a bilinear resize is made and looked for in graphs that could hold one.

Replaces `ConvertToUpsampleBilinear2d.call`. There the pattern is made by four exports and lowerings
of a small model, seconds of a process that lowers one program, and looked for in each partition.

Why it is equivalent: each of the patterns has an operator of a few that other layers seldom have;
where a graph has none of them, nothing can match, and the rest of the pass follows.
"""

from __future__ import annotations

import contextlib
from typing import Any

from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult

from etfast.unit import Unit, replaced

# Of these each pattern has one at least.
OPERATORS = frozenset(
    {
        "aten._unsafe_index.Tensor",
        "aten.index.Tensor",
        "aten.upsample_bilinear2d.vec",
    }
)


def may_match(graph_module: GraphModule) -> bool:
    """Whether a graph has an operator without which no pattern is."""
    return any(
        node.op == "call_function" and getattr(node.target, "__name__", "") in OPERATORS
        for node in graph_module.graph.nodes
    )


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.backends.xnnpack._passes.convert_to_upsample_bilinear2d import (
        ConvertToUpsampleBilinear2d,
    )

    upstream = ConvertToUpsampleBilinear2d.call

    def call(self: Any, graph_module: GraphModule) -> PassResult:
        if may_match(graph_module):
            return upstream(self, graph_module)
        graph_module.recompile()
        result = super(ConvertToUpsampleBilinear2d, self).call(graph_module)
        return PassResult(result.graph_module, True)

    return replaced((ConvertToUpsampleBilinear2d, "call", call))


UNIT = Unit(
    name="patterns",
    relies_on={
        "executorch.backends.xnnpack._passes.convert_to_upsample_bilinear2d": {
            "ConvertToUpsampleBilinear2d": "711c5e3e00df8749",
        },
        "executorch.backends.xnnpack.partition.graphs.bilinear_2d": {
            "_get_bilinear_2d_graphs": "77141bc03a50d7d1",
        },
        "torch._decomp.decompositions": {
            "_upsample_linear": "6a8c737800d7089c",
        },
    },
    install=_install,
    needs=("executorch.backends.xnnpack._passes",),
)
