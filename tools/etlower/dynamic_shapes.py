"""Sentences on dynamic shapes that do not fit the example inputs or the model.

torch.export says at length what a model needs of its sizes, in the terms of its own code, and
takes a dimension that no input has without a word.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from etbuild import BuildError, Method

# Names of torch's errors on sizes.
_OF_SIZES = frozenset(("UserError", "ConstraintViolationError", "ValueRangeError"))
_GENERAL = (
    "Correct dynamic_shapes: a dimension that the model fixes cannot be dynamic, and a range must "
    "hold for all of the model."
)
# "L['x'].size()[1]", which it also calls by the name that was declared.
_SIZE = r"L(?:\[[^\]]*\])+\.size\(\)\[\d+\]"


def check(name: str, module: Any, method: Method, label: str) -> None:
    """Fails where a declared dimension is none of the example, or its range excludes the example.

    Args:
      name: of the method.
      module: that is exported.
      method: with example inputs; its shapes may have any form that torch.export takes.
      label: of the target.

    Raises:
      BuildError: with the input, the dimension and its size.
    """
    for where, tensor, dimension, declared in _dimensions(module, method):
        # torch.export would leave it out in silence, and one that is counted from the end, too.
        if not 0 <= dimension < tensor.dim():
            raise BuildError(
                f'{label}: the dynamic shapes of the method "{name}" have a dimension of the input '
                f'"{where}" that its example has not: got {dimension}, expected '
                f"{f'0 to {tensor.dim() - 1}' if tensor.dim() else 'none'}.",
                "Correct the number of the dimension, which begins with 0, or the example.",
            )
        size, least, most = tensor.shape[dimension], *_range(declared)
        if not least <= size <= most:
            raise BuildError(
                f'{label}: the dynamic shapes of the method "{name}": dimension {dimension} of '
                f'the input "{where}" is {size} in its example, expected {declared.__name__} from '
                f"{least} to {most}.",
                "Widen the range in dynamic_shapes, or give an example of a size in it.",
            )


def explain(name: str, method: Method, error: Exception, label: str) -> None:
    """Fails with the conditions that torch.export found, if an error is on sizes.

    Raises:
      BuildError: with each condition, and torch's way out.
    """
    if method.dynamic_shapes is None or type(error).__name__ not in _OF_SIZES:
        return
    said = str(error).partition("\n\nThe error above occurred when calling")[0]
    said = said.partition("\nFor more information about this error")[0]
    said, _, ways = said.partition("\nSuggested fixes:\n")
    found = _conditions(said)
    raise BuildError(
        f'{label}: the dynamic shapes of the method "{name}" do not fit the model: '
        f"{'; '.join(found) or said.strip().rstrip('.')}.",
        _way_out([line.strip() for line in ways.splitlines() if line.strip()]),
    ) from error


def _conditions(said: str) -> list[str]:
    """torch's list of what is violated, each in a line, by the names that were declared."""
    names = {size: declared for declared, size in re.findall(rf"(\w+) = ({_SIZE})", said)}
    plain = re.sub(rf"\w+ = ({_SIZE})", r"\1", said)
    plain = re.sub(_SIZE, lambda size: names.get(size[0], size[0]), plain)
    found = []
    for text in re.split(r"^  - ", plain, flags=re.MULTILINE)[1:]:
        first = text.partition("\n")[0].strip().rstrip(".")
        fixed = re.match(r"You marked (.+) as dynamic but .* to be a constant \((.+?)\)", first)
        violated = re.match(
            r"Not all values of (.+) in the specified range (.+) satisfy the generated guard (.+)",
            first,
        )
        if fixed:
            first = f"the model fixes {fixed[1]} at {fixed[2]}{_line(text)}"
        elif violated:
            first = f"not all {violated[2]} satisfy {violated[3]}"
        found.append(first[:1].lower() + first[1:] if first.startswith("The ") else first)
    return found


def _line(stack: str) -> str:
    """The innermost line of the model's own code in a stack: ", net.py:12"."""
    frames = re.findall(r'File "(.+?)", line (\d+)', stack)
    own = [frame for frame in frames if "site-packages" not in frame[0]]
    return ", {}:{}".format(*own[-1]) if own else ""


def _way_out(ways: list[str]) -> str:
    """Advice by torch's suggestions: `n = 8`, `n = 2*_n`, `_n = Dim('_n', max=8)`."""
    fixed = [way.partition(" = ")[0] for way in ways if re.fullmatch(r"\w+ = \d+", way)]
    others = [way for way in ways if not re.fullmatch(r"\w+ = \d+", way)]
    ones = [way for way in ways if re.fullmatch(r"\w+ = 1", way)]
    parts = []
    if ones:
        # torch.export takes sizes of 0 and 1 for fixed ones.
        parts.append("give an example of more than 1 there")
    if fixed:
        parts.append(f"leave {' and '.join(fixed)} out of dynamic_shapes")
    if others:
        parts.append(f"declare {', '.join(others)} in dynamic_shapes")
    advice = " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return f"{advice[0].upper()}{advice[1:]}, or change the model." if advice else _GENERAL


def _dimensions(module: Any, method: Method) -> Iterator[tuple[str, torch.Tensor, int, Any]]:
    """Each declared dimension: the name of its input, its example, its number, its declaration."""
    shapes = method.dynamic_shapes
    if shapes is None or isinstance(module, torch.fx.GraphModule):
        return
    forward = module.forward if isinstance(module, torch.nn.Module) else module
    try:
        given = inspect.signature(forward).bind(*method.example_inputs).arguments
    except (TypeError, ValueError):
        return  # The model itself does not take them, which is said elsewhere.
    if isinstance(shapes, tuple | list):
        shapes = dict(zip(given, shapes, strict=False))
    yield from _within("", given, shapes)


def _within(where: str, given: Any, shapes: Any) -> Iterator[tuple[str, torch.Tensor, int, Any]]:
    if isinstance(given, torch.Tensor):
        if isinstance(shapes, Mapping):
            each = ((where, given, number, declared) for number, declared in shapes.items())
            yield from (found for found in each if isinstance(found[2], int))
        return
    if isinstance(given, tuple | list) and isinstance(shapes, tuple | list):
        pairs = [(f"[{n}]", *pair) for n, pair in enumerate(zip(given, shapes, strict=False))]
    elif isinstance(given, Mapping) and isinstance(shapes, Mapping):
        keys = [key for key in given if key in shapes]
        pairs = [(f"[{key!r}]" if where else str(key), given[key], shapes[key]) for key in keys]
    else:
        return  # torch.export says so.
    for key, value, shape in pairs:
        yield from _within(f"{where}{key}", value, shape)


def _range(declared: Any) -> tuple[float, float]:
    """The sizes that a declaration says by its own: a `Dim` that follows from no other one."""
    if type(declared) is not torch.export.Dim:
        return 0, float("inf")
    return int(declared.min), float("inf") if "oo" in str(declared.max) else int(declared.max)
