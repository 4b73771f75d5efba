"""Makes the decision: which Bazel, and where its modules come from."""

from __future__ import annotations

import os
from pathlib import Path

from bootstrap import bazelisk
from bootstrap.assemble import (
    assembled_version,
    ensure_bazel,
    ensure_modules,
    is_complete,
    startup_options,
)
from bootstrap.candidates import Candidate, examine, from_environment
from bootstrap.console import BootstrapError, progress, warn
from bootstrap.decision import Decision
from bootstrap.foreign import BAZEL_TOOLS, bazel_tools
from bootstrap.modulefile import parse_module_file
from bootstrap.relocate import CLIENT, INSTALL_BASE
from bootstrap.request import Request
from bootstrap.supply import registry_answers, take_from_debian
from bootstrap.versions import MINIMUM, Version, format_version, parse_version

MODULES_VARIABLE = "RULES_EXECUTORCH_MODULES"


def _on_the_machine(request: Request, directory: Path, tried: list[str]) -> Candidate | None:
    """A Bazel that $BAZEL names or PATH has; notes why others do not do."""
    value = os.environ.get("BAZEL", "")
    if value:
        return from_environment(value, request.self_path, directory)
    tried.append("$BAZEL: not set")
    paths = {"bazel": request.bazel_on_path, "bazelisk": request.bazelisk_on_path}
    for name, program in paths.items():
        if not program:
            tried.append(f"{name} on PATH: there is none")
            continue
        version, reason = examine(program, directory)
        if not reason:
            return Candidate(Path(program), version)
        tried.append(f"{name} on PATH: {program} {reason}")
    return None


def _from_bazelisk(request: Request, directory: Path, tried: list[str]) -> Candidate | None:
    """A Bazel that Bazelisk downloads, if it can."""
    why = bazelisk.unreachable()
    if why:
        tried.append(f"Bazelisk: its download host is out of reach ({why})")
        return None
    try:
        program = bazelisk.provide_bazelisk(request.layout)
    except BootstrapError as error:
        tried.append(f"Bazelisk: {error.reason}")
        return None
    version, reason = examine(str(program), directory)
    if reason:
        tried.append(f"Bazelisk: {program} {reason}")
        return None
    return Candidate(program, version)


def _nothing_works(tried: list[str], last: BootstrapError) -> BootstrapError:
    tried.append(f"Bazel from Debian packages: {last.reason}")
    listing = "\n".join(
        f"  {number}. " + reason.replace("\n", "\n     ") for number, reason in enumerate(tried, 1)
    )
    minimum = format_version(MINIMUM)
    install = f"Install Bazel {minimum} or newer, or Bazelisk, and put it on PATH, or set BAZEL."
    others = [remedy for remedy in last.remedies if "BAZEL to it" not in remedy]
    return BootstrapError(
        f"no Bazel {minimum} or newer can be had here. Tried, in this order:\n{listing}",
        [install, *others],
    )


def resolve(request: Request) -> Decision:
    """Decides which Bazel to start and with which options.

    Raises:
        BootstrapError: there is none to be had; the message lists what was tried.
    """
    directory = request.workspace or Path.cwd()
    tried: list[str] = []
    candidate = _on_the_machine(request, directory, tried)
    if candidate is None and not is_complete(request.layout.bazel):
        candidate = _from_bazelisk(request, directory, tried)
        if candidate is None:
            progress("no usable Bazel found:\n  - " + "\n  - ".join(tried))
    if candidate is not None:
        return _decide_foreign(request, candidate)
    try:
        prefix = ensure_bazel(request.layout)
    except BootstrapError as error:
        raise _nothing_works(tried, error) from error
    return _decide_assembled(request, prefix)


def _decide_assembled(request: Request, prefix: Path) -> Decision:
    label = assembled_version(prefix)
    decision = Decision(prefix / CLIENT, startup_options(prefix), version=label)
    if request.workspace is not None:
        tools_file = prefix / INSTALL_BASE / BAZEL_TOOLS
        tools = parse_module_file(tools_file.read_text(encoding="utf-8"))
        version = parse_version(label) or MINIMUM
        _tell_other_version(request.workspace, version)
        take_from_debian(request, decision, request.workspace, (prefix, tools, version))
    return decision


def _decide_foreign(request: Request, candidate: Candidate) -> Decision:
    decision = Decision(candidate.program, unchanged=[candidate.program])
    if request.workspace is None:
        return decision
    choice = os.environ.get(MODULES_VARIABLE, "auto")
    if choice not in ("auto", "registry", "debian"):
        raise BootstrapError(
            f"{MODULES_VARIABLE} is {choice!r}, wanted auto, registry or debian",
            [f"Unset {MODULES_VARIABLE}: auto takes Debian's modules where no registry answers."],
        )
    if choice == "registry" or (choice == "auto" and registry_answers(request, decision)):
        return decision
    try:
        prefix = ensure_modules(request.layout)
    except BootstrapError as error:
        warn(f"no module registry answers, and Debian's modules cannot be had: {error.reason}")
        return decision
    tools = bazel_tools(candidate, request.layout)
    version = candidate.version or MINIMUM
    take_from_debian(request, decision, request.workspace, (prefix, tools, version))
    return decision


def _tell_other_version(workspace: Path, version: Version) -> None:
    try:
        wanted = parse_version((workspace / ".bazelversion").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if wanted is not None and wanted != version:
        warn(
            f"{workspace}/.bazelversion asks for Bazel {format_version(wanted)}, which cannot be "
            f"had here; using the assembled {format_version(version)}"
        )
