"""Inputs of methods: copies of them and of what they are given to, and the order of their parts.

A program has flat inputs, in the order in which its example has them. A dict that equals the
example's but for the order of its keys is the same input to the model: it takes the example's order
before anything flattens it.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from etbuild import BuildError

from etlower.replacing import replaced

_T = TypeVar("_T")


def deep_copy(value: _T, memo: dict[int, Any] | None = None) -> _T:
    """A deep copy of modules or inputs.

    torch refuses to copy tensors that it computed from parameters, which modules keep as attributes
    (the weight of `torch.nn.utils.weight_norm`); the copy has their values.

    Args:
      value: what to copy.
      memo: as for `copy.deepcopy`: what stays itself.
    """
    import torch

    original = torch.Tensor.__deepcopy__

    def copied(self: Any, known: dict[int, Any]) -> Any:
        if self.is_leaf or id(self) in known:
            return original(self, known)
        known[id(self)] = self.detach().clone()
        return known[id(self)]

    with replaced((torch.Tensor, "__deepcopy__", copied)):
        return copy.deepcopy(value, memo)


def like_example(inputs: Any, example: Any, where: str) -> Any:
    """Inputs with the containers of an example's, dicts in its order of keys.

    Args:
      inputs: tensors, numbers and nested containers of these.
      example: what the method is exported with.
      where: what the inputs are, for messages.

    Raises:
      BuildError: a key, or an element, is missing, or there is one more.

    Example:

        like_example({"b": 1, "a": 2}, {"a": 0, "b": 0}, "input 0")  # {"a": 2, "b": 1}
    """
    from torch.utils import _pytree

    try:
        expected, structure = _pytree.tree_flatten_with_path(example)
        got, _ = _pytree.tree_flatten_with_path(inputs)
    except ValueError:
        # A class that was registered without names of its parts, which have their own order.
        return inputs
    by_path = dict(got)
    paths = [path for path, _ in expected]
    if by_path.keys() != set(paths):
        missing = [path for path in paths if path not in by_path]
        extra = [path for path in by_path if path not in paths]
        raise BuildError(
            f"{where} is not of the structure of the example inputs: got "
            f"{_names(extra or by_path)}, expected {_names(missing or paths)}.",
            "Give it the same keys, and as many elements, as example_inputs have.",
        )
    return _pytree.tree_unflatten([by_path[path] for path in paths], structure)


def _names(paths: Any) -> str:
    from torch.utils import _pytree

    return ", ".join(_pytree.keystr(path) or "one value" for path in paths) or "nothing"
