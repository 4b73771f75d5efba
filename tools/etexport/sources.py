"""The import tree: what a model may import, and nothing else of the workspace."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError


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
    except ModuleNotFoundError as error:
        raise _missing(error, module_name, label, attribute) from error
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
                f'"{function_name}". Its functions are: {", ".join(sorted(public)) or "none"}.',
                f"Correct {attribute}, or define the function.",
            )
        function = getattr(function, part)
    if not callable(function):
        raise BuildError(
            f'{label}: {attribute} = "{reference}" is a {type(function).__name__}, not a function.'
        )
    return function


def _missing(
    error: ModuleNotFoundError, module_name: str, label: str, attribute: str
) -> BuildError:
    absent = error.name or module_name
    if module_name == absent or module_name.startswith(absent + "."):
        return BuildError(
            f'{label}: {attribute} names the module "{module_name}", which was not found.',
            "A source's module name is its path from the workspace's root: models/llama.py is "
            '"models.llama", nets.py at the root is "nets". Is the file in srcs?',
        )
    return BuildError(
        f'{label}: "{module_name}" imports "{absent}", which was not found.',
        "Add a py_library that provides it to deps, or, for a package, to the exporter "
        "environment's lock.",
    )
