"""Runs pip with this machine's settings, and turns its failures into messages.

Only for writing locks: pip answers which files it would take on each platform, and installs uv.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from install.errors import InstallError

_CHECK = "Check the network and pip's index, mirror and proxy settings (`pip config list`)."
_OPTIONS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_COLOR": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_USER": "0",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Pip:
    """This interpreter's pip, and a folder for its temporary files."""

    scratch: Path
    command: tuple[str, ...] = (sys.executable, "-I", "-m", "pip")

    def run(self, arguments: Sequence[str]) -> tuple[int, str]:
        """Runs pip; returns its exit code and its output."""
        done = subprocess.run(
            [*self.command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_OPTIONS, "TMPDIR": str(self.scratch)},
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        return done.returncode, done.stdout


def explain(output: str, doing: str) -> InstallError:
    """The message for pip's output as it failed; `doing` is what it did, "pip install of uv"."""
    missing = re.search(r"No matching distribution found for ([^\s;]+)", output)
    if missing and "Retrying" in output:
        text = f"{doing}: the package index cannot be reached. {_CHECK}"
    elif missing:
        text = f"{doing}: no wheel of {missing[1]} for this machine. {_CHECK}"
    else:
        text = f"{doing}: pip failed. {_CHECK}"
    return InstallError(f"{text} pip says:\n{_tail(output)}")


def _tail(output: str) -> str:
    """pip's last lines; of its warnings only the last that tells why a connection failed."""
    lines = [line for line in output.splitlines() if line.strip()]
    retries = [line for line in lines if line.startswith("WARNING: Retrying")][-1:]
    lines = [line for line in lines if not line.lstrip().startswith(("WARNING:", "[notice]"))]
    first = next((n for n, line in enumerate(lines) if line.startswith("ERROR:")), 0)
    return "\n".join(f"  {line[:400]}" for line in retries + lines[first:][-12:]) or "  nothing"
