"""Needs of a program: operators, backends, and kinds of the schema.

One list and one check serve apps (`fit.py`) and older versions of ExecuTorch (`older_fit.py`).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from etlink import pte, tables

from etbundle.inventory import KINDS, Inventory
from etbundle.library import Library


@dataclass(frozen=True)
class Need:
    """One thing that a program needs.

    Attributes:
        program: label.
        kind: "operator" or "backend", or a key of KINDS.
        name: the name ("aten::add.out"), or the number in the schema, as text.
        method: that needs it; empty: no one method.
    """

    program: str
    kind: str
    name: str
    method: str = ""

    def is_met_by(self, runtime: Library | Inventory) -> bool:
        """Returns whether a library or a version of ExecuTorch has it."""
        if self.kind in KINDS:
            return isinstance(runtime, Inventory) and self.name in runtime.schema[self.kind]
        names: Set[str] | tuple[str, ...]
        names = runtime.backends if self.kind == "backend" else runtime.operators
        return self.name in names

    def __str__(self) -> str:
        """For messages, those of operators and backends."""
        verb = "delegates to" if self.kind == "backend" else "calls"
        return f'{self.program} {verb} the {self.kind} "{self.name}" in its method "{self.method}"'


@dataclass(frozen=True)
class Use:
    """The needs of one method of a program.

    Attributes:
        program: label.
        method: name.
        operators: names with overloads ("aten::add.out").
        backends: names of backends that it delegates to.
    """

    program: str
    method: str
    operators: tuple[str, ...]
    backends: tuple[str, ...]

    def needs(self) -> list[Need]:
        """Lists its needs, backends first."""
        return [
            Need(self.program, kind, name, self.method)
            for kind, names in (("backend", self.backends), ("operator", self.operators))
            for name in names
        ]


def uses_of(label: str, path: Path) -> list[Use]:
    """Lists what the methods of a .pte file need.

    Raises:
        BuildError: it is not a program, or damaged.
    """
    methods = tables.describe_methods(pte.read(path).program)
    return [Use(label, m["name"], tuple(m["operators"]), tuple(m["backends"])) for m in methods]
