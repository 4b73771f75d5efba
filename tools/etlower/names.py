"""Qualified names of weights, through quantization and into XNNPACK's payloads.

A program's file holds few names. What PT2E folds into a constant it merely counts
("_frozen_param0"); XNNPACK's payload has bytes alone. So the functions that make these are watched
while they run, and what they do is unchanged:

- torchao/quantization/pt2e/constant_fold.py, `replace_node_with_constant`
- executorch/backends/xnnpack/operators/node_visitor.py, `NodeVisitor.define_tensor`, which appends
  a constant and then its scale
- executorch/backends/xnnpack/xnnpack_preprocess.py, `serialize_xnnpack_binary`
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from etlink.named_data import is_stable

from etlower.forked import merge_from_children
from etlower.replacing import replaced

_PARAMETRIZED = re.compile(r"\.parametrizations\.(\w+)\.original(\d*)$")
# Libraries of operators that quantization leaves in a graph.
_QUANTIZED = ("quantized_decomposed", "torchao")


class ModelNames:
    """The names of the weights of a model.

    Args:
      models: its modules or exported programs, as the model's author made them; none: names are
        taken for the author's unless they look like those that export makes up.

    Attributes:
      own: names that the author gave.
    """

    def __init__(self, models: Iterable[Any] = ()) -> None:
        self.own = frozenset(name for model in models for name in _names_of(model))

    def is_stable(self, name: str) -> bool:
        """Tells whether a name is the model's own, and not one that export counted up."""
        return name in self.own or is_stable(name)

    def plain(self, name: str) -> str:
        """A weight's name as the eager model has it; different tensors have different ones.

        torchao's quantized parts belong to one weight, whose name the first of them has. The
        tensors of a parametrization that is the model's own keep their names.

        Example:

            plain("fc.parametrizations.weight.original0")    # "fc.weight"
            plain("fc.parametrizations.weight.original1")    # "fc.weight.original1"
        """
        match = _PARAMETRIZED.search(name)
        if not match or (match[2] and name in self.own):
            return name
        weight = f"{name[: match.start()]}.{match[1]}"
        return weight if match[2] in ("", "0") else f"{weight}.original{match[2]}"


def _names_of(model: Any) -> Iterator[str]:
    import torch

    if isinstance(model, torch.nn.Module):
        yield from (name for name, _ in model.named_parameters(remove_duplicate=False))
        yield from (name for name, _ in model.named_buffers(remove_duplicate=False))
    elif not any(str(n.target).startswith(_QUANTIZED) for n in model.graph.nodes):
        # Export itself makes up names of no parameter and no buffer.
        signature = model.graph_signature
        yield from signature.parameters
        yield from signature.buffers


class FoldedNames:
    """Folded constants: name and bytes to the name of the weight that one was made from.

    The counted name alone is not enough: every method of a program counts from 0.

    Attributes:
      model: what the model's weights are called.
    """

    def __init__(self, model: ModelNames | None = None) -> None:
        self.model = model or ModelNames()
        self._weights: dict[tuple[str, str], str] = {}

    def name(self, counted: str, tensor: Any) -> str:
        """The weight behind a constant; "": unknown.

        Args:
          counted: the constant's name, e.g. "_frozen_param0".
          tensor: its value.
        """
        return self._weights.get((counted, digest(tensor)), "") if self._weights else ""

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Records while models are quantized; unknown versions of torchao are left alone."""
        try:
            from torchao.quantization.pt2e import constant_fold

            replace = constant_fold.replace_node_with_constant
        except (ImportError, AttributeError):
            yield
            return

        def replace_node_with_constant(
            gm: Any, node: Any, constant: Any = None, name: Any = None
        ) -> None:
            weight = _weight(node, self.model)
            known = {n for n, _ in gm.named_buffers(recurse=False)}
            replace(gm, node, constant, name)
            for added in sorted({n for n, _ in gm.named_buffers(recurse=False)} - known):
                if weight and constant is not None:
                    self._weights[(added, digest(constant))] = weight

        with replaced((constant_fold, "replace_node_with_constant", replace_node_with_constant)):
            yield


def _weight(node: Any, model: ModelNames) -> str:
    """The weight that a folded node was computed from: the first of its inputs leads to it."""
    while node.op == "call_function" and node.args and hasattr(node.args[0], "op"):
        node = node.args[0]
    return model.plain(node.target) if node.op == "get_attr" else ""


def digest(tensor: Any) -> str:
    """The sha256 of a tensor's bytes, hex; "": it has none of its own."""
    import torch

    try:
        raw = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError, NotImplementedError):
        return ""
    return hashlib.sha256(raw).hexdigest()


@contextlib.contextmanager
def watching_xnnpack(
    payloads: dict[str, list[tuple[str, ...]]], folded: FoldedNames
) -> Iterator[None]:
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
            name = _name_of(self.exported_program, tensor, kwargs.get("quant_params"), folded)
            of_graph = names.setdefault(id(xnn_graph), {})
            of_graph[before] = name
            of_graph.update({n: f"{name}.scale" if name else "" for n in range(before + 1, after)})

    def serialize_xnnpack_binary(graph: Any, data: Any) -> bytes:
        payload = serialize(graph, data)
        of_graph = names.pop(id(graph), {})
        listed = tuple(of_graph.get(n, "") for n in range(len(graph.constant_data)))
        payloads.setdefault(hashlib.sha256(payload).hexdigest(), []).append(listed)
        return payload

    watched = replaced(
        (NodeVisitor, "define_tensor", define_tensor),
        (xnnpack_preprocess, "serialize_xnnpack_binary", serialize_xnnpack_binary),
    )
    with watched, merge_from_children(payloads):
        yield


def _name_of(program: Any, tensor: Any, quantization: Any, folded: FoldedNames) -> str:
    """Qualified name of the weight that a node of a delegate's graph stands for; "": none."""
    node = tensor if quantization is None else quantization.q_input
    signature = program.graph_signature
    parameters, buffers = signature.inputs_to_parameters, signature.inputs_to_buffers
    name = parameters.get(node.name) or buffers.get(node.name)
    if not name or folded.model.is_stable(name):
        return folded.model.plain(name or "")
    return folded.name(name, program.state_dict.get(name, program.constants.get(name)))
