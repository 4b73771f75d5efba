"""Reads JSON files between steps with checks, and writes equal contents as equal bytes.

A file may be stale, cut off or malformed, so nothing of it is used before `decode` has checked its
types against a dataclass. The message then says where in the file the problem is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from etbuild.errors import BuildError

from etlink.container import write_text

_HASH = re.compile(r"[0-9a-f]{64}")
_NAMES = {str: "text", int: "a whole number from 0", float: "a number", bool: "true or false"}


_Decoded = TypeVar("_Decoded")


class FormError(ValueError):
    """A value is malformed; the message says where, what it is and what was expected.

    Names out of the file occur in it, so line breaks and control characters are escaped.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(
            "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in problem)
        )


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file: keys sorted, the same bytes for the same value."""
    write_text(path, json_text(value))


def json_text(value: object) -> str:
    """Returns what `write_json` writes."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def encode(value: Any) -> Any:
    """Makes of a value what JSON can hold, and `decode` reads.

    Members of a dataclass that have their defaults are left out.
    """
    if dataclasses.is_dataclass(value):
        members = {f.name: (getattr(value, f.name), f) for f in dataclasses.fields(value)}
        return {name: encode(v) for name, (v, f) in members.items() if not _is_default(f, v)}
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return value


def _is_default(field: dataclasses.Field[Any], value: object) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return field.default is not dataclasses.MISSING and bool(value == field.default)


def read_file(
    kind: type[_Decoded],
    path: Path,
    problem: str,
    hint: str,
    *,
    format: int | None = None,
    extra: bool = False,
    check: Callable[[_Decoded], None] = lambda value: None,
) -> _Decoded:
    """Reads a JSON file whose object has the members of a dataclass.

    Args:
      kind: the dataclass; see `decode`.
      path: the file.
      problem: what is wrong with any other file: "is not an index of a data file".
      hint: what to do about it.
      format: the number that "format" in the file must have; None: the file has none.
      extra: whether the file may have members that the dataclass lacks.
      check: raises FormError where members do not fit together.

    Raises:
      BuildError: the file cannot be read, or is malformed, or has another format.
    """
    raw = read_object(path, problem, hint, format=format)
    if format is not None:
        del raw["format"]
    try:
        value = decode(kind, raw, extra)
        check(value)
    except FormError as error:
        raise BuildError(f"{path} {problem}: {error}.", hint) from error
    return value


def read_object(
    path: Path, problem: str, hint: str, *, format: int | None = None
) -> dict[str, Any]:
    """Reads a JSON object.

    Args:
      path: the file.
      problem: what is wrong with any other file: "is not an index of a data file".
      hint: what to do about it.
      format: the number that "format" in the file must have; None: any, or none.

    Raises:
      BuildError: the file cannot be read, holds something else, or has another format.
    """
    start = f"{path} {problem}"
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
    except RecursionError:
        raise BuildError(f"{start}: it is nested too deeply.", hint) from None
    except FormError as error:
        raise BuildError(f"{start}: {error}.", hint) from error
    except (OSError, ValueError) as error:
        raise BuildError(f"{start}: {type(error).__name__}: {error}.", hint) from error
    if not isinstance(value, dict):
        raise BuildError(f"{start}: got {_got(value)}, expected an object.", hint)
    if format is not None and value.get("format") != format:
        got = _got(value.get("format"))
        raise BuildError(f"{path}: got format {got}, expected {format}.", hint)
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) != len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise FormError(f'it has the key "{twice}" twice')
    return value


@contextlib.contextmanager
def fields_of(where: object, hint: str) -> Iterator[None]:
    """Turns what wrong members of objects raise where they are used into a BuildError.

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
      where: path of the value in the file, for messages: "it.entries[3]".

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
        items = _typed(value, list, "a list", where)
        inner = typing.get_args(kind)[0]
        return tuple(decode(inner, v, extra, f"{where}[{n}]") for n, v in enumerate(items))
    if origin is dict:
        members = _typed(value, dict, "an object", where)
        inner = typing.get_args(kind)[1]
        return {k: decode(inner, v, extra, f"{where}.{k}") for k, v in members.items()}
    if origin in (types.UnionType, typing.Union):
        inner = next(a for a in typing.get_args(kind) if a is not types.NoneType)
        return None if value is None else decode(inner, value, extra, where)
    fits = isinstance(value, (int, float) if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind is not bool) or (kind is int and value < 0):
        raise FormError(f"{where} is {_got(value)}, expected {_NAMES[kind]}")
    return value


def check_hash(value: str, where: str) -> None:
    """Fails for what is not a sha256: a malformed one could be the path of any file."""
    if not _HASH.fullmatch(value):
        raise FormError(f"{where} is {_got(value)}, expected a sha256")


def check_path(value: str, where: str) -> None:
    """Fails for a path that does not lead to a file below a folder, on any system."""
    if not is_plain_path(value):
        raise FormError(f"{where} is {_got(value)}, expected a path below the file's own folder")


def is_plain_path(value: str) -> bool:
    """Returns whether a path leads to a file below a folder, on any system."""
    plain = all(part not in ("", ".", "..") for part in value.split("/"))
    return plain and not any(c in "\\\x7f" or c < " " for c in value)


def _decode_object(kind: type, value: Any, extra: bool, where: str) -> Any:
    members: Mapping[str, Any] = _typed(value, dict, "an object", where)
    hints = _types(kind)
    unknown = sorted(members.keys() - hints.keys())
    if unknown and not extra:
        raise FormError(f'{where} has the unknown member "{unknown[0]}"')
    decoded = {}
    for field in dataclasses.fields(kind):
        if field.name in members:
            inner = f"{where}.{field.name}"
            decoded[field.name] = decode(hints[field.name], members[field.name], extra, inner)
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise FormError(f'{where} has no "{field.name}"')
    return kind(**decoded)


@functools.cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _typed(value: Any, kind: type, name: str, where: str) -> Any:
    if not isinstance(value, kind):
        raise FormError(f"{where} is {_got(value)}, expected {name}")
    return value


def _got(value: Any, most: int = 60) -> str:
    """A value for messages: shortened if it is long; only its kind for a list or an object."""
    kinds = {dict: "an object", list: "a list"}
    text = kinds.get(type(value)) or json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}…"
