"""Exports of a Python package, read from its source: nothing is imported."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Exported:
    """A public function, class or module.

    Attributes:
        name: what it is imported as.
        signature: "def groups_fit(module, name)", or "class Method".
        doc: its docstring; empty: it has none.
        members: of a class: public methods and properties; of a module: public functions.
    """

    name: str
    signature: str
    doc: str
    members: list[Exported] = field(default_factory=list)


class Package:
    """A package's public part: what `__all__` of its `__init__.py` lists.

    Args:
        title: heading of the page.
        folder: the package's.
    """

    def __init__(self, title: str, folder: Path) -> None:
        self.title = title
        self.name = folder.name
        tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
        self.doc = ast.get_docstring(tree) or ""
        self.exported = [_find(folder, tree, name) for name in _listed(tree)]

    def undocumented(self) -> list[str]:
        """Lists what has no docstring: "etbuild.ModelContext.file"."""
        missing = [] if self.doc else [self.name]
        for entity in self.exported:
            pairs = [(entity.name, entity.doc)]
            pairs += [(f"{entity.name}.{member.name}", member.doc) for member in entity.members]
            missing += [f"{self.name}.{name}" for name, doc in pairs if not doc]
        return missing


def _listed(tree: ast.Module) -> list[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return sorted(ast.literal_eval(statement.value))
    raise ValueError("the package has no __all__")


def _find(folder: Path, tree: ast.Module, name: str) -> Exported:
    """A definition that __init__.py imports from a module of the package, or such a module.

    A module stands in `__all__` without an import, where that would import torch.
    """
    imports = [statement for statement in tree.body if isinstance(statement, ast.ImportFrom)]
    for statement in imports:
        if name not in [alias.name for alias in statement.names]:
            continue
        if statement.module:
            file = folder.joinpath(*statement.module.split(".")[1:]).with_suffix(".py")
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if getattr(node, "name", None) == name:
                    return _describe(node)
    file = folder / f"{name}.py"
    if file.exists():
        module = ast.parse(file.read_text(encoding="utf-8"))
        doc = inspect.cleandoc(ast.get_docstring(module) or "")
        return Exported(name, f"module {folder.name}.{name}", doc, list(_members(module)))
    raise ValueError(f"{folder.name}.{name} is defined nowhere in the package")


def _describe(node: ast.AST) -> Exported:
    doc = inspect.cleandoc(ast.get_docstring(node) or "")
    if isinstance(node, ast.FunctionDef):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return Exported(node.name, f"def {node.name}({ast.unparse(node.args)}){returns}", doc)
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    signature = f"class {node.name}({bases})" if bases else f"class {node.name}"
    return Exported(node.name, signature, doc, list(_members(node)))


def _members(node: ast.ClassDef | ast.Module) -> Iterator[Exported]:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and not statement.name.startswith("_"):
            yield _describe(statement)
