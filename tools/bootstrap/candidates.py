"""Bazels that are on the machine already."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bootstrap import bazelisk
from bootstrap.console import BootstrapError, progress, warn
from bootstrap.versions import MINIMUM, Version, format_version, new_enough, parse_version

# Set while a candidate is asked for its version: should it lead back to bazelw, bazelw refuses.
PROBE_VARIABLE = "RULES_EXECUTORCH_BAZELW_PROBE"
_TIME_LIMIT_SECONDS = 15
_DOWNLOAD_LIMIT_SECONDS = 600


@dataclass(frozen=True)
class Candidate:
    """A Bazel that can be used.

    Attributes:
        program: what to start.
        version: its version, or None for one that the user chose and that does not tell.
    """

    program: Path
    version: Version | None


def _ask_version(program: str, workspace: Path, limit: int) -> tuple[str, str]:
    """Asks for the version: the output, or else the reason why there is none."""
    environment = dict(os.environ, **{PROBE_VARIABLE: "1"})
    try:
        result = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=limit,
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        return "", f"cannot be started: {error.strerror or error}"
    if result.returncode:
        lines = (result.stderr + result.stdout).strip().splitlines() or ["no output"]
        return "", f"`--version` fails with exit code {result.returncode}: {lines[-1]}"
    return result.stdout, ""


def examine(program: str, workspace: Path) -> tuple[Version | None, str]:
    """Finds out a program's version.

    Returns:
        The version, and "" or the reason why it cannot be used.
    """
    try:
        output, reason = _ask_version(program, workspace, _TIME_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        # Bazelisk downloads at that moment: let it, if it can get anywhere.
        why = bazelisk.unreachable()
        if why:
            return None, f"no answer within {_TIME_LIMIT_SECONDS} s, and out of reach is {why}"
        progress(f"waiting for {program}, which seems to download a Bazel")
        try:
            output, reason = _ask_version(program, workspace, _DOWNLOAD_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            return None, f"no answer within {_DOWNLOAD_LIMIT_SECONDS} s"
    if reason:
        return None, reason
    version = parse_version(output)
    if version is None:
        return None, f"`--version` tells no version: {output.strip()[:80]!r}"
    if not new_enough(version):
        return version, (
            f"is version {format_version(version)}, {format_version(MINIMUM)} or newer is needed"
        )
    return version, ""


def from_environment(value: str, self_path: Path, workspace: Path) -> Candidate:
    """The Bazel that $BAZEL names, which is a choice that nothing else may replace.

    Raises:
        BootstrapError: it cannot be started.
    """
    remedy = ["Set BAZEL to the path of a Bazel, or unset it to have one found."]
    program = str(Path.cwd() / value) if "/" in value else shutil.which(value) or ""
    if not program:
        raise BootstrapError(f"BAZEL is {value!r}, and PATH has no such program", remedy)
    path = Path(program)
    if not path.is_file() or not os.access(path, os.X_OK):
        kind = "is not executable" if path.exists() else "does not exist"
        raise BootstrapError(f"BAZEL is {value!r}, which {kind}", remedy)
    if path.samefile(self_path):
        raise BootstrapError(f"BAZEL is {value!r}, which is bazelw itself", remedy)
    version, reason = examine(program, workspace)
    if reason and version is None:
        warn(f"BAZEL is {value}, but {reason}; using it as you say")
    elif reason:
        warn(f"BAZEL is {value} and {reason}; using it as you say")
    return Candidate(path, version)
