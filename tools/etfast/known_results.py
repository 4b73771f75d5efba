"""Results of operators on fake tensors that are known, as they came from the same before."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import (
    free_unbacked_symbols,
    has_free_unbacked_symbols,
)
from torch.utils.weak import WeakTensorKeyDictionary

from etfast.fake_tensors import Note, description, learned

# Types of arguments that are what they say.
PLAIN = frozenset(
    {
        bool,
        float,
        int,
        str,
        type(None),
        torch.device,
        torch.dtype,
        torch.layout,
        torch.memory_format,
    }
)
SYMBOLIC = frozenset({torch.SymBool, torch.SymFloat, torch.SymInt})

# From what a fake tensor was computed: key to position among the results.
_ORIGINS = Note("origins")
# Tells fake tensors apart: an address may be used again.
_SERIAL = Note("serial")
_serials = itertools.count()
_REAL: Any = WeakTensorKeyDictionary()


class _Unknown(Exception):
    """An argument that can't be compared."""


def key_of(target: Any, args: Any, kwargs: Any) -> tuple[Any, ...] | None:
    """Returns what a result depends on, comparable; None: not only on what can be compared.

    Args:
      target: an operator.
      args: its arguments: fake tensors, numbers, lists of them.
      kwargs: more of them.
    """
    return _key(target, args, kwargs, _identity)


def _key(target: Any, args: Any, kwargs: Any, of: Any) -> tuple[Any, ...] | None:
    parts: list[Any] = [target, torch.is_grad_enabled(), torch.get_default_dtype()]
    try:
        for arg in args:
            _add(parts, arg, of)
        for name, arg in kwargs.items():
            parts.append(name)
            _add(parts, arg, of)
    except _Unknown:
        return None
    return tuple(parts)


def _add(parts: list[Any], arg: Any, of: Any) -> None:
    kind = type(arg)
    if kind is FakeTensor or kind is torch.Tensor or kind is torch.nn.Parameter:
        parts.append(of(arg))
    elif kind in PLAIN:
        parts.append(kind)
        parts.append(arg)
    elif kind in SYMBOLIC:
        parts.append(kind)
        parts.append(arg.node.expr)
    elif isinstance(arg, list | tuple):
        parts.append(len(arg))
        for item in arg:
            _add(parts, item, of)
    else:
        raise _Unknown


def _identity(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Identifies the tensor."""
    if type(tensor) is not FakeTensor:
        return _serial_of_real(tensor)
    if tensor.real_tensor is not None:
        raise _Unknown
    constant = tensor.constant
    real = None if constant is None else _serial_of_real(constant)
    return _serial(tensor), real, learned(tensor)


def _description(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Describes a tensor that has no values."""
    if type(tensor) is not FakeTensor or not _is_shape_alone(tensor):
        raise _Unknown
    return description(tensor), torch._C._dispatch_keys(tensor).raw_repr()


def _serial(tensor: FakeTensor) -> tuple[str, int]:
    """Returns what tells this fake tensor from all others; a deep copy of it is another one."""
    known = _SERIAL.of(tensor)
    if known is None:
        known = ("tensor", next(_serials))
        _SERIAL.put(tensor, known)
    return known


def _serial_of_real(tensor: torch.Tensor) -> tuple[str, int]:
    """The same for a tensor with values; these may be saved, so nothing is written on them."""
    known = _REAL.get(tensor)
    if known is None:
        known = _REAL[tensor] = ("real", next(_serials))
    return known


def known_result(value: Any, key: tuple[Any, ...], mode: Any) -> bool:
    """Tells whether a value is an operator's result on the key's arguments, in this mode.

    Operators without fake arguments (`full`) give a result of the mode that they are run in.
    """
    if type(value) is FakeTensor:
        return value.fake_mode is mode and _came_from(value, key, (0, 0))
    if not isinstance(value, list | tuple) or not value:
        return False
    count = len(value)
    return all(
        type(item) is FakeTensor
        and item.fake_mode is mode
        and _came_from(item, key, (number + 1, count))
        for number, item in enumerate(value)
    )


def _came_from(tensor: FakeTensor, key: tuple[Any, ...], position: tuple[int, int]) -> bool:
    origins = _ORIGINS.of(tensor)
    return origins is not None and tensor.constant is None and origins.get(key) == position


def kept_result(value: Any, known: Any, key: tuple[Any, ...], arguments: Sequence[Any]) -> Any:
    """Writes down with a result what it was computed from.

    Args:
      value: the result.
      known: the result that the node had before, of whatever; None: it had none.
      key: what it was computed from.
      arguments: the operator's tensors and numbers: a tensor that is returned as it is came from
        elsewhere.

    Returns:
      The result; where that is no different from the known one the known one, so that what is
      computed from it is known, too.
    """
    said = _said(value, arguments)
    if said is None:
        return value
    if said == _said(known, arguments):
        value = known
    items = [value] if type(value) is FakeTensor else value
    for number, item in enumerate(items):
        position = (0, 0) if items is not value else (number + 1, len(items))
        origins = _ORIGINS.of(item)
        if origins is None:
            origins = {}
            _ORIGINS.put(item, origins)
        origins[key] = position
    return value


def _said(value: Any, arguments: Sequence[Any]) -> Any:
    """Describes a result, comparable; None: it has to be computed each time."""
    items = [value] if type(value) is FakeTensor else value
    if not isinstance(items, list | tuple) or not items:
        return None
    ids = set(map(id, items))
    if not ids.isdisjoint(map(id, arguments)) or len(ids) < len(items):
        return None
    if any(type(item) is not FakeTensor or not repeatable(item, arguments) for item in items):
        return None
    try:
        return (type(value), *((id(item.fake_mode), *_description(item)) for item in items))
    except _Unknown:
        return None


class Seen:
    """Results of operators for arguments that said the same: they give that again.

    Example:

        seen = Seen()
        seen.put(mode, target, args, {}, result, arguments)
        seen.holds(mode, target, others_that_say_the_same, {}, another_result, arguments)    # True
    """

    def __init__(self) -> None:
        self._results: Any = weakref.WeakKeyDictionary()

    def put(
        self,
        mode: Any,
        target: Any,
        args: Any,
        kwargs: Any,
        value: Any,
        arguments: Sequence[Any],
    ) -> None:
        """Remembers a result.

        Args:
          mode: FakeTensorMode that the operator ran in.
          target: the operator.
          args: its arguments.
          kwargs: more of them.
          value: the result.
          arguments: all that args and kwargs have.
        """
        key, said = _key(target, args, kwargs, _description), _said(value, arguments)
        if key is not None and said is not None:
            self._results.setdefault(mode, {})[key] = said

    def holds(
        self,
        mode: Any,
        target: Any,
        args: Any,
        kwargs: Any,
        value: Any,
        arguments: Sequence[Any],
    ) -> bool:
        """Tells whether a value says what the operator would give; arguments as of `put`."""
        said = _said(value, arguments)
        if said is None or mode not in self._results:
            return False
        key = _key(target, args, kwargs, _description)
        return key is not None and self._results[mode].get(key) == said


def repeatable(tensor: FakeTensor, arguments: Sequence[Any]) -> bool:
    """Tells whether such a result comes out each time: it has no values and no sizes of its own.

    Args:
      tensor: of the result.
      arguments: of the operator. Sizes that depend on data are theirs: each tracing of an operator
        that makes one gives it a new name.
    """
    if not _is_shape_alone(tensor):
        return False
    if not (tensor._has_symbolic_sizes_strides and has_free_unbacked_symbols(tensor)):
        return True
    theirs = [a for a in arguments if type(a) is FakeTensor or type(a) in SYMBOLIC]
    return free_unbacked_symbols(tensor) <= free_unbacked_symbols(theirs)


def _is_shape_alone(tensor: FakeTensor) -> bool:
    return tensor.constant is None and tensor.real_tensor is None


_OPERATORS: dict[Any, bool] = {}


def functional(target: Any) -> bool:
    """Tells whether an operator's result depends on its arguments alone."""
    known = _OPERATORS.get(target)
    if known is None:
        schema = getattr(target, "_schema", None)
        arguments = getattr(schema, "arguments", ())
        written = any(a.alias_info is not None and a.alias_info.is_write for a in arguments)
        tags = getattr(target, "tags", ())
        known = _OPERATORS[target] = schema is not None and not (
            written
            # A view has the memory of its argument: it is not the one that it was before.
            or getattr(target, "is_view", False)
            or torch.Tag.dynamic_output_shape in tags
            or torch.Tag.data_dependent_output in tags
        )
    return known
