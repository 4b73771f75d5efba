"""Bazels that are on the machine already: their versions, and what their own tools depend on."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from debian.command import ActionableError, last_line, run

from bootstrap.cache import Cache, exclusive, scratch_directory, write_file
from bootstrap.console import INSTALL_BAZEL, progress, warn
from bootstrap.network import why_no_download

Version = tuple[int, ...]
MINIMUM: Version = (7, 7)

# Set while a candidate is asked for its version; bazelw refuses to run if one leads back to it.
PROBE_VARIABLE = "RULES_EXECUTORCH_BAZELW_PROBE"

# Bazel's own tools, in an install base.
EMBEDDED_TOOLS = "embedded_tools"

_ANSWER_SECONDS = 15
_DOWNLOAD_SECONDS = 600
_START_SECONDS = 120


@dataclass(frozen=True)
class Candidate:
    """A Bazel that can be used; its version is unknown only if the user chose it."""

    program: Path
    version: Version | None


def parse_version(text: str) -> Version | None:
    """The first version number in a text: `bazel --version`'s, Debian's, a build label."""
    match = re.search(r"(?<![\w.])(\d+(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def format_version(version: Version) -> str:
    """A version as text."""
    return ".".join(str(part) for part in version)


def _ask_version(program: str, workspace: Path) -> subprocess.CompletedProcess[str]:
    command = [program, "--version"]
    environment = {**os.environ, PROBE_VARIABLE: "1"}
    try:
        return run(command, cwd=workspace, env=environment, timeout=_ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        # Probably Bazelisk, downloading: let it, unless it cannot get anywhere.
        if why_no_download():
            raise
        progress(f"waiting for {program}, which seems to download a Bazel")
        return run(command, cwd=workspace, env=environment, timeout=_DOWNLOAD_SECONDS)


def examine(program: str, workspace: Path) -> tuple[Version | None, str]:
    """A program's version, and why it cannot be used, or ""."""
    try:
        result = _ask_version(program, workspace)
    except subprocess.TimeoutExpired as error:
        return None, f"no answer to --version within {error.timeout:.0f} s"
    except OSError as error:
        return None, f"cannot be started: {error.strerror or error}"
    if result.returncode:
        return None, f"--version failed with exit code {result.returncode}: {last_line(result)}"
    version = parse_version(result.stdout)
    if version is None:
        return None, f"unknown version: got {result.stdout.strip()[:80]!r}, expected a number"
    if version < MINIMUM:
        expected = f"expected {format_version(MINIMUM)} or newer"
        return version, f"too old: got {format_version(version)}, {expected}"
    return version, ""


def from_environment(value: str, self_path: Path, workspace: Path) -> Candidate:
    """The Bazel that $BAZEL names; raises ActionableError, as nothing replaces a user's choice."""
    program = Path(shutil.which(value) or "").absolute()
    if not program.is_file() or program.samefile(self_path):
        problem = "is bazelw itself" if program.is_file() else "no such program"
        remedy = "Set BAZEL to the path of a Bazel, or unset it to have one found."
        raise ActionableError(f"BAZEL: {problem}: got {value!r}, expected a Bazel", [remedy])
    version, reason = examine(str(program), workspace)
    if reason:
        warn(f"BAZEL: {value}: {reason}. It is used nevertheless.")
    return Candidate(program, version)


def run_in_empty_workspace(
    bazel: Sequence[str | Path], words: Sequence[str], parent: Path, variables: Mapping[str, str]
) -> str:
    """Has a Bazel run a command; returns its output, or raises ActionableError.

    The workspace is in `parent`, and `variables` in the environment, for as long as that takes.
    """
    with scratch_directory(parent) as scratch:
        workspace = scratch / "workspace"
        workspace.mkdir()
        (workspace / "MODULE.bazel").touch()
        command = [*bazel, "--nohome_rc", f"--output_base={scratch}/base", "--max_idle_secs=15"]
        environment = {**os.environ, **variables}
        try:
            result = run([*command, *words], cwd=workspace, env=environment, timeout=_START_SECONDS)
            code, details = result.returncode, result.stderr[-1500:]
            problem = f"exit code {code}: {details}" if code else ""
        except subprocess.TimeoutExpired:
            problem = f"no answer within {_START_SECONDS} s"
        finally:
            run([*command, "shutdown"], cwd=workspace, env=environment)
    if problem:
        reason = f"{bazel[0]}: `{' '.join(words)}` failed: {problem}"
        raise ActionableError(reason, [INSTALL_BAZEL])
    return result.stdout


def tools_module(candidate: Candidate, cache: Cache) -> Path:
    """A directory with the module file of a Bazel's own tools, or raises ActionableError."""
    program = candidate.program
    status = program.stat()
    identity = f"{program.resolve()} {status.st_size} {status.st_mtime_ns} {candidate.version}"
    directory = cache.bazel_tools / hashlib.sha256(identity.encode()).hexdigest()[:16]
    if not (directory / "MODULE.bazel").exists():
        # If it is Bazelisk: the version that the workspace asks for, not the latest.
        variables = {"USE_BAZEL_VERSION": format_version(candidate.version or MINIMUM)}
        with exclusive(cache.lock, f"asking {program} for its modules"):
            words = ["info", "install_base"]
            output = run_in_empty_workspace([program], words, cache.root, variables)
        tools = Path(output.strip().rpartition("\n")[2], EMBEDDED_TOOLS, "MODULE.bazel")
        write_file(directory / tools.name, tools.read_text(encoding="utf-8"))
    return directory
