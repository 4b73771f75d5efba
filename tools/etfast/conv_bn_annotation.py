"""Lets XNNPACK's quantizer look for convolution with batch normalization where there is one.

Replaces `_do_annotate_conv_bn` of XNNPACK's quantizer. There the patterns are made by twelve strict
exports of small functions, seconds of each method, and looked for in the graph. Quantization after
training has folded every such normalization before it annotates.

Why it is equivalent: each pattern calls `aten.batch_norm`; where a graph does not, nothing can
match. The example inputs of the patterns are drawn all the same, as what a model's calibration
draws comes after them.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from etlower.replacing import replaced
from torch.fx import GraphModule

from etfast.graph_operators import has_any
from etfast.unit import Unit

_MODULE = "executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils"
OPERATORS = frozenset({"batch_norm.default"})
# Upstream's example inputs, in the order in which it draws them.
_VECTORS = [(1,)] * 5
_INPUTS = [(1, 1, 3), (1, 1, 1), *_VECTORS, (1, 1, 3, 3), (1, 1, 1, 1), *_VECTORS]


def _draw_inputs() -> None:
    for shape in _INPUTS:
        torch.randn(shape)


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils as utils

    upstream = utils._do_annotate_conv_bn

    def annotate(gm: GraphModule, *args: Any, **kwargs: Any) -> list[list[torch.fx.Node]]:
        if has_any(gm, OPERATORS):
            return upstream(gm, *args, **kwargs)
        _draw_inputs()
        gm.graph.eliminate_dead_code()
        gm.recompile()
        return []

    return replaced((utils, "_do_annotate_conv_bn", annotate))


UNIT = Unit(
    name="conv_bn_annotation",
    relies_on={
        _MODULE: {"_do_annotate_conv_bn": "873daa992df61b96"},
        "torchao.quantization.pt2e.utils": {
            "_get_aten_graph_module_for_pattern": "2760e12e1e6e5325",
        },
    },
    install=_install,
    needs=(_MODULE,),
)
