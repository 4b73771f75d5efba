"""Runs ExecuTorch's runtime in a process of its own, whose crash is an error like others.

The parent calls `ask` with a module's name; that module, run as a program, calls `serve`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

# Import roots of what holds ExecuTorch's runtime and torch; set by the script that starts et.
ROOTS = "ET_RUNTIME_ROOTS"
_FLAGS = ("-B", "-s", "-P")


def ask(
    module: str,
    request: Mapping[str, Any],
    folder: Path,
    name: str,
    environment: Mapping[str, str] | None = None,
    torch: bool = False,
    command: Sequence[str] = (),
) -> dict[str, Any]:
    """Sends a request to a module that runs as a program.

    Args:
      module: "etcli.execution".
      request: for JSON; paths become text.
      folder: for the files of request and answer.
      name: of the program, for messages.
      environment: variables that the module gets in addition.
      torch: whether the module needs torch, which takes seconds to import, and all of ExecuTorch's
        package, instead of the linker's small one.
      command: words before the interpreter: a program that runs it.

    Returns:
      The answer.

    Raises:
      BuildError: that of the module, or the process ended without an answer.
    """
    request_file, answer_file = folder / "request.json", folder / "answer.json"
    # An earlier one is no answer to this request.
    answer_file.unlink(missing_ok=True)
    request_file.write_text(json.dumps(request, default=str), encoding="utf-8")
    process = subprocess.run(
        [*command, sys.executable, *_FLAGS, "-m", module, str(request_file), str(answer_file)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths(torch)),
            "PYTHONWARNINGS": "ignore",
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if answer_file.is_file():
        answer: dict[str, Any] = json.loads(answer_file.read_text(encoding="utf-8"))
        if "error" in answer:
            raise BuildError(answer["error"], answer["hint"])
        return answer
    lines = process.stderr.strip().splitlines()
    end = f"failed: {lines[-1]}" if lines and process.returncode > 0 else "ended silently"
    if process.returncode < 0:
        end = f"crashed with {signal.Signals(-process.returncode).name}{_reason(lines)}"
    raise BuildError(
        f"{name}: ExecuTorch's runtime {end}.",
        "A backend lacks its driver or an operator, the program is damaged, or memory ran out: et "
        "verify checks its files, and --jobs=1 runs one action at a time.",
    )


def _reason(lines: Sequence[str]) -> str:
    """Returns what a library said as it ended the process: the text of an uncaught exception."""
    said = [line for line in lines if "uncaught exception" in line]
    return f": {said[-1].rpartition('is false! ')[2].strip()}" if said else ""


def serve(answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> int:
    """Answers the one request of `ask`, in the module's process; returns the exit code.

    Args:
      answer: from request to answer; its BuildErrors are raised in the parent.
    """
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        result = answer(request)
    except BuildError as error:
        result = {"error": error.what, "hint": error.hint}
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")
    return 0


def paths(torch: bool) -> list[str]:
    """Lists import roots: with torch and all of ExecuTorch's package, or without."""
    roots = [r for r in os.environ.get(ROOTS, "").split(os.pathsep) if r]
    paths = [p for p in sys.path if p]
    if not torch:
        return paths
    return [p for p in paths if not Path(p, "executorch").is_dir()] + roots if roots else paths
