"""Compares a divergence with a saved one of the same program, built by another exporter.

Values of modules cannot be compared between two exporters themselves: their graphs differ. Both
were compared with the eager model, so what changed is the distance from that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild import BuildError
from etlink.amounts import human_bytes, human_change
from etlink.json_file import FormError, decode, read_object

from etcli.console import Printer

_AGAIN = "Save one with --save, by the same version of these rules."
# A smaller change of a ratio is rounding.
_SAME_DB = 3.0
# More than any program has.
_EXACT_DB = 1000.0


@dataclass(frozen=True)
class _Ratio:
    note: str
    sqnr_db: float | None = None

    @property
    def db(self) -> float | None:
        """The ratio; None: there is none."""
        same = {"the same": _EXACT_DB, "far off": -_EXACT_DB}
        return same.get(self.note) if self.sqnr_db is None else self.sqnr_db


@dataclass(frozen=True)
class _Outputs:
    program: _Ratio


@dataclass(frozen=True)
class _Module:
    name: str
    program: _Ratio | None = None


@dataclass(frozen=True)
class _Method:
    outputs: _Outputs
    modules: tuple[_Module, ...]

    @property
    def ratios(self) -> dict[str, float]:
        """Ratios of modules that have one, in dB."""
        given = {module.name: module.program and module.program.db for module in self.modules}
        return {name: db for name, db in given.items() if db is not None}


@dataclass(frozen=True)
class _Built:
    """A method as it was built."""

    operators: tuple[str, ...]
    backends: tuple[str, ...]
    delegates: int
    instructions: int


@dataclass(frozen=True)
class _Program:
    bytes: int
    cpu_ms: float
    methods: dict[str, _Built]


@dataclass(frozen=True)
class _Result:
    label: str
    executorch: str
    program: _Program
    methods: dict[str, _Method]


def read(path: Path) -> Mapping[str, Any]:
    """A saved divergence.

    Raises:
      BuildError: it is not one.
    """
    value = read_object(path, "is not a saved divergence", _AGAIN)
    try:
        decode(_Result, value, extra=True)
    except FormError as error:
        raise BuildError(f"{path} is not a saved divergence: {error}.", _AGAIN) from error
    return value


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Lists what is another in the second of two divergences.

    Returns:
      `executorch`, `bytes` and `cpu_ms`: `before` and `after`; `methods`, by name, of what both
      have: `outputs` and `modules` (their `name`, `before_db` and `after_db`) whose ratio changed
      by more than 3 dB; `operators` that are `added` and `removed`; and where they changed
      `backends`, `delegates` and `instructions`. `methods_added`, `methods_removed`: names.
    """
    old, new = (decode(_Result, value, extra=True) for value in (before, after))
    common = [name for name in new.methods if name in old.methods]
    return {
        "executorch": _pair(old.executorch, new.executorch),
        "bytes": _pair(old.program.bytes, new.program.bytes),
        "cpu_ms": _pair(old.program.cpu_ms, new.program.cpu_ms),
        "methods": {
            name: _numbers(old.methods[name], new.methods[name])
            | _built(old.program.methods.get(name), new.program.methods.get(name))
            for name in common
        },
        "methods_added": sorted(new.methods.keys() - old.methods.keys()),
        "methods_removed": sorted(old.methods.keys() - new.methods.keys()),
    }


def _pair(before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after}


def _numbers(old: _Method, new: _Method) -> dict[str, Any]:
    ratios = old.ratios, new.ratios
    names = [name for name in ratios[1] if name in ratios[0]]
    return {
        "outputs": list(_moved("", old.outputs.program.db, new.outputs.program.db)),
        "modules": [row for n in names for row in _moved(n, ratios[0][n], ratios[1][n])],
    }


def _moved(name: str, before: float | None, after: float | None) -> Iterator[dict[str, Any]]:
    if before is None or after is None or abs(before - after) <= _SAME_DB:
        return
    yield {"name": name, "before_db": before, "after_db": after}


def _built(old: _Built | None, new: _Built | None) -> dict[str, Any]:
    if old is None or new is None:
        return {"operators": {"added": [], "removed": []}}
    added, removed = (
        sorted(set(one.operators) - set(other.operators)) for one, other in ((new, old), (old, new))
    )
    members = ("backends", "delegates", "instructions")
    return {"operators": {"added": added, "removed": removed}} | {
        name: _pair(getattr(old, name), getattr(new, name))
        for name in members
        if getattr(old, name) != getattr(new, name)
    }


def show(changed: Mapping[str, Any], out: Printer) -> None:
    """Prints what changed."""
    versions = changed["executorch"]
    out.heading(f"against the program of ExecuTorch {versions['before']}")
    sizes, times = changed["bytes"], changed["cpu_ms"]
    rows = [
        ["ExecuTorch", versions["before"], versions["after"], ""],
        [
            "file",
            human_bytes(sizes["before"]),
            human_bytes(sizes["after"]),
            human_change(sizes["before"], sizes["after"]),
        ],
        ["processor time of all inputs", *(f"{times[k]:.3f} ms" for k in ("before", "after")), ""],
    ]
    for name, method in changed["methods"].items():
        rows += list(_rows(name, method))
    out.table(["", "before", "now", "change"], rows, numbers=(1, 2, 3))
    for member, word in (("methods_added", "new"), ("methods_removed", "gone")):
        for name in changed[member]:
            out.line(f'The method "{name}" is {word}.')
    out.line(conclusion(changed), "bold")


def _rows(method: str, changed: Mapping[str, Any]) -> Iterator[list[str]]:
    for row in [*changed["outputs"], *changed["modules"]]:
        before, after = row["before_db"], row["after_db"]
        what = f"{method}: {row['name'] or 'outputs'}"
        yield [what, _db(before), _db(after), f"{after - before:+.1f} dB" if _finite(row) else ""]
    for operator in changed["operators"]["removed"]:
        yield [f"{method}: kernel", operator, "", "removed"]
    for operator in changed["operators"]["added"]:
        yield [f"{method}: kernel", "", operator, "added"]
    if "backends" in changed:
        pair = changed["backends"]
        yield [f"{method}: backends", *(", ".join(pair[k]) or "none" for k in pair), ""]
    for member in ("delegates", "instructions"):
        if member in changed:
            pair = changed[member]
            difference = pair["after"] - pair["before"]
            yield [f"{method}: {member}", *(str(pair[k]) for k in pair), f"{difference:+d}"]


def _finite(row: Mapping[str, Any]) -> bool:
    return max(abs(row["before_db"]), abs(row["after_db"])) < _EXACT_DB


def _db(ratio: float) -> str:
    if abs(ratio) < _EXACT_DB:
        return f"{ratio:.1f} dB"
    return "the same" if ratio > 0 else "far off"


def conclusion(changed: Mapping[str, Any]) -> str:
    """A sentence that names what lost most, or says that nothing did."""
    lost = [
        (row["before_db"] - row["after_db"], name, row)
        for name, method in changed["methods"].items()
        for row in [*method["modules"], *method["outputs"]]
        if row["after_db"] < row["before_db"]
    ]
    if not lost:
        return "No module is further from the eager model than before."
    _, name, row = max(lost, key=lambda each: each[0])
    where = f"module {row['name']}" if row["name"] else "the outputs"
    return f"{name}: {where} lost most: {_db(row['before_db'])} before, {_db(row['after_db'])} now."
