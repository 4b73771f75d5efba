"""Lets a quantized graph be searched for training's normalizations where there could be one.

Replaces `_fold_conv_bn_qat_helper` of torchao's conversion. Where a graph still has a batch
normalization, such as one before a convolution, it makes 96 patterns by strict exports of small
functions, 20 seconds of each method, and looks for them. They are what quantization-aware training
makes of a convolution and its normalization.

Why it is equivalent: each pattern takes the square root of the normalization's variance; where a
graph calls no `aten.sqrt`, nothing can match. All else that the helper does to a graph, it does.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from etlower.replacing import replaced
from torch.fx import GraphModule

from etfast.graph_operators import has_any
from etfast.unit import Unit

_MODULE = "torchao.quantization.pt2e.qat_utils"
OPERATORS = frozenset({"sqrt.default"})


def _no_pattern(*_: Any, **__: Any) -> GraphModule:
    return GraphModule({}, torch.fx.Graph())


def _no_match(*_: Any, **__: Any) -> list[Any]:
    return []


def _install() -> contextlib.AbstractContextManager[None]:
    from torchao.quantization.pt2e import qat_utils

    upstream = qat_utils._fold_conv_bn_qat_helper
    unsearched = (
        (qat_utils, "_get_aten_graph_module_for_pattern", _no_pattern),
        (qat_utils, "replace_pattern_with_filters", _no_match),
    )

    def fold(m: GraphModule, *args: Any, **kwargs: Any) -> GraphModule:
        with replaced(*(() if has_any(m, OPERATORS) else unsearched)):
            return upstream(m, *args, **kwargs)

    return replaced((qat_utils, "_fold_conv_bn_qat_helper", fold))


UNIT = Unit(
    name="conv_bn_folding",
    relies_on={
        _MODULE: {
            "_fold_conv_bn_qat": "3454a434fefd",
            "_fold_conv_bn_qat_helper": "a7f715d1f9f1",
            "_get_quantized_qat_conv_bn_pattern": "90c8c2242a44",
            "_get_folded_quantized_qat_conv_bn_pattern": "eac5d080ba4d",
        },
        "torchao.quantization.pt2e.utils": {
            "_get_aten_graph_module_for_pattern": "2760e12e1e6e5325",
        },
    },
    install=_install,
    needs=(_MODULE,),
)
