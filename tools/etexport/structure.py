"""Inputs in the structure of a method's example inputs.

A program has flat inputs, in the order in which its example has them. A dict that equals the
example's but for the order of its keys is the same input to the model: it takes the example's order
before anything flattens it.
"""

from __future__ import annotations

from typing import Any

from etbuild import BuildError
from torch.utils import _pytree


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
    return ", ".join(_pytree.keystr(path) or "one value" for path in paths) or "nothing"
