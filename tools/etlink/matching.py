"""Matches a program's data with shared data files: what stays out of the program, and why not.

Data match by key and bytes. That the key matches is not enough: a runtime finds a weight by its key
alone, so a shared file with other bytes under a key of the program is an error, unless the target
keeps that weight for itself (`own_data`). That the bytes match is not enough either, because a
delegate asks for its own key.

A runtime refuses two data files that have a key in common, so a program loads a set of disjoint
files, chosen greedily: the one that gives it most comes first. Everything here works on manifests;
no weight is read. Whatever does not match keeps a reason, which reports and errors show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from etbuild.errors import BuildError, listed

from etlink.amounts import amount
from etlink.manifest import File
from etlink.named_data import NamedData, unique_bytes, unmatched

_OTHER_VALUES = "the same dtype and shape, other values"
_OTHER_KEY = "the same bytes under the key of another backend"


@dataclass(frozen=True)
class Unshared:
    """Data of a program that no shared file gives it.

    Attributes:
      data: the data.
      reason: why.
    """

    data: NamedData
    reason: str


@dataclass(frozen=True)
class Matching:
    """The data of a program that lie in shared files.

    Attributes:
      shared: what the program takes from each shared file, by the file's number in the target's
        list; files that it does not load are left out.
      own: data that are the program's own, with the reason where there are shared files.
    """

    shared: Mapping[int, tuple[NamedData, ...]] = field(default_factory=dict)
    own: tuple[Unshared, ...] = ()

    @property
    def all_shared(self) -> list[NamedData]:
        """Lists what the program takes from shared files, file by file."""
        return [item for data in self.shared.values() for item in data]

    @property
    def largest_own(self) -> list[Unshared]:
        """The program's own data, the largest first."""
        return sorted(self.own, key=lambda u: (-u.data.size, u.data.key))


def match(
    label: str,
    data: Sequence[NamedData],
    files: Sequence[File],
    allow_unshared: bool = False,
    own_data: Sequence[str] = (),
) -> Matching:
    """Matches a program's data with shared files, by key and bytes.

    Args:
      label: the program, for messages.
      data: of the program.
      files: the shared files as their manifests have them, in the target's order.
      allow_unshared: whether a file that gives nothing is accepted.
      own_data: qualified names or patterns of weights that stay the program's own.

    Raises:
      BuildError: a key has other bytes in a shared file, or in two of them; a file gives nothing; a
        pattern of own_data matches nothing.
    """
    _check_between(label, files)
    _check_patterns(label, data, own_data)
    entries = [f.by_key() for f in files]
    useful = [_useful(label, data, file, own_data) for file in files]
    for file, matched in zip(files, useful, strict=True):
        if not allow_unshared:
            _check_worth(label, data, file, matched)
    chosen = _disjoint(useful, entries)
    shared = {n: tuple(useful[n][k] for k in sorted(useful[n])) for n in chosen}
    shared_keys = {d.key for matched in shared.values() for d in matched}
    reasons = _Reasons(files, entries, chosen, own_data)
    own = [Unshared(d, reasons.of(d) if files else "") for d in data if d.key not in shared_keys]
    return Matching(shared, tuple(own))


def _useful(
    label: str, data: Sequence[NamedData], file: File, own_data: Sequence[str]
) -> dict[str, NamedData]:
    """Returns what a file holds of a program's data, by key."""
    entries = file.by_key()
    return {
        item.key: item
        for item in data
        if item.size
        and item.key in entries
        and _fits(label, item, entries[item.key], file, item.matches(own_data))
    }


def _check_patterns(label: str, data: Sequence[NamedData], own_data: Sequence[str]) -> None:
    names = sorted({n for d in data for n in d.names})
    for pattern in unmatched(own_data, names):
        raise BuildError(
            f'{label}: own_data = "{pattern}" matches no weight of the program.',
            f"Its weights are {listed(names)}.",
        )


def _check_between(label: str, files: Sequence[File]) -> None:
    seen: dict[str, tuple[NamedData, str]] = {}
    for file in files:
        for entry in file.keys:
            other, owner = seen.setdefault(entry.key, (entry, file.label))
            if not other.same_bytes(entry):
                raise BuildError(
                    f'{label}: its shared data {owner} and {file.label} both have "{entry.key}", '
                    f"with different bytes: sha256 {other.sha256} ({other.describe()}) "
                    f"and {entry.sha256} ({entry.describe()}).",
                    "A program can load one of them. Remove the other from shared_data, or leave "
                    f'the weight out of it: exclude = ["{entry.key}"].',
                )


def _fits(label: str, data: NamedData, entry: NamedData, file: File, kept: bool) -> bool:
    """Tells whether a file's entry can replace data of a program.

    Raises:
      BuildError: it has the same key and other bytes, which a runtime would not notice.
    """
    if kept and data.layout is not None:
        return False
    if not data.same_bytes(entry):
        named = data.names and data.key not in data.names
        names = f" ({', '.join(data.names)})" if named else ""
        raise BuildError(
            f'{label}: "{data.key}"{names} has other bytes in its shared data: {label} has sha256 '
            f"{data.sha256} ({data.describe()}), {file.label} has sha256 {entry.sha256} "
            f"({entry.describe()}). A runtime would load it by its name and compute with the wrong "
            "weight.",
            f"Use the shared data of the same weights, or keep this one in the program: "
            f'own_data = ["{data.title()}"].',
        )
    # Segments of a .ptd file lie at multiples of 128 bytes; few data need more.
    return 128 % data.alignment == 0 or entry.alignment % data.alignment == 0


def _disjoint(
    useful: Sequence[Mapping[str, NamedData]], entries: Sequence[Mapping[str, NamedData]]
) -> list[int]:
    """Numbers of the files to load: no two hold the same key, the most useful one comes first."""
    order = sorted(
        (n for n, matched in enumerate(useful) if matched),
        key=lambda n: (-unique_bytes(useful[n].values()), n),
    )
    chosen: list[int] = []
    for number in order:
        if not any(entries[number].keys() & entries[other].keys() for other in chosen):
            chosen.append(number)
    return sorted(chosen)


class _Reasons:
    """The reasons why data of a program are not shared.

    Args:
      files: the shared files.
      entries: of each of them, by key.
      chosen: numbers of those that the program loads.
      own_data: names or patterns of weights that stay the program's own.
    """

    def __init__(
        self,
        files: Sequence[File],
        entries: Sequence[Mapping[str, NamedData]],
        chosen: Sequence[int],
        own_data: Sequence[str],
    ) -> None:
        self._files = files
        self._entries = entries
        self._chosen = chosen
        self._own_data = own_data
        self._by_name: dict[str, list[tuple[str, NamedData]]] = {}
        for file in files:
            for entry in file.keys:
                for name in entry.names:
                    self._by_name.setdefault(name, []).append((file.label, entry))

    def of(self, data: NamedData) -> str:
        """Half a sentence for messages and reports."""
        if not data.size:
            return "it is empty"
        if data.matches(self._own_data):
            return "own_data names it"
        return self._same_key(data) or self._same_name(data)

    def _same_key(self, data: NamedData) -> str:
        """Says why a file with these data under the same key is not used; empty: there is none."""
        for number, file in enumerate(self._files):
            entry = self._entries[number].get(data.key)
            if entry is None:
                continue
            if number not in self._chosen:
                others = ", ".join(self._files[n].label for n in self._chosen)
                return (
                    f"{file.label} holds it, but shares keys with {others}, and a runtime loads "
                    "no two files with a common key"
                )
            return f"{file.label} holds it with an alignment of {entry.alignment} bytes only"
        return ""

    def _same_name(self, data: NamedData) -> str:
        """Says what the files hold for the same weights."""
        for name in data.names:
            for owner, entry in self._by_name.get(name, ()):
                if entry.sha256 == data.sha256:
                    return (
                        f"{owner} has these bytes under the key of another backend "
                        f'("{entry.key}"); make it from a lowering of this one, too'
                    )
                if (entry.dtype == "scale") == (data.dtype == "scale"):
                    return f"{owner} has other bytes for {name}: {_difference(data, entry)}"
        if not data.names:
            return "no shared file has these bytes, and they have no name"
        return "no shared file has a weight of this name"


def _difference(data: NamedData, entry: NamedData) -> str:
    """Says how the bytes of one weight differ between a program and a shared file."""
    if data.sha256 == entry.sha256:
        kind = _OTHER_KEY
    elif data.dtype != entry.dtype:
        kind = "another dtype"
    elif data.shape != entry.shape:
        kind = "another shape or layout"
    elif data.size != entry.size:
        kind = "another layout"
    else:
        kind = _OTHER_VALUES
    return f"{kind} (program: {data.describe()}; shared: {entry.describe()})"


def _check_worth(
    label: str, data: Sequence[NamedData], file: File, useful: Mapping[str, NamedData]
) -> None:
    """Fails for a shared file that gives a program nothing, or less than it was meant to.

    The latter is a file that has most of the program's weights by name, with other bytes: it was
    made with another recipe or of other weights, and a few biases match by chance.
    """
    by_name: dict[str, NamedData] = {}
    for entry in file.keys:
        for name in entry.names:
            by_name.setdefault(name, entry)
    missed = [d for d in data if d.key not in useful and any(n in by_name for n in d.names)]
    if useful and unique_bytes(missed) <= unique_bytes(useful.values()):
        return
    given = (
        f"{unique_bytes(useful.values())} of {unique_bytes(data)} bytes" if useful else "nothing"
    )
    what = f"{label}: its shared data {file.label} gives it {given}"
    hint = "Set allow_unshared = True if that is meant."
    if not data:
        raise BuildError(
            f"{what}: the program has no data that can lie outside of it.",
            "Its backend puts the weights into its payload, or the model has none. " + hint,
        )
    if not missed:
        ours = sorted({n for d in data for n in d.names})
        raise BuildError(
            f"{what}: no weight has the same name or bytes. The program has {listed(ours)}; "
            f"the shared file has {listed(sorted(by_name))}.",
            f"Was it made from another model? {hint}",
        )
    largest = sorted(missed, key=lambda d: (-d.size, d.key))
    named = [(next(n for n in d.names if n in by_name), d) for d in largest]
    matched = [(name, _difference(d, by_name[name])) for name, d in named]
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


def check_min_shared(label: str, matching: Matching, expected: str) -> None:
    """Fails when less than `expected` of a program's data is shared.

    Args:
      label: the program.
      matching: where its data lie.
      expected: "95%" or "100 MB".

    Raises:
      BuildError: less is shared; the message lists the largest data that are not.
    """
    number, is_percent = amount(expected, f"{label}: min_shared")
    shared = unique_bytes(matching.all_shared)
    own = unique_bytes(u.data for u in matching.own)
    percent = 100 * shared / (shared + own) if shared + own else 0.0
    if (percent if is_percent else shared) >= number:
        return
    largest = "; ".join(
        f"{u.data.title()} ({u.data.describe()}): {u.reason}" for u in matching.largest_own[:5]
    )
    got = f"{percent:.1f}%" if is_percent else f"{shared} bytes"
    raise BuildError(
        f"{label}: {got} of its data is shared ({shared} of {shared + own} bytes), expected at "
        f"least {expected}. Largest of its own: {largest or 'none'}.",
        "Did the recipe or the model change? Rebuild the shared data with it, or lower min_shared.",
    )
