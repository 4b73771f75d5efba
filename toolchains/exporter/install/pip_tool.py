"""Runs pip with this machine's settings, and turns its failures into messages.

pip resolves, downloads, checks hashes and unpacks. It alone knows where packages come from: its
configuration files, PIP_* variables, credentials, proxies and certificates are handed on.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .errors import InstallError

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
    """This interpreter's pip, a folder for its temporary files, and downloaded wheels by sha256.

    The folder lies in the file system of what is installed: pip moves files instead of copying.
    """

    scratch: Path
    command: tuple[str, ...] = (sys.executable, "-I", "-m", "pip")
    files: Mapping[str, Path] = field(default_factory=dict)

    def run(
        self, arguments: Sequence[str], on_line: Callable[[str], None] = lambda line: None
    ) -> tuple[int, str]:
        """Runs pip; returns its exit code and its output, whose lines also go to `on_line`."""
        process = subprocess.Popen(
            [*self.command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_OPTIONS, "TMPDIR": str(self.scratch)},
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        assert process.stdout is not None
        lines = []
        with process:
            for line in process.stdout:
                lines.append(line)
                on_line(line.rstrip("\n"))
        return process.returncode, "".join(lines)


def explain(output: str, doing: str, hint: str = "") -> InstallError:
    """The message for pip's output as it failed; `doing` is what it did, "pip install of torch"."""
    mismatch = re.search(
        r"^\s*(\S.*?)(?: from (\S+).*?)?:?\n\s*Expected sha256\s+([0-9a-f]{64})"
        r"(?:.*\n)*?\s*Got\s+([0-9a-f]{64})",
        output,
        re.MULTILINE,
    )
    missing = re.search(r"No matching distribution found for ([^\s;]+)", output)
    if mismatch:
        expected = re.findall(r"(?:Expected sha256|or)\s+([0-9a-f]{64})", output)
        others = f" or one of {len(expected) - 1} more of the lock" if expected[1:] else ""
        text = (
            f"{(mismatch[2] or mismatch[1]).split('#')[0]}: the file is not the one in the lock: "
            f"got sha256 {mismatch[4]}, expected {expected[0]}{others}. If the download was cut "
            "short, empty pip's cache (`pip cache purge`) and try again. If the package index has "
            "another file under this version, use the index that the lock was written from, or "
            "write the lock again."
        )
    elif "No space left on device" in output:
        text = f"{doing}: the disk is full. Free about 4 GB and try again."
    elif missing and "Retrying" in output:
        text = f"{doing}: the package index cannot be reached. {_CHECK}"
    elif missing:
        text = f"{doing}: no wheel of {missing[1]} for this machine. {_CHECK}"
    else:
        text = f"{doing}: pip failed. {_CHECK}"
    said = "" if mismatch else f" pip says:\n{_tail(output)}"
    return InstallError(text + said + (f"\n{hint}" if hint else ""))


def _tail(output: str) -> str:
    """pip's last lines; of its warnings only the last that tells why a connection failed."""
    lines = [line for line in output.splitlines() if line.strip()]
    retries = [line for line in lines if line.startswith("WARNING: Retrying")][-1:]
    lines = [line for line in lines if not line.lstrip().startswith(("WARNING:", "[notice]"))]
    first = next((n for n, line in enumerate(lines) if line.startswith("ERROR:")), 0)
    return "\n".join(f"  {line[:400]}" for line in retries + lines[first:][-12:]) or "  nothing"
