"""Finding a pip that is new enough, running it, and turning its failures into messages.

pip is used for what only it knows on a given machine: where packages come from (its configuration
files, PIP_* variables, credentials, proxies, certificates). It downloads; unpacking is ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import InstallError

# `pip index versions`, which lets torch's builds be told apart without downloading one, came then.
MINIMUM = (21, 2)

_ENVIRONMENT = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_NO_COLOR": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Pip:
    """A command that runs pip."""

    command: tuple[str, ...]
    version: tuple[int, ...]

    def run(
        self, arguments: Sequence[str], on_line: Callable[[str], None] = lambda line: None
    ) -> tuple[int, str]:
        """Runs pip; returns its exit code and everything it said, line by line to on_line too."""
        process = subprocess.Popen(
            [*self.command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT},
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        assert process.stdout is not None
        said: list[str] = []
        with process:
            for line in process.stdout:
                said.append(line)
                on_line(line.rstrip("\n"))
        return process.returncode, "".join(said)


def find(scratch: Path) -> Pip:
    """This interpreter's pip, or one that ensurepip puts into a scratch environment."""
    own = _probe([sys.executable, "-I", "-m", "pip"])
    if own is not None and own.version >= MINIMUM:
        return own
    bootstrapped = _bootstrap(scratch / "pip")
    if bootstrapped is not None and bootstrapped.version >= MINIMUM:
        return bootstrapped
    raise InstallError(
        "this Python has no pip that can be used",
        where=sys.executable,
        got="no pip, and no ensurepip to make one" if own is None else f"pip {_dotted(own)}",
        wanted=f"pip {'.'.join(map(str, MINIMUM))} or newer",
        todo="install pip (on Debian and Ubuntu: python3-pip, or python3.11-venv), or name a\n"
        "Python that has it in the attribute `python` or in RULES_EXECUTORCH_PYTHON",
    )


def _dotted(pip: Pip) -> str:
    return ".".join(map(str, pip.version))


def _probe(command: Sequence[str]) -> Pip | None:
    try:
        done = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **_ENVIRONMENT},
            check=False,
        )
    except OSError:
        return None
    found = re.match(r"pip (\d+(?:\.\d+)*)", done.stdout)
    if done.returncode or found is None:
        return None
    return Pip(tuple(command), tuple(int(part) for part in found[1].split(".")))


def _bootstrap(place: Path) -> Pip | None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "venv", str(place)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return (
        _probe([str(place / "bin" / "python"), "-I", "-m", "pip"]) if not done.returncode else None
    )


def explain(said: str, *, doing: str, hint: str = "") -> InstallError:
    """The message for a pip run that failed; `hint` is something else to do about it."""
    mismatch = re.search(
        r"^\s*(\S.*?)(?: from (\S+).*?)?:?\n\s*Expected sha256\s+([0-9a-f]{64})"
        r"(?:.*\n)*?\s*Got\s+([0-9a-f]{64})",
        said,
        re.MULTILINE,
    )
    if mismatch is not None:
        wanted = re.findall(r"(?:Expected sha256|or)\s+([0-9a-f]{64})", said)
        return InstallError(
            "a downloaded file is not the one that the lock names",
            where=(mismatch[2] or mismatch[1]).split("#")[0],
            got="sha256 " + mismatch[4],
            wanted="sha256 " + wanted[0] + _others(len(wanted) - 1),
            todo="if the download was cut short, fetch again (and `pip cache purge`); if a\n"
            "package index serves another file under this version, use the index that the lock\n"
            "was made from, or write the lock again" + _also(hint),
        )
    missing = re.search(r"No matching distribution found for (\S+)", said)
    if missing is not None:
        return InstallError(
            f"no wheel of {missing[1]} for this machine can be found",
            where=doing,
            got=_tail(said),
            wanted=missing[1],
            todo="check pip's package index, mirror and proxy settings (`pip config list`):\n"
            f"`pip download --no-deps {missing[1].split(';')[0]}` has to work here" + _also(hint),
        )
    return InstallError(
        "pip failed",
        where=doing,
        got=_tail(said),
        todo="see pip's message; its settings are those of this machine (`pip config list`)"
        + _also(hint),
    )


def _also(hint: str) -> str:
    return f"\n{hint}" if hint else ""


def _others(count: int) -> str:
    return f", or one of the lock's {count} other hashes" if count else ""


def _tail(said: str, lines: int = 12) -> str:
    kept = [line for line in said.splitlines() if line.strip()]
    # Of pip's many warnings only the last one that tells why a connection failed says anything.
    failed = [line for line in kept if line.startswith("WARNING: Retrying")][-1:]
    kept = [line for line in kept if not line.lstrip().startswith(("WARNING:", "[notice]"))]
    return "\n".join([line[:400] for line in failed] + kept[-lines:]) or "no output"
