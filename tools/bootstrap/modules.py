"""Decides which modules to take from Debian.

Bazel accepts `--override_module` only for modules that are in the dependency graph, so this walks
the graph as Bazel would: from the root with its dev dependencies and from Bazel's own tools,
through everything that is on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bootstrap.bazelrc import UserOptions
from bootstrap.modulefile import ModuleFile, parse_module_file, read_module


@dataclass
class Plan:
    """Where the modules of a workspace come from.

    Attributes:
        packaged: module name to the directory of Debian's copy.
        stubs: modules that only Bazel's own tools name and Debian lacks.
        unavailable: modules that the workspace names and nothing on this machine provides.
        emptied: those of the stubs that the workspace names itself.
        inputs: the files that this depends on.
    """

    packaged: dict[str, Path] = field(default_factory=dict)
    stubs: set[str] = field(default_factory=set)
    unavailable: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)
    inputs: list[Path] = field(default_factory=list)


def packaged_modules(prefix: Path) -> dict[str, Path]:
    """Debian's modules below an unpacked prefix, by name."""
    found: dict[str, Path] = {}
    for file in sorted(prefix.glob("usr/share/bazel/*/*/MODULE.bazel")):
        name = parse_module_file(file.read_text(encoding="utf-8", errors="replace")).name
        if name and name != "bazel_tools":
            found.setdefault(name, file.parent)
    return found


def make_plan(
    workspace: Path,
    bazel_tools: ModuleFile,
    packaged: Mapping[str, Path],
    options: UserOptions,
    known: Mapping[str, Path],
) -> Plan:
    """Walks the dependency graph.

    Args:
        workspace: the root module's directory.
        bazel_tools: what Bazel's own module file says.
        packaged: Debian's modules.
        options: what the user's rc files and command line say.
        known: where to read modules that the root fetches from elsewhere.
    """
    plan = Plan()
    root = read_module(workspace, plan.inputs)
    local = dict(known)
    elsewhere = {root.name, *options.overrides}
    if not options.ignore_dev:  # Bazel then ignores the root's overrides as well.
        local.update((name, workspace / path) for name, path in root.local_paths.items())
        elsewhere |= root.overridden
    local.update(options.overrides)

    # Bazel's own part first, so that what only it names is known when the user's part is walked.
    pending = [(name, False) for name in _names(bazel_tools, root=False)]
    pending += [(name, True) for name in _names(root, root=not options.ignore_dev)]
    seen: set[str] = set()
    while pending:
        name, by_user = pending.pop(0)
        if name in plan.stubs and by_user:
            plan.emptied.add(name)
        if name in seen:
            continue
        seen.add(name)
        if name in elsewhere:
            if name in local:
                module = read_module(local[name], plan.inputs)
                pending += [(dependency, True) for dependency in _names(module, root=False)]
        elif name in packaged:
            plan.packaged[name] = packaged[name]
            module = read_module(packaged[name], [])
            # Debian's modules are walked at once: they are not what the user names.
            pending[:0] = [(dependency, False) for dependency in _names(module, root=False)]
        elif by_user:
            plan.unavailable.add(name)
        else:
            plan.stubs.add(name)
    return plan


def _names(module: ModuleFile, root: bool) -> Iterable[str]:
    return [item.name for item in module.dependencies if root or not item.dev]
