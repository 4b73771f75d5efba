"""The file by which the bootstrap tells `bazelw` what to start, and for how long that holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bootstrap.locks import write_file

# `bazelw` names it, too.
FORMAT = "bazelw-decision 4"


@dataclass
class Decision:
    """What to start for one workspace.

    Attributes:
        program: the Bazel.
        options: startup options that go before the user's.
        version: set if `--version` has to be answered for it, else "".
        expires: seconds since the epoch after which the decision is void, 0 for never.
        needs: files that must be there.
        unchanged: files that must not be newer than the decision.
        inputs: files whose content must be what it was.
    """

    program: Path
    options: list[str] = field(default_factory=list)
    version: str = ""
    expires: int = 0
    needs: list[Path] = field(default_factory=list)
    unchanged: list[Path] = field(default_factory=list)
    inputs: list[Path] = field(default_factory=list)


def snapshot(inputs: Iterable[Path]) -> str:
    """Paths and contents of files, exactly as `bazelw` puts them together to compare."""
    parts = []
    for path in inputs:
        try:
            content = path.read_bytes().partition(b"\0")[0].decode("utf-8", "surrogateescape")
        except OSError:
            content = "(absent)"
        parts.append(f"{path}\n{content}\n")
    return "".join(parts)


def render(decision: Decision, key: str) -> str:
    """The text of a decision file."""
    inputs = list(dict.fromkeys(decision.inputs))
    lines = [FORMAT, f"key {key}", f"expires {decision.expires}", f"exec {decision.program}"]
    if decision.version:
        lines.append(f"version {decision.version}")
    lines += [f"option {option}" for option in decision.options]
    lines += [f"needs {path}" for path in decision.needs]
    lines += [f"unchanged {path}" for path in decision.unchanged]
    lines += [f"input {path}" for path in inputs]
    return "\n".join([*lines, "snapshot", snapshot(inputs)])


def write_decision(path: Path, decision: Decision, key: str) -> None:
    """Writes a decision file, whole or not at all."""
    write_file(path, render(decision, key))
