"""Decides which modules of a workspace come from Debian, and writes some that Debian lacks.

Bazel accepts `--override_module` only for modules that are in the dependency graph, so this walks
the graph as Bazel does: from the root with its dev dependencies and from Bazel's own tools, through
every module whose files are on disk. Modules that only Bazel's own tools name, and nobody loads,
may be empty.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bootstrap.cache import write_file
from bootstrap.rcfile import UserOptions

# Overrides that take a module from something other than a registry.
_NON_REGISTRY_OVERRIDES = ("archive_override", "git_override", "local_path_override")


@dataclass
class ModuleFile:
    """The part of a MODULE.bazel file, and of its includes, that matters here."""

    name: str = ""
    dependencies: dict[str, bool] = field(default_factory=dict)  # Name to whether it is for dev.
    local_paths: dict[str, str] = field(default_factory=dict)  # From `local_path_override`.
    overridden: set[str] = field(default_factory=set)  # Modules that come from no registry.
    includes: list[str] = field(default_factory=list)  # Labels.
    files: list[Path] = field(default_factory=list)  # Those read, also if they do not exist.

    def parse(self, text: str) -> ModuleFile:
        """Takes in Starlark, here a subset of Python; leaves syntax errors to Bazel to report."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return self
        constants: dict[str, object] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                constants.update(dict.fromkeys(names, node.value.value))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                arguments = {word.arg: _value(word.value, constants) for word in node.keywords}
                arguments["label"] = _value(node.args[0], constants) if node.args else None
                self._note(node.func.id, arguments)
        return self

    def _note(self, function: str, arguments: Mapping[str | None, object]) -> None:
        name = arguments.get("module_name" if function in _NON_REGISTRY_OVERRIDES else "name")
        if function == "include":
            self.includes.append(str(arguments["label"]))
        elif not isinstance(name, str):
            return
        elif function == "module":
            self.name = name
        elif function == "bazel_dep" and arguments.get("repo_name", "") is not None:
            # With repo_name = None it only counts if another module depends on it, too.
            self.dependencies[name] = arguments.get("dev_dependency") is True
        elif function in _NON_REGISTRY_OVERRIDES:
            self.overridden.add(name)
            if function == "local_path_override":
                self.local_paths[name] = str(arguments.get("path"))

    def names(self, *, dev: bool = False) -> list[str]:
        """The modules that this one depends on."""
        return [name for name, only_dev in self.dependencies.items() if dev or not only_dev]


def _value(node: ast.expr, constants: Mapping[str, object]) -> object:
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    return node.value if isinstance(node, ast.Constant) else None


def read_module(directory: Path) -> ModuleFile:
    """Reads a module's MODULE.bazel, if there is one, and what it includes."""
    result = ModuleFile(includes=["//:MODULE.bazel"])
    for label in result.includes:  # It grows on the way.
        package, _, name = re.sub(r"^@*//", "", label).partition(":")
        path = directory / package / (name or Path(package).name)
        if path not in result.files:
            result.files.append(path)
            with contextlib.suppress(OSError):
                result.parse(path.read_text(encoding="utf-8", errors="replace"))
    return result


def packaged_modules(prefix: Path) -> dict[str, Path]:
    """Debian's modules in a directory of unpacked packages: name to directory."""
    files = sorted(prefix.glob("usr/share/bazel/*/*/MODULE.bazel"))
    modules = {read_module(file.parent).name: file.parent for file in reversed(files)}
    return {name: path for name, path in modules.items() if name not in ("", "bazel_tools")}


@dataclass
class Plan:
    """The origins of a workspace's modules."""

    packaged: dict[str, Path] = field(default_factory=dict)  # Name to Debian's copy.
    stubs: set[str] = field(default_factory=set)  # Bazel's own tools name them, Debian lacks them.
    emptied: set[str] = field(default_factory=set)  # Those that the workspace names as well.
    unavailable: set[str] = field(default_factory=set)  # Only the workspace names them.
    inputs: list[Path] = field(default_factory=list)  # The files that this depends on.


def make_plan(
    bazel_tools: ModuleFile,
    packaged: Mapping[str, Path],
    options: UserOptions,
    known: Mapping[str, Path],
) -> Plan:
    """Walks the dependency graph of a workspace and of Bazel's own tools.

    `packaged` are Debian's modules; `known` is where to read those that the root downloads.
    """
    plan = Plan()
    workspace = options.workspace
    root = read_module(workspace)
    plan.inputs += root.files
    local = dict(known)
    elsewhere = {root.name, *options.overrides}
    if not options.ignore_dev:  # Bazel then ignores the root's overrides as well.
        local.update((name, workspace / path) for name, path in root.local_paths.items())
        elsewhere |= root.overridden
    local.update(options.overrides)

    # Bazel's own part first: what only it names is then known when the user's part is walked.
    pending = [(name, False) for name in bazel_tools.names()]
    pending += [(name, True) for name in root.names(dev=not options.ignore_dev)]
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
                module = read_module(local[name])
                plan.inputs += module.files
                pending += [(dependency, True) for dependency in module.names()]
        elif name in packaged:
            plan.packaged[name] = packaged[name]
            # Debian's modules are walked at once: they are not what the user names.
            module = read_module(packaged[name])
            pending[:0] = [(dependency, False) for dependency in module.names()]
        elif by_user:
            plan.unavailable.add(name)
        else:
            plan.stubs.add(name)
    return plan


_MODULE = '"""Empty: {name} is not packaged here."""\n\nmodule(name = "{name}")\n'

# bazel_tools uses this extension, and `bazel mod` evaluates it.
_BUILDOZER = '''"""Replaces buildozer, which only `bazel mod tidy` runs."""

_SCRIPT = """#!/bin/sh
echo "buildozer: not packaged by Debian, so 'bazel mod tidy' does not work." >&2
exit 1
"""

def _repository(ctx):
    ctx.file("BUILD.bazel", "")
    ctx.file("buildozer.exe", _SCRIPT, executable = True)

_buildozer = repository_rule(implementation = _repository)
buildozer_binary = module_extension(lambda _: _buildozer(name = "buildozer_binary"))
'''

COVERAGE_TOOLS = "remote_coverage_tools"

# Bazel downloads a Java program for this. LCOV records may follow each other in a file, so joining
# the tests' records is enough; gcov's data, which it would convert, is left out.
_COVERAGE_SCRIPT = """#!/bin/sh
set -eu
for argument in "$@"; do
  case $argument in
    --coverage_dir=*) directory=${argument#*=} ;;
    --reports_file=*) reports=${argument#*=} ;;
    --output_file=*) output=${argument#*=} ;;
  esac
done
if [ -n "${reports:-}" ]; then
  while IFS= read -r report; do [ ! -s "$report" ] || cat "$report"; done <"$reports" >"$output"
else
  find "$directory/" -name '*.dat' -type f -exec cat {} + >"$output"
fi
"""

_COVERAGE_PACKAGE = """[
    genrule(
        name = name,
        srcs = ["merge.sh"],
        outs = [name + ".sh"],
        cmd = "cp $< $@",
        executable = True,
        visibility = ["//visibility:public"],
    )
    for name in ("lcov_merger", "coverage_report_generator")
]
"""


def provide_stub(directory: Path, name: str) -> Path:
    """Writes a replacement into a directory, except files that are there already."""
    files = {"BUILD.bazel": "", "MODULE.bazel": _MODULE.format(name=name)}
    if name == "buildozer":
        files["buildozer_binary.bzl"] = _BUILDOZER
    if name == COVERAGE_TOOLS:
        files.update({"BUILD.bazel": _COVERAGE_PACKAGE, "merge.sh": _COVERAGE_SCRIPT})
    for file, content in files.items():
        path = directory / name / file
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            write_file(path, content, executable=content.startswith("#!"))
    return directory / name
