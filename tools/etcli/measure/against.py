"""Compares a divergence with that of the same model's program, built by another exporter.

Values of modules cannot be compared between two exporters themselves: their graphs differ. Both
were compared with the eager model, so what changed is the distance from that. The rest is known of
each program: what each module became, how large it is and what it takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
# Smaller changes of a module's time are noise.
_SAME_TIME, _LEAST_MS = 1.25, 0.05
# Rows of a table; JSON has all.
_SHOWN = 60
COLUMNS = ("", "what", "before", "now", "change")


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
class _BuiltModule:
    name: str
    bytes: int
    operators: dict[str, tuple[str, ...]]
    ms: float | None = None

    @property
    def counted(self) -> Counter[str]:
        """Operators, whatever they run in."""
        return Counter(operator for of in self.operators.values() for operator in of)


@dataclass(frozen=True)
class _Built:
    """A method as it was built."""

    operators: tuple[str, ...]
    backends: tuple[str, ...]
    delegates: int
    instructions: int
    modules: tuple[_BuiltModule, ...]
    ms: float | None = None


@dataclass(frozen=True)
class _Program:
    bytes: int
    methods: dict[str, _Built]


@dataclass(frozen=True)
class Divergence:
    """The part of a divergence that is compared."""

    label: str
    program: _Program
    methods: dict[str, _Method]
    executorch: str | None = None


def read(path: Path) -> Divergence:
    """A saved divergence.

    Raises:
      BuildError: it is not one.
    """
    value = read_object(path, "is not a saved divergence", _AGAIN)
    try:
        return of(value)
    except FormError as error:
        raise BuildError(f"{path} is not a saved divergence: {error}.", _AGAIN) from error


def of(value: Mapping[str, Any]) -> Divergence:
    """A divergence that was just computed."""
    return decode(Divergence, value, extra=True)


def changes(before: Divergence, after: Divergence) -> dict[str, Any]:
    """Lists what is another in the second of two divergences.

    Returns:
      `executorch`, `bytes`: `before` and `after`. `methods`, by name, of what both have: `outputs`,
      a list with `before_db` and `after_db` if their ratio changed by more than 3 dB; `modules`, by
      `name`, with what changed of each: `before_db` and `after_db`, `bytes`, `ms`, `backends` that
      its operators run in, `operators` that are `added` and `removed`; `operators`, kernels of the
      method that are `added` and `removed`; and where they changed `backends`, `delegates`,
      `instructions` and `ms`. `methods_added`, `methods_removed`: names.
    """
    common = [name for name in after.methods if name in before.methods]
    return {
        "executorch": _pair(before.executorch, after.executorch),
        "bytes": _pair(before.program.bytes, after.program.bytes),
        "methods": {
            name: {
                "outputs": [
                    {"name": "", **moved}
                    for moved in [
                        _moved(
                            before.methods[name].outputs.program.db,
                            after.methods[name].outputs.program.db,
                        )
                    ]
                    if moved
                ],
                "modules": list(_modules(before, after, name)),
                **_built(before.program.methods.get(name), after.program.methods.get(name)),
            }
            for name in common
        },
        "methods_added": sorted(after.methods.keys() - before.methods.keys()),
        "methods_removed": sorted(before.methods.keys() - after.methods.keys()),
    }


def _pair(before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after}


def _moved(before: float | None, after: float | None) -> dict[str, float]:
    if before is None or after is None or abs(before - after) <= _SAME_DB:
        return {}
    return {"before_db": before, "after_db": after}


def _modules(before: Divergence, after: Divergence, method: str) -> Iterator[dict[str, Any]]:
    ratios = before.methods[method].ratios, after.methods[method].ratios
    old, new = (_by_name(d.program.methods.get(method)) for d in (before, after))
    # Without a report nothing is known of one side's modules.
    known = [*new, *(name for name in old if name not in new)] if old and new else []
    # Means of a module's few runs jump, unlike the method's median.
    is_timed = "ms" in _built(*(d.program.methods.get(method) for d in (before, after)))
    for name in dict.fromkeys([*ratios[1], *known]):
        changed: dict[str, Any] = _moved(ratios[0].get(name), ratios[1].get(name))
        if name in known:
            nothing = _BuiltModule(name, 0, {})
            changed |= _module(old.get(name, nothing), new.get(name, nothing), is_timed)
        if changed:
            yield {"name": name, **changed}


def _by_name(built: _Built | None) -> dict[str, _BuiltModule]:
    return {module.name: module for module in built.modules} if built else {}


def _module(old: _BuiltModule, new: _BuiltModule, is_timed: bool) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    if old.bytes != new.bytes:
        changed["bytes"] = _pair(old.bytes, new.bytes)
    added, removed = new.counted - old.counted, old.counted - new.counted
    if added or removed:
        changed["operators"] = {"added": _listed(added), "removed": _listed(removed)}
    places = sorted(old.operators), sorted(new.operators)
    if places[0] != places[1]:
        changed["backends"] = _pair(*places)
    if is_timed and _is_other_time(old.ms, new.ms):
        changed["ms"] = _pair(old.ms, new.ms)
    return changed


def _listed(operators: Counter[str]) -> list[str]:
    return sorted(operators.elements())


def _is_other_time(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return False
    low, high = sorted((old, new))
    return high > _SAME_TIME * low and high - low > _LEAST_MS


def _built(old: _Built | None, new: _Built | None) -> dict[str, Any]:
    if old is None or new is None:
        return {"operators": {"added": [], "removed": []}}
    added, removed = (
        sorted(set(one.operators) - set(other.operators)) for one, other in ((new, old), (old, new))
    )
    members = ("backends", "delegates", "instructions")
    changed = {
        name: _pair(getattr(old, name), getattr(new, name))
        for name in members
        if getattr(old, name) != getattr(new, name)
    }
    if _is_other_time(old.ms, new.ms):
        changed["ms"] = _pair(old.ms, new.ms)
    return {"operators": {"added": added, "removed": removed}, **changed}


def show(changed: Mapping[str, Any], out: Printer) -> None:
    """Prints what changed."""
    out.heading(title(changed))
    shown = rows(changed)
    out.table(list(COLUMNS), shown[:_SHOWN], numbers=(2, 3, 4))
    if len(shown) > _SHOWN:
        out.line(f"… and {len(shown) - _SHOWN} more: see --html or --json", "dim")
    for member, word in (("methods_added", "new"), ("methods_removed", "gone")):
        for name in changed[member]:
            out.line(f'The method "{name}" is {word}.')
    out.line(conclusion(changed), "bold")


def title(changed: Mapping[str, Any]) -> str:
    """Names the program that this one is compared with."""
    version = changed["executorch"]["before"]
    return (
        f"against the program of ExecuTorch {version}" if version else "against the other program"
    )


def rows(changed: Mapping[str, Any]) -> list[list[str]]:
    """Rows of a table with `COLUMNS`."""
    versions, sizes = changed["executorch"], changed["bytes"]
    texts = [versions[key] or "unknown" for key in ("before", "after")]
    found = [["", "ExecuTorch", *texts, ""], ["", "files", *_bytes(sizes)]]
    for name, method in changed["methods"].items():
        prefix = f"{name}: " if len(changed["methods"]) > 1 else ""
        found += [[name, *row] for row in _of_method(method)]
        found += [
            [prefix + "outputs", *row] for out in method["outputs"] for row in _of_module(out)
        ]
        for module in method["modules"]:
            what = prefix + (module["name"] or "the model")
            found += [[what, *row] for row in _of_module(module)]
    return found


def _of_method(changed: Mapping[str, Any]) -> Iterator[list[str]]:
    for operator in changed["operators"]["removed"]:
        yield ["kernel", operator, "", "removed"]
    for operator in changed["operators"]["added"]:
        yield ["kernel", "", operator, "added"]
    yield from _lists("backends", changed)
    for member in ("delegates", "instructions"):
        if member in changed:
            pair = changed[member]
            difference = pair["after"] - pair["before"]
            yield [member, *(str(pair[k]) for k in ("before", "after")), f"{difference:+d}"]
    yield from _time(changed)


def _of_module(changed: Mapping[str, Any]) -> Iterator[list[str]]:
    if "before_db" in changed:
        before, after = changed["before_db"], changed["after_db"]
        change = f"{after - before:+.1f} dB" if _is_finite(changed) else ""
        yield ["numbers", _db(before), _db(after), change]
    if "bytes" in changed:
        yield ["weights", *_bytes(changed["bytes"])]
    yield from _lists("backends", changed)
    for member, word in (("removed", "removed"), ("added", "added")):
        for operator, count in Counter(changed.get("operators", {}).get(member, ())).items():
            text = operator if count == 1 else f"{count} {operator}"
            yield ["operator", *((text, "") if member == "removed" else ("", text)), word]
    yield from _time(changed)


def _bytes(pair: Mapping[str, int]) -> list[str]:
    before, after = pair["before"], pair["after"]
    return [human_bytes(before), human_bytes(after), human_change(before, after)]


def _lists(member: str, changed: Mapping[str, Any]) -> Iterator[list[str]]:
    if member in changed:
        pair = changed[member]
        yield ["runs in", *(", ".join(pair[k]) or "nothing" for k in ("before", "after")), ""]


def _time(changed: Mapping[str, Any]) -> Iterator[list[str]]:
    if "ms" in changed:
        before, after = changed["ms"]["before"], changed["ms"]["after"]
        yield ["time", f"{before:.3f} ms", f"{after:.3f} ms", f"{after - before:+.3f} ms"]


def _is_finite(row: Mapping[str, Any]) -> bool:
    return max(abs(row["before_db"]), abs(row["after_db"])) < _EXACT_DB


def _db(ratio: float) -> str:
    if abs(ratio) < _EXACT_DB:
        return f"{ratio:.1f} dB"
    return "the same" if ratio > 0 else "far off"


def conclusion(changed: Mapping[str, Any]) -> str:
    """A sentence that names what lost most, or says that nothing did."""
    lost = [
        (row["before_db"] - row["after_db"], name, where, row)
        for name, method in changed["methods"].items()
        for where, row in _numbers(method)
        if row["after_db"] < row["before_db"]
    ]
    if not lost:
        return "No module is further from the eager model than before."
    _, name, where, row = max(lost, key=lambda each: each[0])
    return f"{name}: {where} lost most: {_db(row['before_db'])} before, {_db(row['after_db'])} now."


def _numbers(method: Mapping[str, Any]) -> Sequence[tuple[str, Mapping[str, Any]]]:
    modules = [
        (f"module {row['name']}" if row["name"] else "the model", row)
        for row in method["modules"]
        if "before_db" in row
    ]
    return [*modules, *(("the outputs", row) for row in method["outputs"])]
