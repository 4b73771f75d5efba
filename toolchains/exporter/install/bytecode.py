"""Bytecode that is the same bytes whoever compiles it, and never stale.

It is compiled in interpreters of its own that have imported next to nothing: marshal marks strings
that the process has in use elsewhere, so other imports make other bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from .errors import InstallError

# The bytecode has its source's hash instead of a time (PEP 552), which is never checked, and a
# relative file name, which the import system replaces by the real path.
_COMPILE = """
import py_compile, sys, warnings
warnings.simplefilter("ignore")
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for line in sys.stdin:
    path, name = line.rstrip("\\n").split("\\t")
    try:
        py_compile.compile(path, dfile=name, doraise=True, optimize=0, invalidation_mode=mode)
    except py_compile.PyCompileError:
        pass  # A template, or syntax of another Python: nobody imports it.
"""


# Sources that one interpreter compiles, which takes a second or two.
_CHUNK = 400


def compile_trees(
    roots: Iterable[Path],
    executor: Executor,
    python: str = sys.executable,
    progress: Callable[[float], None] = lambda share: None,
) -> None:
    """Compiles all sources below some folders into __pycache__ folders, in parallel.

    Args:
      roots: the folders.
      executor: runs as many interpreters at once as it has threads.
      python: the interpreter.
      progress: called with the share that is compiled, from 0 to 1, again and again.

    Raises:
      InstallError: the bytecode cannot be written.
    """
    lines = [
        f"{path}\t{os.path.relpath(path, root.parent)}\n"
        for root in roots
        for path in sorted(root.rglob("*.py"))
        if path.is_file()
    ]
    chunks = [lines[start : start + _CHUNK] for start in range(0, len(lines), _CHUNK)]

    def run(chunk: Sequence[str]) -> None:
        command = [python, "-I", "-S", "-B", "-c", _COMPILE]
        done = subprocess.run(command, input="".join(chunk), capture_output=True, text=True)
        if done.returncode:
            raise InstallError(
                "bytecode: it cannot be written. Check free space: about 4 GB are needed. Python "
                f"says:\n{done.stderr.strip()[-800:]}"
            )

    for number, _ in enumerate(executor.map(run, chunks), 1):
        progress(number / len(chunks))
