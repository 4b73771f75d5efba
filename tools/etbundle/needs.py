"""Needs of a program: operators, backends, what payloads call, and kinds of the schema.

One list and one check serve apps (`fit.py`) and older versions of ExecuTorch (`older_fit.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from etbuild.errors import listed
from etlink import payload_operators, pte, tables

from etbundle.inventory import KINDS, Inventory
from etbundle.library import Library


@dataclass(frozen=True)
class Need:
    """One thing that a program needs.

    Attributes:
        program: label.
        kind: "operator", "backend" or "payload_operator", or a key of KINDS.
        name: the name ("aten::add.out"), or the number in the schema, as text.
        method: that needs it; empty: no one method.
        backend: of a payload's operator.
        layers: of the model, that a payload's operator comes from; empty: unknown.
    """

    program: str
    kind: str
    name: str
    method: str = ""
    backend: str = ""
    layers: tuple[str, ...] = ()

    def is_met_by(self, runtime: Library | Inventory) -> bool:
        """Returns whether a library or a version of ExecuTorch has it."""
        if self.kind in KINDS:
            return isinstance(runtime, Inventory) and self.name in runtime.schema[self.kind]
        if self.kind == "payload_operator":
            return isinstance(runtime, Inventory) or runtime.may_run(self.backend, self.name)
        names: Set[str] | tuple[str, ...]
        names = runtime.backends if self.kind == "backend" else runtime.operators
        return self.name in names

    def __str__(self) -> str:
        """For messages, those of operators and backends."""
        if self.kind == "payload_operator":
            layers = f", in {listed(self.layers)}" if self.layers else ""
            return (
                f'{self.program} calls the operator "{self.name}" in what it delegates to '
                f'{self.backend} (method "{self.method}"{layers})'
            )
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
        payload_operators: by backend, what the payloads name; only of backends whose payloads do.
        layers: of such an operator; those that are unknown are missing.
        schema_version: of the program.
    """

    program: str
    method: str
    operators: tuple[str, ...]
    backends: tuple[str, ...]
    payload_operators: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    layers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    schema_version: int = 0

    def needs(self) -> list[Need]:
        """Lists its needs, backends first."""
        needs = [
            Need(self.program, kind, name, self.method)
            for kind, names in (("backend", self.backends), ("operator", self.operators))
            for name in names
        ]
        return needs + [
            Need(
                self.program,
                "payload_operator",
                name,
                self.method,
                backend,
                tuple(self.layers.get(name, ())),
            )
            for backend, names in sorted(self.payload_operators.items())
            for name in names
        ]


def uses_of(
    label: str, path: Path, layers: Mapping[str, Mapping[str, Sequence[str]]] | None = None
) -> list[Use]:
    """Lists what the methods of a .pte file need.

    Args:
        label: the program.
        path: the file.
        layers: by method and operator, as EtLink's summary has them.

    Raises:
        BuildError: it is not a program, or damaged.
    """
    file = pte.read(path)
    named: dict[str, dict[str, set[str]]] = {}
    for delegate in payload_operators.delegates(file, payload_operators.BACKENDS):
        names = named.setdefault(delegate.method, {}).setdefault(delegate.backend, set())
        names.update(payload_operators.operators_of(delegate))
    return [
        Use(
            label,
            m["name"],
            tuple(m["operators"]),
            tuple(m["backends"]),
            {b: tuple(sorted(names)) for b, names in named.get(m["name"], {}).items() if names},
            (layers or {}).get(m["name"], {}),
            file.program.version,
        )
        for m in tables.describe_methods(file.program)
    ]
