"""Upstream's quantizer for QNN, on graphs that it quantizes right.

It takes a layer's weight for one only where it is stored, and QNN computes constants of whole
numbers wrong: what follows from weights and constants alone is computed before, such as the parts
of a weight that attention to another sequence has. Calls of one layer get biases of their own, as
they have scales of their own. Averages over windows are written so that QNN's compiler does not
split them with a scale that is too small, and in 16 bits SiLU so that it does not fuse it.
Upstream's quantizer also takes whole numbers beside floats, which its lowering then gives other
types; here they stay whole.
"""

from __future__ import annotations

from typing import Any

import torch
from etbuild import fold_constants
from etbuild.biases import own_biases
from etbuild.exact import write_out_before_quantization
from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype

# With activations of 16 bits.
_WIDE = (QuantDtype.use_16a8w, QuantDtype.use_16a4w, QuantDtype.use_16a16w)
_ANNOTATION = "quantization_annotation"
# Of etbuild.write_out.
_RULES = ("einsum", "elu", "even_windows", "sum_factor", "uneven_padding")


class Quantizer(QnnQuantizer):
    """Upstream's quantizer; see the module."""

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Prepares a captured graph; see upstream's class."""
        fold_constants(model)
        own_biases(model)
        wide = ("swish",) if self.default_quant_config.quant_dtype in _WIDE else ()
        write_out_before_quantization(model, *_RULES, *wide)
        return super().transform_for_annotation(model)

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Annotates a graph; see upstream's class."""
        annotated = super().annotate(model)
        for node in annotated.graph.nodes:
            annotation = node.meta.get(_ANNOTATION)
            if annotation is None:
                continue
            if not _is_float(node):
                annotation.output_qspec = None
            for given in [n for n in annotation.input_qspec_map if not _is_float(n)]:
                del annotation.input_qspec_map[given]
        return annotated


def _is_float(node: torch.fx.Node) -> bool:
    value: Any = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values[:1])
