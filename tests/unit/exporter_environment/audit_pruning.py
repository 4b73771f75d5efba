"""Tells which modules that stay import a module that prune.toml leaves out.

For a person who changed prune.toml or a lock, on packages of `pip install --no-deps --target`:

    python3.11 tests/unit/exporter_environment/audit_pruning.py FOLDER

An import inside a function may never run; one at the top of a module breaks that module.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parents[3] / "toolchains/exporter"))

from install import prune  # noqa: E402  (needs the path set above)
from install.locks import canonical  # noqa: E402


def module_name(path: str) -> str:
    """The module that a path below site-packages is; an empty string for other files."""
    if path.endswith(".py"):
        return path[:-3].replace("/", ".").removesuffix(".__init__")
    return path.split(".")[0].replace("/", ".") if path.endswith((".so", ".dylib")) else ""


def imports(source: bytes, path: str) -> Iterator[tuple[str, int, bool]]:
    """The modules that a source may import: name, line, whether outside of any function."""
    package = path[:-3].split("/")[:-1]
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
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        pending += [(child, top and not inside) for child in ast.iter_child_nodes(node)]


def audit(folder: Path, pruning: prune.Pruning) -> list[tuple[str, int, str, bool]]:
    """Imports of what the rules leave out: path, line, module, whether outside of any function."""
    kept, removed = {}, set()
    for distribution in metadata.distributions(path=[str(folder)]):
        for file in distribution.files or ():
            if pruning.keeps(str(file), canonical(distribution.name)):
                kept[str(file)] = module_name(str(file))
            else:
                removed.add(module_name(str(file)))
    removed -= {"", *kept.values()}
    return sorted(
        (path, line, module, top)
        for path in kept
        if path.endswith(".py") and (folder / path).is_file()
        for module, line, top in imports((folder / path).read_bytes(), path)
        if module in removed
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for path, line, module, top in audit(Path(sys.argv[1]), prune.load("site-packages")):
        print(f"{path}:{line}: {'at the top' if top else 'in a function'}: {module}")
