"""Reads .pt2 files without running what is in them.

torch's reader calls what pickles name, evaluates expressions of sizes as Python, and imports
modules that a tree of arguments names. Here it reads tensors and graphs only.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import io
import pickle
import sys
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import sympy
import torch
from etbuild import checkpoint
from etbuild.zip_check import ArchiveError
from etfast.unit import replaced
from torch._export.serde import serialize
from torch._export.verifier import TrainingIRVerifier
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import custom_ops
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree
from torch.utils._sympy import functions as torch_functions

from etexport.pt2_check import check_archive, check_expression

_FUNCTIONS = frozenset(
    name
    for name, value in vars(torch_functions).items()
    if isinstance(value, type) and issubclass(value, sympy.Basic)
)
# Calls a class that its arguments name.
_CALLS_BY_NAME = custom_ops._call_custom_autograd_function_in_pre_dispatch


def load(path: Path) -> torch.export.ExportedProgram:
    """Reads a file that torch.export.save wrote.

    Args:
      path: the .pt2 file.

    Returns:
      The program, without the code that would check its inputs.

    Raises:
      ArchiveError: it is damaged, or holds something that would run.
      Exception: whatever torch raises on a damaged one.
    """
    check_archive(path)
    with _harmless():
        program = torch.export.load(path)
    # torch makes functions out of these.
    if hasattr(program, "_guards_code"):
        program._guards_code = []
    env = environment(program)
    # torch writes the range of 2 * n, too, and reads it as a symbol's, which it then can't lower.
    for size in [*env.var_to_range] if env else []:
        if not isinstance(size, sympy.Symbol):
            del env.var_to_range[size]
    TrainingIRVerifier().check(program)
    _check_calls(program)
    return program


def substitute(program: torch.export.ExportedProgram, expressions: Mapping[str, str]) -> None:
    """Lets expressions stand for symbols of sizes, as when the program was traced.

    Args:
      program: as `load` returns it.
      expressions: by symbol, as `pt2_write.save` returns them.

    Raises:
      ArchiveError: one is more than an expression of sizes.
    """
    env = environment(program)
    if not expressions or env is None:
        return
    for symbol in [*env.var_to_range]:
        if symbol.name in expressions:
            text = expressions[symbol.name]
            env.replacements[symbol] = _sympify(sympy.sympify, {}, text)
            program.range_constraints.pop(symbol, None)
    # What sizes are was computed without.
    env._version_counter += 1
    env._replacements_version_counter += 1


def environment(program: torch.export.ExportedProgram) -> ShapeEnv | None:
    """The symbols of a program's sizes; None: all are numbers."""
    values = [node.meta.get("val") for node in program.graph.nodes]
    for value in _pytree.tree_leaves(values):
        if isinstance(value, FakeTensor) and value.fake_mode.shape_env is not None:
            return value.fake_mode.shape_env
    return None


def _harmless() -> contextlib.AbstractContextManager[None]:
    """Replaces what torch's reader would run code with."""
    package = importlib.import_module("torch.export.pt2_archive._package")
    # Not for safety: torch asks for the types of a class at each of its objects.
    cached = {**vars(typing), "get_type_hints": functools.partial(_type_hints, {})}
    return replaced(
        (torch, "load", functools.partial(_load, torch.load)),
        (package, "pickle", SimpleNamespace(loads=_no_pickle)),
        (torch._C, "_pickle_load_obj", _no_pickle),
        (sympy, "sympify", functools.partial(_sympify, sympy.sympify, {})),
        (_pytree, "importlib", SimpleNamespace(import_module=_imported)),
        (_pytree, "enum_object_hook", _enum),
        (serialize, "typing", SimpleNamespace(**cached)),
    )


def _load(load: Callable[..., Any], file: Any, *args: Any, **options: Any) -> Any:
    data = file.getvalue() if isinstance(file, io.BytesIO) else b""
    archive = checkpoint.check_pickled(data)
    try:
        return load(file, *args, **{**options, "map_location": "cpu", "weights_only": True})
    except pickle.UnpicklingError as error:
        name = checkpoint.refused_name(error, archive)
        raise ArchiveError(
            f'a pickle in it would run code: it names "{name}"' if name else str(error)
        ) from None


def _no_pickle(*args: Any) -> Any:
    raise ArchiveError("an object in it is a pickle, which would run code when it is loaded")


def _sympify(
    sympify: Callable[..., Any],
    known: dict[tuple[str, int], Any],
    text: Any,
    *args: Any,
    **options: Any,
) -> Any:
    if not isinstance(text, str):
        return sympify(text, *args, **options)
    # Most sizes are the same few. The symbols that torch knows by name become more, and stay.
    key = (text, len(options.get("locals") or ()))
    if args or options.keys() - {"locals"} or key not in known:
        check_expression(text, _FUNCTIONS)
        known[key] = sympify(text, *args, **options)
    return known[key]


def _type_hints(known: dict[Any, Any], owner: Any, **options: Any) -> dict[str, Any]:
    if owner not in known:
        known[owner] = typing.get_type_hints(owner, **options)
    return known[owner]


def _imported(name: str) -> ModuleType:
    """A module that is there already: to import one is to run it."""
    if name not in sys.modules:
        raise ArchiveError(f'the tree of its arguments wants to import "{name}"')
    return sys.modules[name]


def _enum(value: dict[str, Any]) -> Any:
    if "__enum__" not in value:
        return value
    module, _, name = str(value.get("fqn")).partition(":")
    member: Any = _imported(module)
    for part in name.split("."):
        member = getattr(member, part, None)
    if not (isinstance(member, type) and issubclass(member, enum.Enum)):
        raise ArchiveError(f"the tree of its arguments has {value}, which is not an enum")
    return member[value["name"]]


def _check_calls(program: torch.export.ExportedProgram) -> None:
    """Fails for functions that aren't operators: a graph calls what it is given."""
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.op == "call_function" and node.target is _CALLS_BY_NAME:
                raise ArchiveError(f"its graph calls {node.target}")
            for value in _pytree.tree_leaves((node.args, node.kwargs)):
                if callable(value) and not isinstance(value, OpOverload | HigherOrderOperator):
                    raise ArchiveError(f"its graph hands on {value}, which is not an operator")
