"""Where a Bazel gets its modules from: a registry, or Debian's copies through an rc file."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from bootstrap import bazelrc
from bootstrap.console import warn
from bootstrap.decision import Decision
from bootstrap.layout import Layout
from bootstrap.locks import write_file
from bootstrap.modulefile import ModuleFile
from bootstrap.modules import Plan, make_plan, packaged_modules
from bootstrap.network import why_unreachable
from bootstrap.request import Request
from bootstrap.stubs import COVERAGE_TOOLS, provide_stub
from bootstrap.versions import Version

# The module that bazelw is a part of.
OWN_MODULE = "rules_executorch"

_DEFAULT_REGISTRY = "https://bcr.bazel.build/"
_REACHABLE_SECONDS = 24 * 3600
_UNREACHABLE_SECONDS = 3600


def registry_answers(request: Request, decision: Decision) -> bool:
    """Whether a module registry can be reached; limits how long the decision holds."""
    options = _user_options(request)
    decision.inputs += options.inputs
    registries = options.registries or [_DEFAULT_REGISTRY]
    answers = any(
        not why_unreachable(url.rstrip("/") + "/bazel_registry.json") for url in registries
    )
    decision.expires = int(time.time()) + (_REACHABLE_SECONDS if answers else _UNREACHABLE_SECONDS)
    return answers


def _user_options(request: Request) -> bazelrc.UserOptions:
    home = os.environ.get("HOME", "")
    workspace = request.workspace or Path.cwd()
    return bazelrc.read_user_options(workspace, Path(home) if home else None, request.arguments)


def take_from_debian(
    request: Request,
    decision: Decision,
    workspace: Path,
    bazel: tuple[Path, ModuleFile, Version],
) -> None:
    """Adds the rc file that has Bazel take its modules from Debian's.

    Args:
        request: what bazelw was called with.
        decision: it gets the rc file.
        workspace: the root module.
        bazel: where Debian's modules lie, what bazel_tools depends on, Bazel's version.
    """
    prefix, tools, version = bazel
    options = _user_options(request)
    own_repository = {OWN_MODULE: request.self_path.resolve().parent}
    plan = make_plan(workspace, tools, packaged_modules(prefix), options, own_repository)
    if not options.registries:
        _tell_unavailable(plan, workspace)
    _tell_emptied(plan, workspace)
    overrides = dict(plan.packaged)
    for name in plan.stubs:
        overrides[name] = provide_stub(request.layout.stubs, name)
    hidden = [path for path in _hidden(request.layout) if path.is_dir()]
    coverage_tools = provide_stub(request.layout.stubs, COVERAGE_TOOLS)
    text = bazelrc.render(version, overrides.items(), coverage_tools, hidden)
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    rc_file = request.layout.rc_files / f"{digest}.bazelrc"
    if not rc_file.exists():
        write_file(rc_file, text)
    decision.options.append(f"--bazelrc={rc_file}")
    decision.needs += [rc_file, *(path / "MODULE.bazel" for path in overrides.values())]
    decision.inputs += [*options.inputs, *plan.inputs]


def _hidden(layout: Layout) -> list[Path]:
    """Our directory, if the sandbox hides it: it gives each action a /tmp of its own."""
    paths = dict.fromkeys((layout.root, layout.root.resolve()))
    return [path for path in paths if path.is_relative_to("/tmp")]


def _tell_unavailable(plan: Plan, workspace: Path) -> None:
    if plan.unavailable:
        names = ", ".join(sorted(plan.unavailable))
        warn(
            f"{workspace}/MODULE.bazel needs {names}, which Debian does not package, and here no "
            "module registry is used.\nBazel will ask its registries for it. If they are out of "
            "reach, give it a local_path_override, or make it a dependency nobody needs here."
        )


def _tell_emptied(plan: Plan, workspace: Path) -> None:
    if plan.emptied:
        names = ", ".join(sorted(plan.emptied))
        warn(
            f"{workspace}/MODULE.bazel names {names}, which Debian does not package: it is an "
            "empty module here, and loading anything from it fails."
        )
