"""Inputs, constants and dynamic shapes as JSON, with tensors beside it: no code, no pickles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import dynamic_shapes
from torch.utils._sympy.numbers import int_oo

# What JSON has no form for is an object with one of these as its first key.
_PLAIN = (bool, int, float, str, type(None))


class UnknownKind(TypeError):
    """A value of a type that has no form here; its text is the type's name."""


class Tensors:
    """Tensors by name while values are written: each once, however often it is met.

    Attributes:
      by_name: name to tensor, flat and with memory of its own, as safetensors wants them.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, torch.Tensor] = {}
        self._names: dict[int, tuple[torch.Tensor, str]] = {}

    def value(self, value: Any) -> Any:
        """A value's form as JSON.

        Args:
          value: numbers, texts, None, tensors, and lists, tuples and dicts of them.

        Raises:
          UnknownKind: something in it is of another type.
        """
        return _form(value, self._tensor)

    def _tensor(self, value: Any) -> Any:
        known = type(value) in (torch.Tensor, torch.nn.Parameter)
        if not known or value.layout is not torch.strided or value.is_quantized:
            raise UnknownKind(_kind(value))
        if id(value) not in self._names:
            name = str(len(self.by_name))
            # Kept, so that no other tensor gets its id.
            self._names[id(value)] = (value, name)
            size, stride = value.size(), value.stride()
            # All of the memory between first and last element: strides decide how numbers round.
            span = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
            span = span if value.numel() else 0
            flat = value.detach().as_strided((span,), (1,), value.storage_offset())
            self.by_name[name] = flat.clone()
        form = {"tensor": self._names[id(value)][1]}
        return {**form, "size": list(value.size()), "stride": list(value.stride())}


def value_of(form: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The value that a form stands for.

    Args:
      form: of `Tensors.value`.
      tensors: by name.
    """

    def tensor(form: Mapping[str, Any]) -> Any:
        return tensors[form["tensor"]].as_strided(form["size"], form["stride"])

    return _value(form, tensor)


def shapes_form(shapes: Any) -> Any:
    """The form as JSON of dynamic shapes, as `torch.export.export` takes them.

    Raises:
      UnknownKind: they are of a kind that is more than data (ShapesCollection).
    """
    return _form(shapes, _dimension)


def shapes_of(form: Any) -> Any:
    """The dynamic shapes that a form of `shapes_form` stands for; a name is one dimension."""
    roots: dict[str, Any] = {}

    def dimension(form: Mapping[str, Any]) -> Any:
        if "hint" in form:
            hint = getattr(dynamic_shapes._DimHint, form["hint"])()
            limits = (form["min"], form["max"])
            return hint if limits == (None, None) else hint(*limits)
        name = form["dim"]
        if name not in roots:
            roots[name] = torch.export.Dim(name, min=form["min"], max=form["max"])
        return _derived(roots[name], form["times"], form["plus"])

    return _value(form, dimension)


def _dimension(value: Any) -> Any:
    if isinstance(value, dynamic_shapes._DimHint):
        return {"hint": value.type.name, "min": value.min, "max": value.max}
    if not isinstance(value, torch.export.Dim):
        raise UnknownKind(_kind(value))
    root, times, plus = value, 1, 0
    if isinstance(value, dynamic_shapes._DerivedDim):
        root, plus = value.root, int(value.fn(0))
        times = int(value.fn(1)) - plus
    form = {
        "dim": root.__name__,
        "min": int(root.min),
        "max": None if root.max is int_oo else int(root.max),
        "times": times,
        "plus": plus,
    }
    if type(root) is not torch.export.Dim or _derived(root, times, plus).__name__ != value.__name__:
        raise UnknownKind(_kind(value))
    return form


def _derived(root: Any, times: int, plus: int) -> Any:
    dimension = root if times == 1 else times * root
    return dimension + plus if plus else dimension


def _form(value: Any, other: Callable[[Any], Any]) -> Any:
    if type(value) in _PLAIN:
        return value
    if type(value) is list:
        return [_form(item, other) for item in value]
    if type(value) is tuple:
        return {"tuple": [_form(item, other) for item in value]}
    if isinstance(value, Mapping) and all(type(key) in (int, str) for key in value):
        return {"dict": [[key, _form(item, other)] for key, item in value.items()]}
    return other(value)


def _value(form: Any, other: Callable[[Mapping[str, Any]], Any]) -> Any:
    if isinstance(form, list):
        return [_value(item, other) for item in form]
    if not isinstance(form, dict):
        return form
    if "tuple" in form:
        return tuple(_value(item, other) for item in form["tuple"])
    if "dict" in form:
        return {key: _value(item, other) for key, item in form["dict"]}
    return other(form)


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
