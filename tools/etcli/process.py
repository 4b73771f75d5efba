"""Work on ExecuTorch's runtime in a process of its own, whose crash is an error like others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

# Import roots of what holds ExecuTorch's runtime and torch; set by the script that starts et.
ROOTS = "ET_RUNTIME_ROOTS"


def ask(module: str, request: Mapping[str, Any], folder: Path, name: str) -> dict[str, Any]:
    """What a module answers, run as a program with the paths of a request and of an answer.

    Args:
      module: "etcli.execution".
      request: for JSON.
      folder: for both files.
      name: of the program, for messages.

    Returns:
      The answer.

    Raises:
      BuildError: the answer has an "error", or the process ends without one.
    """
    result = in_a_process(module, request, folder, name)
    if "error" in result:
        raise BuildError(result["error"], result["hint"])
    return result


def in_a_process(
    module: str, request: Mapping[str, Any], folder: Path, name: str
) -> dict[str, Any]:
    """As `ask`, with an error in the answer left to the caller."""
    asked, answered = folder / "request.json", folder / "result.json"
    asked.write_text(json.dumps(request, default=str), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-B", "-s", "-P", "-m", module, str(asked), str(answered)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_paths()), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if answered.is_file():
        result: dict[str, Any] = json.loads(answered.read_text(encoding="utf-8"))
        return result
    said = done.stderr.strip().splitlines()
    how = f"said: {said[-1]}" if said and done.returncode > 0 else "said nothing"
    if done.returncode < 0:
        how = f"crashed with {signal.Signals(-done.returncode).name}"
    raise BuildError(
        f"{name}: ExecuTorch's runtime {how}.",
        "et inspect --runtime says what the program needs.",
    )


def _paths() -> list[str]:
    """Import paths with torch and the whole ExecuTorch in the place of the linker's small one."""
    roots = [r for r in os.environ.get(ROOTS, "").split(os.pathsep) if r]
    paths = [p for p in sys.path if p]
    return [p for p in paths if not Path(p, "executorch").is_dir()] + roots if roots else paths
