"""Reads what a MODULE.bazel file says about other modules."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

# Overrides that take a module from somewhere other than a registry.
_NON_REGISTRY_OVERRIDES = frozenset(("archive_override", "git_override", "local_path_override"))


@dataclass(frozen=True)
class Dependency:
    """A `bazel_dep`.

    Attributes:
        name: the module.
        dev: whether it counts only when its file's module is the root.
    """

    name: str
    dev: bool = False


@dataclass
class ModuleFile:
    """What matters here of a MODULE.bazel file.

    Attributes:
        name: the module's own name, or "".
        dependencies: its `bazel_dep`s.
        local_paths: module name to path, from `local_path_override`.
        overridden: modules that come from no registry, however.
        includes: labels of files it includes.
    """

    name: str = ""
    dependencies: list[Dependency] = field(default_factory=list)
    local_paths: dict[str, str] = field(default_factory=dict)
    overridden: set[str] = field(default_factory=set)
    includes: list[str] = field(default_factory=list)

    def add(self, other: ModuleFile) -> None:
        """Takes in an included file."""
        self.dependencies += other.dependencies
        self.local_paths.update(other.local_paths)
        self.overridden |= other.overridden


def _literal(node: ast.expr | None, constants: dict[str, object]) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    return None


def _note_call(call: ast.Call, constants: dict[str, object], result: ModuleFile) -> None:
    function = call.func.id if isinstance(call.func, ast.Name) else ""
    arguments = {word.arg: _literal(word.value, constants) for word in call.keywords}
    first = _literal(call.args[0], constants) if call.args else None
    if function == "module":
        result.name = str(arguments.get("name", first) or "")
    elif function == "bazel_dep":
        name = arguments.get("name", first)
        # With repo_name = None it only matters if another module depends on it, too.
        edge = "repo_name" not in arguments or arguments["repo_name"] is not None
        if isinstance(name, str) and edge:
            result.dependencies.append(Dependency(name, arguments.get("dev_dependency") is True))
    elif function in _NON_REGISTRY_OVERRIDES:
        name = arguments.get("module_name", first)
        if isinstance(name, str):
            result.overridden.add(name)
            path = arguments.get("path")
            if function == "local_path_override" and isinstance(path, str):
                result.local_paths[name] = path
    elif function == "include" and isinstance(first, str):
        result.includes.append(first)


def _constants(tree: ast.Module) -> dict[str, object]:
    known: dict[str, object] = {"True": True, "False": False, "None": None}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    known[target.id] = statement.value.value
    return known


def _parse_roughly(text: str) -> ModuleFile:
    """For a file with a syntax error: Bazel will tell of it, so what looks right is enough."""
    result = ModuleFile()
    for match in re.finditer(r"^bazel_dep\(\s*(?:name\s*=\s*)?\"([\w.-]+)\"(.*)", text, re.M):
        result.dependencies.append(Dependency(match[1], "dev_dependency = True" in match[2]))
    return result


def parse_module_file(text: str) -> ModuleFile:
    """Parses the text of a MODULE.bazel file, whose Starlark is a subset of Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return _parse_roughly(text)
    result = ModuleFile()
    constants = _constants(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            _note_call(node, constants, result)
    return result


def label_to_path(label: str, root: Path) -> Path:
    """The file that a label of the root module names, such as `//bazel:deps.MODULE.bazel`."""
    package, _, name = re.sub(r"^@*//", "", label).partition(":")
    return root / package / name if name else root / package / Path(package).name


def read_module(directory: Path, inputs: list[Path]) -> ModuleFile:
    """Reads a module's MODULE.bazel with all that it includes.

    Args:
        directory: the module's root.
        inputs: every file that was read, or would have been, is appended.

    Returns:
        What they say; nothing for a module without such a file.
    """
    result = ModuleFile()
    pending = [directory / "MODULE.bazel"]
    seen: set[Path] = set()
    while pending:
        path = pending.pop(0)
        if path in seen:
            continue
        seen.add(path)
        inputs.append(path)
        try:
            parsed = parse_module_file(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        result.name = result.name or parsed.name
        result.add(parsed)
        pending += [label_to_path(label, directory) for label in parsed.includes]
    return result
