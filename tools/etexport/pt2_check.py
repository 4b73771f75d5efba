"""What is checked in a .pt2 file before torch reads it: torch trusts its contents."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from etbuild import checkpoint
from etbuild.zip_check import ArchiveError, check_member, members, read_member, stored

# Strings that become Python source: torch makes functions out of graphs.
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = ("name", "forward_arg_names")
# Bytes: a tensor may be larger than what is stored of it, if it is expanded.
_MOST_EXPANDED = 1 << 30

_LONGEST_EXPRESSION = 20_000
_LARGEST_NUMBER = 1 << 128
_LARGEST_EXPONENT = 64
_NUMBERS = ("Float", "Integer", "Rational")
_POWERS = ("FloatPow", "LShift", "Pow", "PowByNatural", "RShift")
_FUNCTIONS = frozenset(
    """
    Abs Add And Eq Equality ExprCondPair Float Ge GreaterThan Gt Integer Le LessThan Lt Max Min Mod
    Mul Ne Not Or Piecewise Pow Rational StrictGreaterThan StrictLessThan Symbol Tuple Unequality
    Xor ceiling floor
    """.split()  # noqa: SIM905
)
_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.Tuple,
    ast.keyword,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)


def check_archive(path: Path) -> None:
    """Checks a .pt2 file's archive: its checksums, its sizes, and what its JSON says.

    Raises:
      ArchiveError: it is damaged, or holds something that would run: objects in pickles, machine
        code, names that are no names.
    """
    with path.open("rb") as stream:
        entries = members(stream)
        for name in entries:
            check_member(stream, name)
            _check_contents(stream, entries, name)


def _check_contents(stream: BinaryIO, entries: Mapping[str, zipfile.ZipInfo], name: str) -> None:
    if "data/aotinductor/" in name:
        raise ArchiveError(f'it has compiled code ("{name}"), which is not run here')
    if name.endswith(("_weights_config.json", "_constants_config.json")):
        config = _object(stream, name).get("config")
        folder = name.rpartition("/")[0]
        for key, payload in (config if isinstance(config, dict) else {}).items():
            _check_payload(stream, entries, folder, key, payload)
    elif re.search(r"(^|/)(models/[^/]+|serialized_exported_program)\.json$", name):
        _check_program(_object(stream, name))
    elif name.endswith(".pt"):
        checkpoint.check_pickled(read_member(stream, name))


def _object(stream: BinaryIO, name: str) -> dict[str, Any]:
    try:
        value = json.loads(read_member(stream, name))
    except RecursionError:
        raise ArchiveError(f'"{name}" is nested too deeply') from None
    except ValueError as error:
        raise ArchiveError(f'"{name}" is not JSON: {error}') from error
    if not isinstance(value, dict):
        raise ArchiveError(f'"{name}" is not a JSON object')
    return value


def _check_payload(
    stream: BinaryIO,
    entries: Mapping[str, zipfile.ZipInfo],
    folder: str,
    key: str,
    payload: Any,
) -> None:
    member = payload.get("path_name") if isinstance(payload, dict) else None
    if not isinstance(member, str):
        raise ArchiveError(f'nothing says where "{key}" is')
    if not re.fullmatch(r"(weight|tensor)_\d+", member):
        raise ArchiveError(
            f'"{key}" is an object in a pickle ("{member}"), which would run code when it is loaded'
        )
    info = stored(entries, f"{folder}/{member}")
    if payload.get("use_pickle"):
        checkpoint.check_pickled(read_member(stream, info))
        return
    meta = payload.get("tensor_meta")
    sizes = meta.get("sizes") if isinstance(meta, dict) else None
    if not isinstance(sizes, list):
        raise ArchiveError(f'nothing says what shape "{key}" has')
    shape = [size.get("as_int") if isinstance(size, dict) else None for size in sizes]
    if not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ArchiveError(f'"{key}" has the shape {shape}')
    room = max(info.file_size, _MOST_EXPANDED if info.file_size else 0)
    if math.prod(shape) > room:
        raise ArchiveError(f'"{key}" has the shape {shape} and {info.file_size} bytes')


def _check_program(program: dict[str, Any]) -> None:
    for key, value in _members_of(program):
        if key in _NAMES:
            for name in value if isinstance(value, list) else [value]:
                if isinstance(name, str) and name and not _IDENTIFIER.fullmatch(name):
                    raise ArchiveError(f"a name in its graph is {name[:80]!r}")
        if key == "in_spec" and isinstance(value, str):
            for name in _keywords(value):
                if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
                    raise ArchiveError(f"an argument of its graph is called {str(name)[:80]!r}")


def _members_of(value: Any) -> Iterator[tuple[str, Any]]:
    """All members of objects in a JSON value, however deep."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield from each.items()
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _keywords(spec: str) -> list[Any]:
    """The keyword arguments in a tree of arguments, as torch writes it."""
    try:
        _, tree = json.loads(spec)
        names = json.loads(tree["children_spec"][1]["context"])
    except (LookupError, RecursionError, TypeError, ValueError):
        raise ArchiveError("the tree of its arguments cannot be read") from None
    return names if isinstance(names, list) else [names]


def check_expression(text: str, functions: frozenset[str]) -> None:
    """Checks an expression of sizes, which sympy evaluates as Python.

    Args:
      text: e.g. "Mul(Integer(2), Symbol('s0', positive=True, integer=True))".
      functions: names of functions of torch that may be in it.

    Raises:
      ArchiveError: it is something else, or would take for ever.
    """
    shown = repr(text[:80])
    try:
        if len(text) > _LONGEST_EXPRESSION:
            raise ValueError("too long")
        tree = ast.parse(text.strip(), mode="eval")
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        raise ArchiveError(f"an expression of sizes cannot be read: {shown}") from None
    for node in ast.walk(tree):
        allowed = isinstance(node, _NODES)
        if isinstance(node, ast.Name):
            allowed = _IDENTIFIER.fullmatch(node.id) is not None and not node.id.startswith("__")
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            allowed = abs(node.value) < _LARGEST_NUMBER
        if isinstance(node, ast.Call):
            name = _called(node)
            allowed = name in _FUNCTIONS or name in functions
            allowed = allowed and (name not in _POWERS or _small_power(node.args))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift | ast.RShift):
            allowed = _small_power([node.left, node.right])
        if not allowed:
            raise ArchiveError(f"an expression of sizes is more than that: {shown}")


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _small_power(operands: list[ast.expr]) -> bool:
    """Whether a power stays small: of symbols, or with a small number as the exponent."""
    if len(operands) != 2:
        return False
    limits = (_LARGEST_NUMBER, _LARGEST_EXPONENT + 1)
    return all(
        _has_symbol(operand) or abs(_number(operand)) < limit
        for operand, limit in zip(operands, limits, strict=True)
    )


def _has_symbol(node: ast.expr) -> bool:
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return "Symbol" in names or any(name not in _FUNCTIONS for name in names)


def _number(node: ast.expr) -> float:
    """A number, also negated or in `_NUMBERS`; infinite: something else."""
    if isinstance(node, ast.UnaryOp):
        return _number(node.operand)
    if isinstance(node, ast.Call) and node.args and _called(node) in _NUMBERS:
        values = [_number(a) for a in node.args]
        return max(values, key=abs)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        with contextlib.suppress(OverflowError, ValueError):
            return float(node.value)
    return math.inf
