"""Which of a program's data stay out of it, because shared data files hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from etbuild.errors import BuildError

from etlink.amounts import amount
from etlink.data import Datum, unique_bytes
from etlink.shared import DataIndex, Entry, is_named, some, unmatched

_OTHER_VALUES = "the same dtype and shape, other values"
_OTHER_KEY = "the same bytes under the key of another backend"


@dataclass(frozen=True)
class Unshared:
    """A datum that no shared file holds.

    Attributes:
      datum: the datum.
      reason: why.
    """

    datum: Datum
    reason: str


@dataclass(frozen=True)
class Plan:
    """Where each datum of a program lies.

    Attributes:
      shared: data in a shared file, by that file's index in the target's list.
      own: data that are the program's own, with the reason where a shared file was asked for.
      files: indices of the shared files that the program loads; the others give it nothing that
        these don't hold.
    """

    shared: Mapping[int, tuple[Datum, ...]] = field(default_factory=dict)
    own: tuple[Unshared, ...] = ()
    files: tuple[int, ...] = ()

    @property
    def largest_own(self) -> list[Unshared]:
        """The program's own data, the largest first."""
        return sorted(self.own, key=lambda u: (-u.datum.size, u.datum.key))

    @property
    def shared_keys(self) -> frozenset[str]:
        """Keys of all data in shared files."""
        return frozenset(d.key for data in self.shared.values() for d in data)


def plan(
    label: str,
    data: Sequence[Datum],
    files: Sequence[DataIndex],
    allow_unshared: bool = False,
    own_data: Sequence[str] = (),
) -> Plan:
    """Matches a program's data with shared files, by key and bytes.

    Args:
      label: the program, for messages.
      data: of the program.
      files: indices of the shared files, in the target's order.
      allow_unshared: whether a file that gives nothing is accepted.
      own_data: qualified names or patterns of weights that stay the program's own.

    Raises:
      BuildError: a key has other bytes in a shared file, or in two of them; a file gives nothing; a
        pattern of own_data matches nothing.
    """
    _check_between(label, files)
    _check_patterns(label, data, own_data)
    held = [f.by_key() for f in files]
    useful: list[dict[str, Datum]] = [{} for _ in files]
    for datum in data:
        if not datum.size:
            continue
        kept = is_named(datum, own_data)
        for number, entries in enumerate(held):
            entry = entries.get(datum.key)
            if entry is not None and _fits(label, datum, entry, files[number], kept):
                useful[number][datum.key] = datum
    for number, index in enumerate(files):
        if not allow_unshared:
            _check_worth(label, data, index, useful[number])
    chosen = _disjoint(useful, held)
    shared = {n: tuple(useful[n][k] for k in sorted(useful[n])) for n in chosen}
    taken = {d.key for found in shared.values() for d in found}
    named: dict[str, list[tuple[str, Entry]]] = {}
    for index in files:
        for entry in index.entries:
            for name in entry.names:
                named.setdefault(name, []).append((index.label, entry))
    own = [
        Unshared(d, _reason(d, files, held, chosen, own_data, named) if files else "")
        for d in data
        if d.key not in taken
    ]
    return Plan(shared, tuple(own), tuple(sorted(chosen)))


def _check_patterns(label: str, data: Sequence[Datum], own_data: Sequence[str]) -> None:
    names = sorted({n for d in data for n in d.names})
    for pattern in unmatched(own_data, names):
        raise BuildError(
            f'{label}: own_data = "{pattern}" matches no weight of the program.',
            f"Its weights are {some(names)}.",
        )


def _check_between(label: str, files: Sequence[DataIndex]) -> None:
    seen: dict[str, tuple[Entry, str]] = {}
    for index in files:
        for entry in index.entries:
            other, owner = seen.setdefault(entry.key, (entry, index.label))
            if (other.sha256, other.layout) != (entry.sha256, entry.layout):
                raise BuildError(
                    f'{label}: its shared data {owner} and {index.label} both have "{entry.key}", '
                    f"with different bytes: sha256 {other.sha256} ({other.datum().described()}) "
                    f"and {entry.sha256} ({entry.datum().described()}).",
                    "A program can load one of them. Remove the other from shared_data, or leave "
                    f'the weight out of it: exclude = ["{entry.key}"].',
                )


def _fits(label: str, datum: Datum, entry: Entry, index: DataIndex, kept: bool) -> bool:
    """Whether a file's entry can stand for a program's datum.

    Raises:
      BuildError: it has the same key and other bytes, which a runtime would not notice.
    """
    same = (entry.sha256, entry.layout) == (datum.blob, datum.layout)
    if kept and datum.layout is not None:
        return False
    if not same:
        title = (
            f" ({', '.join(datum.names)})" if datum.names and datum.key not in datum.names else ""
        )
        raise BuildError(
            f'{label}: "{datum.key}"{title} has other bytes in its shared data: {label} has sha256 '
            f"{datum.blob} ({datum.described()}), {index.label} has sha256 {entry.sha256} "
            f"({entry.datum().described()}). A runtime would load it by its name and compute with "
            "the wrong weight.",
            f"Use the shared data of the same weights, or keep this one in the program: "
            f'own_data = ["{datum.title()}"].',
        )
    # Segments of a .ptd file lie at multiples of 128 bytes; more than that is asked for rarely.
    return 128 % datum.alignment == 0 or entry.alignment % datum.alignment == 0


def _disjoint(
    useful: Sequence[Mapping[str, Datum]], held: Sequence[Mapping[str, Entry]]
) -> list[int]:
    """Files to load: a runtime refuses two that hold the same key.

    The one that gives most comes first.
    """
    order = sorted(
        (n for n, found in enumerate(useful) if found),
        key=lambda n: (-unique_bytes(useful[n].values()), n),
    )
    chosen: list[int] = []
    for number in order:
        if not any(held[number].keys() & held[other].keys() for other in chosen):
            chosen.append(number)
    return sorted(chosen)


def _reason(
    datum: Datum,
    files: Sequence[DataIndex],
    held: Sequence[Mapping[str, Entry]],
    chosen: Sequence[int],
    own_data: Sequence[str],
    named: Mapping[str, Sequence[tuple[str, Entry]]],
) -> str:
    """Why a datum is not shared."""
    if not datum.size:
        return "it is empty"
    if is_named(datum, own_data):
        return "own_data names it"
    for number, index in enumerate(files):
        entry = held[number].get(datum.key)
        if entry is None:
            continue
        if number not in chosen:
            others = ", ".join(files[n].label for n in chosen)
            return (
                f"{index.label} holds it, but shares keys with {others}, and a runtime loads no "
                "two files with a common key"
            )
        return f"{index.label} holds it with an alignment of {entry.alignment} bytes only"
    for name in datum.names:
        for owner, entry in named.get(name, ()):
            if entry.sha256 == datum.blob:
                return (
                    f"{owner} has these bytes under the key of another backend "
                    f'("{entry.key}"); make it from a lowering of this one, too'
                )
            if (entry.dtype == "scale") == (datum.dtype == "scale"):
                return f"{owner} has other bytes for {name}: {difference(datum, entry)}"
    if not datum.names:
        return "no shared file has these bytes, and they have no name"
    return "no shared file has a weight of this name"


def difference(datum: Datum, entry: Entry) -> str:
    """How the bytes of one weight differ between a program and a shared file."""
    if datum.blob == entry.sha256:
        kind = _OTHER_KEY
    elif datum.dtype != entry.dtype:
        kind = "another dtype"
    elif datum.shape != entry.shape:
        kind = "another shape or layout"
    elif datum.size != entry.size:
        kind = "another layout"
    else:
        kind = _OTHER_VALUES
    return f"{kind} (program: {datum.described()}; shared: {entry.datum().described()})"


def _check_worth(
    label: str, data: Sequence[Datum], index: DataIndex, useful: Mapping[str, Datum]
) -> None:
    """Fails for a shared file that gives a program nothing, or less than it was meant to.

    The latter is a file that has most of the program's weights by name, with other bytes: it was
    made with another recipe or of other weights, and a few biases match by chance.
    """
    by_name: dict[str, Entry] = {}
    for entry in index.entries:
        for name in entry.names:
            by_name.setdefault(name, entry)
    missed = [d for d in data if d.key not in useful and any(n in by_name for n in d.names)]
    if useful and unique_bytes(missed) <= unique_bytes(useful.values()):
        return
    given = (
        f"{unique_bytes(useful.values())} of {unique_bytes(data)} bytes" if useful else "nothing"
    )
    what = f"{label}: its shared data {index.label} gives it {given}"
    hint = "Set allow_unshared = True if that is meant."
    if not data:
        raise BuildError(
            f"{what}: the program has no data that can lie outside of it.",
            "Its backend puts the weights into its payload, or the model has none. " + hint,
        )
    if not missed:
        ours = sorted({n for d in data for n in d.names})
        raise BuildError(
            f"{what}: no weight has the same name or bytes. The program has {some(ours)}; the "
            f"shared file has {some(sorted(by_name))}.",
            f"Was it made from another model? {hint}",
        )
    largest = sorted(missed, key=lambda d: (-d.size, d.key))
    named = [(next(n for n in d.names if n in by_name), d) for d in largest]
    matched = [(name, difference(d, by_name[name])) for name, d in named]
    examples = "; ".join(f"{name}: {text}" for name, text in matched[:3])
    kinds = {text.split(" (")[0] for _, text in matched}
    if _OTHER_KEY in kinds:
        cause = "It was made for another backend: make it from a lowering of this recipe, too."
        raise BuildError(
            f"{what}: {len(matched)} names matched, but not their keys, e.g. {examples}.",
            f"{cause} {hint}",
        )
    if kinds == {_OTHER_VALUES}:
        cause = "It was made from other weights, or by another quantization."
    else:
        cause = "It was made with another recipe (dtype or layout)."
    raise BuildError(
        f"{what}: {len(matched)} names matched, but their bytes differ, e.g. {examples}.",
        f"{cause} Make it with the program's recipe and weights. {hint}",
    )


def check_min_shared(label: str, made: Plan, wanted: str) -> None:
    """Fails when less than `wanted` of a program's data is shared.

    Raises:
      BuildError: less is shared; the message lists the largest data that are not.
    """
    number, is_share = amount(wanted, f"{label}: min_shared")
    shared = unique_bytes(d for found in made.shared.values() for d in found)
    own = unique_bytes(u.datum for u in made.own)
    share = 100 * shared / (shared + own) if shared + own else 0.0
    if (share if is_share else shared) >= number:
        return
    listed = "; ".join(
        f"{u.datum.title()} ({u.datum.described()}): {u.reason}" for u in made.largest_own[:5]
    )
    got = f"{share:.1f}%" if is_share else f"{shared} bytes"
    raise BuildError(
        f"{label}: {got} of its data is shared ({shared} of {shared + own} bytes), wanted at least "
        f"{wanted}. Largest of its own: {listed or 'none'}.",
        "Did the recipe or the model change? Rebuild the shared data with it, or lower min_shared.",
    )
