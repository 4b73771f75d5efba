"""Compiling sources to bytecode that is the same bytes whoever compiles it, and never stale."""

from __future__ import annotations

import os
import py_compile
import warnings
from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path


def compile_file(path: str, name: str) -> bool:
    """Writes a source's bytecode into __pycache__ beside it; whether the source compiles.

    `name` is the file name that goes into the bytecode. It may be relative: the import system
    replaces it by the path that the module is really loaded from. The bytecode carries its source's
    hash instead of a time (PEP 552), and the interpreter is told not to check it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            py_compile.compile(
                path,
                dfile=name,
                doraise=True,
                optimize=0,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        except (py_compile.PyCompileError, RecursionError, ValueError):
            return False  # a template, or syntax of another Python: imported by nobody
    return True


def _compile_many(paths: list[tuple[str, str]]) -> int:
    return sum(compile_file(path, name) for path, name in paths)


def compile_trees(roots: Iterable[Path], executor: Executor) -> int:
    """Compiles everything below some folders, in parallel; the number of files compiled."""
    paths: list[tuple[str, str]] = []
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders.sort()
            for file in sorted(files):
                if file.endswith(".py"):
                    path = os.path.join(folder, file)
                    paths.append((path, os.path.relpath(path, root.parent)))
    chunks = [paths[i : i + 64] for i in range(0, len(paths), 64)]
    return sum(executor.map(_compile_many, chunks))
