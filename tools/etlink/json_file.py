"""JSON files that other steps wrote: types, ranges and nesting are checked."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

_HASH = re.compile(r"[0-9a-f]{64}")
_NAMES = {str: "text", int: "a whole number from 0", float: "a number", bool: "true or false"}


class FormError(ValueError):
    """A value hasn't the form that is wanted; the message says where, got and wanted."""


def read_object(path: Path, problem: str, hint: str, named: Path | None = None) -> dict[str, Any]:
    """Reads a JSON object.

    Args:
      path: the file.
      problem: what it then is: "is no index of a data file".
      hint: what to do about it.
      named: what messages name in the place of the file.

    Raises:
      BuildError: it can't be read, or is something else.
    """
    start = f"{named or path} {problem}"
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise BuildError(f"{start}: it is nested too deeply.", hint) from None
    except (OSError, ValueError) as error:
        raise BuildError(f"{start}: {type(error).__name__}: {error}.", hint) from error
    if not isinstance(value, dict):
        raise BuildError(f"{start}: got {_got(value)}, wanted an object.", hint)
    return value


@contextlib.contextmanager
def fields_of(where: object, hint: str) -> Iterator[None]:
    """Makes an error out of what wrong members of objects raise where they are used.

    Args:
      where: the file, or the files.
      hint: what to do about it.

    Raises:
      BuildError: a member is missing or of another type.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise BuildError(f"{where} is damaged: {type(error).__name__}: {error}.", hint) from error


def decode(kind: Any, value: Any, extra: bool = False, where: str = "it") -> Any:
    """Makes a value of a type out of what JSON gives for it.

    Args:
      kind: str, int (from 0), float, bool, Any, dict[str, T], tuple[T, ...], T | None, or a
        dataclass whose fields have such types.
      value: as `json.loads` returns it.
      extra: whether objects may have members that the dataclass lacks; they are left out.
      where: place of the value, for messages.

    Raises:
      FormError: the value is of another type.

    Example:
      decode(Layout, {"scalar_type": 6, "sizes": [2], "dim_order": [0]})
    """
    origin = typing.get_origin(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _decode_object(kind, value, extra, where)
    if origin is tuple:
        items = _wanted(value, list, "a list", where)
        inner = typing.get_args(kind)[0]
        return tuple(decode(inner, v, extra, f"{where}[{n}]") for n, v in enumerate(items))
    if origin is dict:
        members = _wanted(value, dict, "an object", where)
        inner = typing.get_args(kind)[1]
        return {k: decode(inner, v, extra, f"{where}.{k}") for k, v in members.items()}
    if origin in (types.UnionType, typing.Union):
        inner = next(a for a in typing.get_args(kind) if a is not types.NoneType)
        return None if value is None else decode(inner, value, extra, where)
    fits = isinstance(value, (int, float) if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind is not bool) or (kind is int and value < 0):
        raise FormError(f"{where} is {_got(value)}, wanted {_NAMES[kind]}")
    return value


def check_hash(value: str, where: str) -> None:
    """Fails for what is no sha256: a made-up one could be the path of any file."""
    if not _HASH.fullmatch(value):
        raise FormError(f"{where} is {_got(value)}, wanted a sha256")


def check_base_name(value: str, where: str) -> None:
    """Fails for what isn't the name of a file in the same folder, on any system."""
    bad = value in ("", ".", "..") or any(c in "/\\\x7f" or c < " " for c in value)
    if bad:
        raise FormError(f"{where} is {_got(value)}, wanted the name of a file")


def _decode_object(kind: type, value: Any, extra: bool, where: str) -> Any:
    members: Mapping[str, Any] = _wanted(value, dict, "an object", where)
    hints = _types(kind)
    unknown = sorted(members.keys() - hints.keys())
    if unknown and not extra:
        raise FormError(f'{where} has "{unknown[0]}", which is not known here')
    found = {}
    for field in dataclasses.fields(kind):
        if field.name in members:
            inner = f"{where}.{field.name}"
            found[field.name] = decode(hints[field.name], members[field.name], extra, inner)
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise FormError(f'{where} has no "{field.name}"')
    return kind(**found)


@functools.cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _wanted(value: Any, kind: type, name: str, where: str) -> Any:
    if not isinstance(value, kind):
        raise FormError(f"{where} is {_got(value)}, wanted {name}")
    return value


def _got(value: Any, most: int = 60) -> str:
    """A value for messages; of a long one the begin, of a list or object what it is."""
    kinds = {dict: "an object", list: "a list"}
    text = kinds.get(type(value)) or json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}…"
