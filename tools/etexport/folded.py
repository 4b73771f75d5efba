"""Names of weights that PT2E quantization folds into constants, which it merely counts.

Source: torchao/quantization/pt2e/constant_fold.py, `replace_node_with_constant`.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

from etexport.names import ModelNames
from etexport.replaced import replaced


class FoldedNames:
    """What was folded: a constant's name and bytes to the name of the weight it was made from.

    The counted name alone is not enough: every method of a program counts from 0.

    Attributes:
      model: what the model's weights are called.
    """

    def __init__(self, model: ModelNames | None = None) -> None:
        self.model = model or ModelNames()
        self._found: dict[tuple[str, str], str] = {}

    def name(self, counted: str, tensor: Any) -> str:
        """The weight behind a constant; "": unknown.

        Args:
          counted: the constant's name, e.g. "_frozen_param0".
          tensor: its value.
        """
        return self._found.get((counted, digest(tensor)), "") if self._found else ""

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
                    self._found[(added, digest(constant))] = weight

        with replaced(constant_fold, "replace_node_with_constant", replace_node_with_constant):
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
