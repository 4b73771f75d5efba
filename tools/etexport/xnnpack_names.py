"""Names of the weights behind the constants of XNNPACK's payloads.

Source: executorch/backends/xnnpack/operators/node_visitor.py, `NodeVisitor.define_tensor`, which
appends a constant and then its scale, and xnnpack_preprocess.py, `serialize_xnnpack_binary`.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

from etexport.folded import FoldedNames
from etexport.replaced import replaced


@contextlib.contextmanager
def watching(payloads: dict[str, list[tuple[str, ...]]], folded: FoldedNames) -> Iterator[None]:
    """Records names while XNNPACK delegates are made.

    Args:
      payloads: where to: sha256 of a payload to the names of its constants, in its order; one list
        for each delegate of these bytes.
      folded: names of weights that were folded into constants.
    """
    try:
        from executorch.backends.xnnpack import xnnpack_preprocess
        from executorch.backends.xnnpack.operators.node_visitor import NodeVisitor

        define, serialize = NodeVisitor.define_tensor, xnnpack_preprocess.serialize_xnnpack_binary
    except (ImportError, AttributeError):
        yield
        return
    names: dict[int, dict[int, str]] = {}

    def define_tensor(self: Any, tensor: Any, xnn_graph: Any, *args: Any, **kwargs: Any) -> None:
        before = len(xnn_graph.constant_data)
        define(self, tensor, xnn_graph, *args, **kwargs)
        after = len(xnn_graph.constant_data)
        if after > before:
            name = _name(self.exported_program, tensor, kwargs.get("quant_params"), folded)
            found = names.setdefault(id(xnn_graph), {})
            found[before] = name
            found.update({n: f"{name}.scale" if name else "" for n in range(before + 1, after)})

    def serialize_xnnpack_binary(graph: Any, data: Any) -> bytes:
        payload = serialize(graph, data)
        found = names.pop(id(graph), {})
        listed = tuple(found.get(n, "") for n in range(len(graph.constant_data)))
        payloads.setdefault(hashlib.sha256(payload).hexdigest(), []).append(listed)
        return payload

    with (
        replaced(NodeVisitor, "define_tensor", define_tensor),
        replaced(xnnpack_preprocess, "serialize_xnnpack_binary", serialize_xnnpack_binary),
    ):
        yield


def _name(program: Any, tensor: Any, quantization: Any, folded: FoldedNames) -> str:
    """Qualified name of the weight that a node of a delegate's graph stands for; "": none."""
    node = tensor if quantization is None else quantization.q_input
    signature = program.graph_signature
    parameters, buffers = signature.inputs_to_parameters, signature.inputs_to_buffers
    name = parameters.get(node.name) or buffers.get(node.name)
    if not name or folded.model.is_stable(name):
        return folded.model.plain(name or "")
    return folded.name(name, program.state_dict.get(name, program.constants.get(name)))
