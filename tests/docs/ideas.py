"""The number of ideas that a newcomer meets, counted from sources: `test_ideas.py` has the bars.

A rule, a format or a package that is added needs another one to go, or a reason in a review to
raise its bar.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Of the packages below tools, from the bottom to the top: each may import those before it.
ORDER = (
    *("etbuild", "etlink", "runner", "etlower", "etfast", "etllm", "ettune", "etbundle"),
    "etcli",
)
# What a newcomer ignores: packages, and folders of packages.
WALLED = ("etbundle.mobile", "etfast", "etllm", "ettune")
FORMATS = "docs/reference/formats.md"

_RULE = re.compile(r"^(\w+) = repository_rule\(", re.MULTILINE)
_PATH = re.compile(r"`([\w.]+(?:/[\w.]+)+)`")
_MNEMONIC = re.compile(r'\bmnemonic = "(\w+)"')


def core_symbols(root: Path) -> list[str]:
    """Names that rules/defs.bzl exports."""
    tree = ast.parse((root / "rules/defs.bzl").read_text(encoding="utf-8"))
    return sorted(
        ast.unparse(statement.targets[0])
        for statement in tree.body
        if isinstance(statement, ast.Assign)
    )


def repository_rules(root: Path) -> list[str]:
    """Repository rules of the product, each as file and name."""
    return _matches(root, _RULE)


def mnemonics(root: Path) -> list[str]:
    """Kinds of the product's actions."""
    return sorted({match.partition(": ")[2] for match in _matches(root, _MNEMONIC)})


def json_formats(root: Path) -> list[str]:
    """Formats of JSON files, each with its writer and reader on the page of formats."""
    return sorted(row[0] for row in _formats(root))


def lost_sources(root: Path) -> list[str]:
    """Writers and readers on the page of formats that are not there, below tools or as written."""
    paths = [path for row in _formats(root) for c in row[2:] for path in _PATH.findall(c)]
    return [
        path for path in paths if not ((root / "tools" / path).exists() or (root / path).exists())
    ]


def tool_packages(root: Path) -> list[str]:
    """Folders of tools/ with sources."""
    suffixes = (".py", ".cc")
    folders = (folder for folder in (root / "tools").iterdir() if folder.is_dir())
    return sorted(f.name for f in folders if any(p.suffix in suffixes for p in f.rglob("*")))


def arrows_up(root: Path) -> list[str]:
    """Imports of a package that is above the importing one, or that `ORDER` does not have."""
    return [
        f"{path}: {module}"
        for path, package, module in _imports(root)
        if module.split(".")[0] not in ORDER[: ORDER.index(package) + 1]
    ]


def over_walls(root: Path) -> list[str]:
    """Imports of walled packages by those of the core; `et`, on top, has commands for all."""
    return [
        f"{path}: {module}"
        for path, package, module in _imports(root)
        if _wall(module) and not _wall(_module(path)) and package != "etcli"
    ]


def _formats(root: Path) -> list[list[str]]:
    """The rows of the page's first table: format, file, writer, reader."""
    page = (root / FORMATS).read_text(encoding="utf-8")
    rows = ("|" + page.partition("\n|")[2].partition("\n\n")[0]).splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def _matches(root: Path, pattern: re.Pattern[str]) -> list[str]:
    return sorted(
        f"{path.relative_to(root)}: {name}"
        for folder in ("backends", "rules", "toolchains")
        for path in (root / folder).rglob("*.bzl")
        for name in pattern.findall(path.read_text(encoding="utf-8"))
    )


def _module(path: str) -> str:
    return path.removeprefix("tools/").removesuffix(".py").replace("/", ".")


def _wall(module: str) -> str | None:
    return next((w for w in WALLED if module == w or module.startswith(w + ".")), None)


def _imports(root: Path) -> Iterator[tuple[str, str, str]]:
    """Imports of packages below tools, as file, its package, and module: in functions, too."""
    packages = {path.parent.name for path in (root / "tools").glob("*/__init__.py")} | set(ORDER)
    for package in sorted(packages & set(ORDER)):
        for path in sorted((root / "tools" / package).rglob("*.py")):
            for module in _imported(ast.parse(path.read_text(encoding="utf-8"))):
                if module.split(".")[0] in packages:
                    yield str(path.relative_to(root)), package, module


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
