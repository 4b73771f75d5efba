"""Decides which Bazel to start and where its modules come from, and writes that down for `bazelw`.

Order: $BAZEL; `bazel`, then `bazelisk` on PATH; Bazelisk, fetched; a Bazel assembled from Debian
packages. A Bazel that cannot reach a module registry, and the assembled one, get Debian's modules
through a generated rc file. The decision file lists everything that it depends on, so that `bazelw`
can check it without starting another process.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from debian.command import ActionableError
from fetch import settings

from bootstrap import assemble, candidates, modules, trust
from bootstrap.cache import Cache, write_file
from bootstrap.candidates import MINIMUM, Candidate, Version, format_version, parse_version
from bootstrap.console import INSTALL_BAZEL, progress, warn
from bootstrap.network import provide_bazelisk, why_no_download, why_unreachable
from bootstrap.rcfile import UserOptions, render

# `bazelw` names it, too.
FORMAT = "bazelw-decision 5"

_MODULES_VARIABLE = "RULES_EXECUTORCH_MODULES"

# The module that bazelw is a part of.
_OWN_MODULE = "rules_executorch"

_DEFAULT_REGISTRY = "https://bcr.bazel.build/"
_REACHABLE_SECONDS = 24 * 3600
_UNREACHABLE_SECONDS = 3600


@dataclass(frozen=True)
class Request:
    """A call of `bazelw`."""

    cache: Cache
    workspace: Path | None
    self_path: Path  # bazelw itself.
    programs: dict[str, str]  # The first `bazel` and `bazelisk` on PATH that is not it, or "".
    options: UserOptions


@dataclass
class Decision:
    """The program to start for one workspace, and for how long that holds."""

    program: Path
    options: list[str] = field(default_factory=list)  # They go before the user's.
    version: str = ""  # Set if bazelw has to answer `--version` for it.
    expires: int = 0  # Seconds since the epoch, or 0 for never.
    needs: list[Path] = field(default_factory=list)  # Must exist.
    unchanged: list[Path] = field(default_factory=list)  # Must not be newer than the decision.
    inputs: list[Path] = field(default_factory=list)  # Must have the same content.

    def text(self, key: str) -> str:
        """The decision file; `bazelw` appends what the inputs contain, to compare it later."""
        lines = [FORMAT, f"key {key}", f"expires {self.expires}", f"exec {self.program}"]
        lines += [f"version {self.version}"] if self.version else []
        lines += [f"option {option}" for option in self.options]
        lines += [f"needs {path}" for path in self.needs]
        lines += [f"unchanged {path}" for path in self.unchanged]
        lines += [f"input {path}" for path in dict.fromkeys(self.inputs)]
        return "\n".join([*lines, "snapshot\n"])


def resolve(request: Request) -> Decision:
    """Decides which Bazel to start and how, or raises ActionableError with what was tried."""
    tried: list[str] = []
    candidate = _find_candidate(request, tried)
    if candidate is not None:
        return _decide_installed(request, candidate)
    try:
        prefix = assemble.ensure_bazel(request.cache)
    except ActionableError as error:
        raise _nothing_works(tried, error) from error
    return _decide_assembled(request, prefix)


def _find_candidate(request: Request, tried: list[str]) -> Candidate | None:
    """A Bazel that need not be assembled; notes why others cannot be used."""
    directory = request.workspace or Path.cwd()
    value = os.environ.get("BAZEL", "")
    if value:
        return candidates.from_environment(value, request.self_path, directory)
    tried.append("BAZEL: not set")
    for name, program in request.programs.items():
        if not program:
            tried.append(f"{name}: not found on PATH")
            continue
        version, reason = candidates.examine(program, directory)
        if not reason:
            return Candidate(Path(program), version)
        tried.append(f"{program}: {reason}")
    if assemble.is_complete(request.cache.bazel):
        return None
    try:
        why = why_no_download()
        if why:
            raise ActionableError(f"its download host is unreachable: {why}")
        bazelisk = provide_bazelisk(request.cache)
        version, reason = candidates.examine(str(bazelisk), directory)
        if not reason:
            return Candidate(bazelisk, version)
        raise ActionableError(f"{bazelisk}: {reason}")
    except ActionableError as error:
        tried.append(f"Bazelisk: {error.reason}")
    progress("no usable Bazel found:\n  - " + "\n  - ".join(tried))
    return None


def _nothing_works(tried: list[str], last: ActionableError) -> ActionableError:
    tried.append(f"Bazel from Debian packages: {last.reason}")
    listing = "\n".join(
        f"  {number}. " + reason.replace("\n", "\n     ") for number, reason in enumerate(tried, 1)
    )
    return ActionableError(
        f"Bazel {format_version(MINIMUM)} or newer: not found. Tried, in this order:\n{listing}",
        list(dict.fromkeys([INSTALL_BAZEL, *last.remedies])),
    )


def _decide_assembled(request: Request, prefix: Path) -> Decision:
    label = assemble.assembled_version(prefix)
    version = parse_version(label) or MINIMUM
    decision = Decision(prefix / assemble.CLIENT, assemble.startup_options(prefix), version=label)
    if certificates := trust.bundle(settings.read()):
        decision.options += trust.provide(request.cache.certificates, certificates)
        decision.unchanged.append(certificates)
    if request.workspace is not None:
        _warn_of_other_version(request.workspace / ".bazelversion", version)
        tools = prefix / assemble.INSTALL_BASE / candidates.EMBEDDED_TOOLS
        _take_from_debian(request, decision, prefix, tools, version)
    return decision


def _warn_of_other_version(file: Path, version: Version) -> None:
    try:
        requested = parse_version(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if requested is not None and requested[:2] != version[:2]:
        warn(
            f"{file}: not available here: got {format_version(requested)}, expected "
            f"{format_version(version)}, which was assembled. That one is used."
        )


def _decide_installed(request: Request, candidate: Candidate) -> Decision:
    decision = Decision(candidate.program, unchanged=[candidate.program])
    tested = parse_version(_tested_version(request.self_path))
    if tested and candidate.version and candidate.version[0] > tested[0]:
        warn(
            f"{candidate.program}: not tested with Bazel {candidate.version[0]}: got "
            f"{format_version(candidate.version)}, expected {format_version(tested)}. Bazelisk "
            "takes the version in .bazelversion or USE_BAZEL_VERSION."
        )
    if request.workspace is None:
        return decision
    choice = os.environ.get(_MODULES_VARIABLE, "auto")
    if choice not in ("auto", "registry", "debian"):
        reason = f"unknown value: got {choice!r}, expected auto, registry or debian"
        raise ActionableError(f"{_MODULES_VARIABLE}: {reason}", [f"Unset {_MODULES_VARIABLE}."])
    if choice == "registry" or (choice == "auto" and _registry_answers(request, decision)):
        return decision
    try:
        prefix = assemble.ensure_modules(request.cache)
        tools = candidates.tools_module(candidate, request.cache)
    except (ActionableError, OSError) as error:
        warn(f"no module registry answers, and Debian's modules are not available: {error}")
        return decision
    _take_from_debian(request, decision, prefix, tools, candidate.version or MINIMUM)
    return decision


def _tested_version(self_path: Path) -> str:
    """The version in .bazelversion beside bazelw."""
    try:
        return (self_path.resolve().parent / ".bazelversion").read_text(encoding="utf-8")
    except OSError:
        return ""


def _registry_answers(request: Request, decision: Decision) -> bool:
    """Tells whether a module registry can be reached; limits how long the decision holds."""
    decision.inputs += request.options.inputs
    registries = request.options.registries or [_DEFAULT_REGISTRY]
    urls = [f"{registry.rstrip('/')}/bazel_registry.json" for registry in registries]
    answers = any(not why_unreachable(url) for url in urls)
    decision.expires = int(time.time()) + (_REACHABLE_SECONDS if answers else _UNREACHABLE_SECONDS)
    return answers


def _take_from_debian(
    request: Request, decision: Decision, prefix: Path, tools: Path, version: Version
) -> None:
    """Adds the rc file that has Bazel take its modules from Debian's packages in `prefix`."""
    cache, options = request.cache, request.options
    own_module = {_OWN_MODULE: request.self_path.resolve().parent}
    bazel_tools, packaged = modules.read_module(tools), modules.packaged_modules(prefix)
    plan = modules.make_plan(bazel_tools, packaged, options, own_module)
    _warn_of_missing(plan, options)
    overrides = dict(plan.packaged)
    for name in sorted(plan.stubs):
        overrides[name] = modules.provide_stub(cache.stubs, name)
    # The sandbox gives each action a /tmp of its own.
    roots = dict.fromkeys((cache.root, cache.root.resolve()))
    hidden = [path for path in roots if path.is_relative_to("/tmp") and path.is_dir()]
    coverage_tools = modules.provide_stub(cache.stubs, modules.COVERAGE_TOOLS)
    text = render(version, overrides, coverage_tools, hidden)
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    rc_file = cache.rc_files / f"{digest}.bazelrc"
    if not rc_file.exists():
        write_file(rc_file, text)
    decision.options.append(f"--bazelrc={rc_file}")
    decision.needs += [rc_file, *(path / "MODULE.bazel" for path in overrides.values())]
    decision.inputs += [*options.inputs, *plan.inputs]


def _warn_of_missing(plan: modules.Plan, options: UserOptions) -> None:
    file = options.workspace / "MODULE.bazel"
    if plan.unavailable and not options.registries:
        warn(
            f"{file}: not packaged by Debian: got {', '.join(sorted(plan.unavailable))}. If no "
            "module registry is reachable, add a local_path_override, or remove the dependency."
        )
    if plan.emptied:
        warn(
            f"{file}: not packaged by Debian: got {', '.join(sorted(plan.emptied))}, which is an "
            "empty module here. Loading anything from it fails."
        )
