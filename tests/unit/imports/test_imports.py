"""No circles of imports in tools/: neither of modules nor of packages. Needs no torch.

All imports count, those in functions too: a late import hides a circle and leaves it in the design.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
TOOLS = Path(__file__).absolute().parents[3] / "tools"

Graph = Mapping[str, set[str]]


def modules(root: Path) -> dict[str, Path]:
    """Files by the module's name, of the packages below an import root."""
    files = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Names of the known modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else node.module


def imports(root: Path) -> Graph:
    """The modules that each module imports."""
    known = modules(root)
    return {name: set(imported(path, known)) - {name} for name, path in known.items()}


def packages(graph: Graph) -> Graph:
    """The packages that each top-level package imports."""
    result: dict[str, set[str]] = {}
    for name, others in graph.items():
        package = name.split(".")[0]
        result.setdefault(package, set()).update(other.split(".")[0] for other in others)
        result[package].discard(package)
    return result


def circle(graph: Graph) -> list[str]:
    """The names of one circle, the first one again at its end; empty: there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_modules() -> None:
    assert circle(imports(TOOLS / "dev")) == []
    graph = imports(TOOLS)
    assert len(graph) > 100
    assert "etlower.outputs" in graph["etlower.accuracy"]
    assert circle(graph) == []


def test_packages() -> None:
    graph = packages(imports(TOOLS))
    assert graph["etbuild"] == set()
    assert graph["etlink"] == {"etbuild"}
    assert circle(graph) == []


def reachable(graph: Graph, names: Iterator[str]) -> set[str]:
    """The modules that some modules import, directly or not, and these themselves."""
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += graph[name]
    return reached


def test_a_benchmark_needs_no_other_part_of_et() -> None:
    """rules/private/et_commands.bzl gives it the core and `measure` only."""
    graph = imports(TOOLS)
    parts = ("etcli.__main__", "etcli.measure.")
    reached = reachable(graph, (name for name in graph if name.startswith(parts)))
    others = ("etbundle", "etcli.files", "etcli.reproduce", "etcli.running")
    assert "etlink.process" in reached
    assert not [name for name in reached if name.startswith(others)]


@pytest.mark.parametrize(
    "back", ["from p import a\n", "def f():\n    import p.a\n", "def f():\n    from p.a import g\n"]
)
def test_a_circle_is_named(tmp_path: Path, back: str) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").write_text("")
    (tmp_path / "p" / "a.py").write_text("from p import b\n")
    (tmp_path / "p" / "b.py").write_text(back)
    assert sorted(set(circle(imports(tmp_path)))) == ["p.a", "p.b"]
