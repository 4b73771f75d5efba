"""The command `audit`: which modules that stay import a module that prune.toml leaves out.

To be run after a change of prune.toml or of a lock, on wheels fetched with `pip download`. An
import inside a function may never run; one at the top of a module breaks that module.
"""

from __future__ import annotations

import argparse
import ast
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import archives, prune
from .locks import canonical


@dataclass(frozen=True, order=True)
class Finding:
    """An import of something left out."""

    path: str
    line: int
    module: str
    at_top: bool


def module_name(path: str) -> str:
    """The module that a path below site-packages is; an empty string for other files."""
    if path.endswith(".py"):
        return path[:-3].replace("/", ".").removesuffix(".__init__")
    if path.endswith((".so", ".dylib")):
        return path.split(".")[0].replace("/", ".")
    return ""


def imports(source: bytes, path: str) -> Iterator[tuple[str, int, bool]]:
    """The modules that a source may import: name, line, whether outside of any function."""
    package = path[:-3].split("/")[:-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, top = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield stem, node.lineno, top
            yield from ((f"{stem}.{alias.name}", node.lineno, top) for alias in node.names)
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        pending += [(child, top and not inside) for child in ast.iter_child_nodes(node)]


def audit(wheels: list[Path], pruning: prune.Pruning) -> list[Finding]:
    """Looks through wheels for imports of what the rules leave out."""
    kept: dict[str, bytes] = {}
    there: set[str] = set()
    gone: set[str] = set()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archives.contents(wheel).files:
                stays = pruning.keeps(member.path, canonical(wheel.name.split("-")[0]))
                (there if stays else gone).add(module_name(member.path))
                if stays and member.path.endswith(".py"):
                    kept[member.path] = archive.read(member.name)
    gone -= there | {""}
    return sorted(
        Finding(path, line, module, top)
        for path, source in kept.items()
        for module, line, top in imports(source, path)
        if module in gone
    )


def main(arguments: list[str]) -> int:
    """Runs the command; exit code 0 also with findings: they are for a person to judge."""
    parser = argparse.ArgumentParser(
        prog="install audit", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("wheels", type=Path, help="a folder of wheels")
    parser.add_argument("--prune", type=Path, default=prune.DEFAULT, help="the rules")
    options = parser.parse_args(arguments)
    pruning = prune.load("site-packages", options.prune)
    for finding in audit(sorted(options.wheels.glob("*.whl")), pruning):
        kind = "at the top" if finding.at_top else "in a function"
        print(f"{finding.path}:{finding.line}: {kind}: {finding.module}")
    for reason, count in pruning.hits.most_common():
        print(f"{count:6} files: {reason}")
    return 0
