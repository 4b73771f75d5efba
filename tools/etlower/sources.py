"""The import tree: what a model may import, and nothing else of the workspace."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError, listed

from etlower.flags import MAIN

# Module and package to its path in the workspace, for messages.
_declared: dict[str, str] = {}

_ABSENT = (
    "Add a py_library that provides it to deps of the model or recipe, or the package to the lock "
    "of the exporter environment."
)


def install(tree: Path, sources: Mapping[str, Path], roots: Iterable[str]) -> None:
    """Lays declared sources out as in a runfiles tree and puts its roots on the import path.

    Args:
      tree: an empty folder.
      sources: path in the tree to file.
      roots: folders of the tree, in order of preference.
    """
    for path, file in sorted(sources.items()):
        link = tree / path
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(file)
    paths = [str(tree / root) for root in roots if (tree / root).is_dir()]
    # Before all others: a user's module wins over one of the exporter environment.
    sys.path[:0] = [p for p in paths if p not in sys.path]
    importlib.invalidate_caches()
    _declared.clear()
    _declared.update(_modules(sources, roots))


def _modules(sources: Iterable[str], roots: Iterable[str]) -> dict[str, str]:
    """Modules of the workspace, and the packages around them."""
    modules: dict[str, str] = {}
    for path in sorted(sources):
        if not (path.startswith(MAIN) and path.endswith(".py")):
            continue
        for root in roots:
            if path.startswith(root + "/"):
                name = path[len(root) + 1 :].removesuffix(".py").replace("/", ".")
                file = path.removeprefix(MAIN)
                modules[name.removesuffix(".__init__")] = file
                while "." in name:
                    name, file = name.rpartition(".")[0], file.rpartition("/")[0]
                    modules.setdefault(name, file)
    return modules


def load(reference: str, label: str, attribute: str) -> Any:
    """The function that "module:function" names.

    Args:
      reference: e.g. "models.llama:build".
      label: target, for messages.
      attribute: the attribute that holds the reference, for messages.

    Raises:
      BuildError: it is malformed, the module isn't there, or has no such function.
    """
    module_name, colon, function_name = reference.partition(":")
    if not (module_name and colon and function_name):
        raise BuildError(
            f'{label}: {attribute} = "{reference}" is malformed.',
            f'Write "module:function", e.g. {attribute} = "models.llama:build".',
        )
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        absent = absent_module(error)
        if not absent:
            raise
        raise _missing(error, absent, reference, label, attribute) from error
    function: Any = module
    for part in function_name.split("."):
        if not hasattr(function, part):
            public = [
                n
                for n, v in vars(module).items()
                if inspect.isfunction(v) and v.__module__ == module_name and n[:1] != "_"
            ]
            raise BuildError(
                f'{label}: {attribute} = "{reference}": the module {module_name} has no '
                f'"{function_name}". Its functions are: {listed(sorted(public))}.',
                f"Correct {attribute}, or define the function.",
            )
        function = getattr(function, part)
    if not callable(function):
        raise BuildError(
            f'{label}: {attribute} = "{reference}" is a {type(function).__name__}, not a function.'
        )
    return function


def absent_module(error: ImportError) -> str:
    """The module that an import did not find; "" if the module was found, and lacks a name."""
    if isinstance(error, ModuleNotFoundError):
        return error.name or ""
    name = re.match(r"cannot import name '(\w+)'", error.msg or "")
    # Of a folder of modules: it has no file, and no names but theirs.
    return f"{error.name}.{name[1]}" if name and error.name and not error.path else ""


def absence_hint(error: ImportError) -> str:
    """Returns what to do about a module that was imported and not found."""
    absent = absent_module(error)
    named = _named_like(absent)
    if named:
        return f"{_explained(named)} Import that name."
    if "." in absent and absent.rpartition(".")[0] in _declared:
        folder = _declared[absent.rpartition(".")[0]].removesuffix("/__init__.py")
        return f"Add {folder}/{absent.rpartition('.')[2]}.py to srcs, or its py_library to deps."
    importer = _importer(error)
    if importer not in _declared or "." in absent:
        return _ABSENT
    package, dot, _ = importer.rpartition(".")
    name = f' and import it as "{package}.{absent}"' if dot else ""
    return f"{_ABSENT} If it is {absent}.py beside {_declared[importer]}, add it to srcs{name}."


def _named_like(absent: str) -> list[str]:
    return sorted(name for name in _declared if absent and name.endswith("." + absent))


def _explained(names: list[str]) -> str:
    modules = " and ".join(f'{_declared[name]} is "{name}"' for name in names)
    return f"Names of modules begin at the workspace's root: {modules}."


def _importer(error: ImportError) -> str:
    """The module whose code imports what was not found."""
    trace, name = error.__traceback__, ""
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith("<frozen "):
            name = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return name


def _missing(
    error: ImportError, absent: str, reference: str, label: str, attribute: str
) -> BuildError:
    module_name, _, function_name = reference.partition(":")
    if module_name != absent and not module_name.startswith(absent + "."):
        importer = _importer(error)
        importer = importer if importer in _declared else module_name
        return BuildError(
            f'{label}: "{importer}" imports "{absent}", which was not found.', absence_hint(error)
        )
    what = f'{label}: {attribute} names the module "{module_name}", which was not found.'
    named = _named_like(module_name)
    if named:
        return BuildError(
            what, f'{_explained(named)} Write {attribute} = "{named[0]}:{function_name}".'
        )
    package = label.rpartition(":")[0].rpartition("//")[2]
    example, name = ("models/llama", "models.llama")
    if package and "." not in module_name:
        example, name = f"{package}/{module_name}", f"{package}.{module_name}".replace("/", ".")
    return BuildError(
        what,
        f"A source's module name is its path from the workspace's root: {example}.py is "
        f'"{name}", nets.py at the root is "nets". Is the file in srcs?',
    )
