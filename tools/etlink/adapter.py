"""Keys by name for a program's own data, so that one program runs with many adapters.

A constant that the runtime loads can have its qualified name as key. A delegate asks for the sha256
of the bytes, which differs from adapter to adapter, so the payloads of XNNPACK are rewritten to ask
for the names of the weights (`payload.rename`). Then two adapters of one base give the same
program, byte for byte, and fit each other's program.

A name must lead to one weight only. So it is an error if a name stands for two different weights,
if two delegates with equal payloads hold different weights, or if a shared file that the program
loads has the name as a key. Data without a name, or of another backend, stay in the program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from etbuild.errors import BuildError

from etlink import payload, schema
from etlink.lowered import Lowered
from etlink.named_data import NamedData
from etlink.payload import Packing, Payload
from etlink.tables import inline_payloads

_BY_CONTENT = 'Use adapter_data = "by_content"'


@dataclass(frozen=True)
class OwnData:
    """A program's own data under their names.

    Attributes:
      data: what goes into the adapter's file, sorted by key; every key is a name.
      kept: what stays in the program, because it has no name.
      payloads: sha256 of a delegate's payload to the bytes that replace it.
      packings: weights that XNNPACK packs, with the keys that they then have.
    """

    data: tuple[NamedData, ...]
    kept: tuple[NamedData, ...]
    payloads: dict[str, bytes]
    packings: tuple[Packing, ...]


def by_name(
    lowered: Lowered,
    own: Iterable[NamedData],
    tensor_keys: Collection[str],
    reserved: frozenset[str],
) -> OwnData:
    """Gives a program's own data stable keys: the names of its weights.

    Args:
      lowered: the program.
      own: data that are not shared.
      tensor_keys: keys of tensors that the runtime loads; delegates load the others.
      reserved: keys of the shared files that the program loads.

    Raises:
      BuildError: a name stands for two different weights; nothing has a name; a name is a key of a
        shared file.
    """
    label = lowered.index.label
    own = [d for d in own if d.size]
    tensors = {d.key: d for d in own if d.key in tensor_keys and d.by_name}
    renaming = _Renaming(
        label, {d.key: d for d in own if d.key not in tensor_keys}, data=dict(tensors)
    )
    names: dict[str, list[tuple[str, ...]]] = {}
    for item in lowered.index.payloads:
        names.setdefault(item.sha256, []).append(item.names)
    for sha256, raw in _payloads(lowered).items():
        renaming.add(sha256, raw, names.get(sha256, [()]))
    _check_names(label, sorted(renaming.data), len(own), reserved)
    leaving = tensors.keys() | (renaming.renamed - renaming.unnamed)
    return OwnData(
        data=tuple(renaming.data[key] for key in sorted(renaming.data)),
        kept=tuple(d for d in own if d.key not in leaving),
        payloads=renaming.payloads,
        packings=tuple(sorted(renaming.packings)),
    )


@dataclass
class _Renaming:
    """The renaming of the payloads of a program.

    Attributes:
      label: the program, for messages.
      delegated: data that delegates load, by the key that they have.
      data: by name.
      payloads: sha256 of a payload to the bytes that replace it.
      packings: of all payloads, with their new keys.
      renamed: old keys that some payload no longer asks for.
      unnamed: old keys that some payload still asks for.
    """

    label: str
    delegated: Mapping[str, NamedData]
    data: dict[str, NamedData]
    payloads: dict[str, bytes] = field(default_factory=dict)
    packings: set[Packing] = field(default_factory=set)
    renamed: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)

    def add(self, sha256: str, raw: bytes, names: Sequence[tuple[str, ...]]) -> None:
        """Renames the keys of one payload.

        Args:
          sha256: of the payload, hex.
          raw: the payload.
          names: of its constants; more than one where payloads of equal bytes hold other weights.
        """
        parsed = payload.read(raw)
        if parsed is None:
            # Another backend's: it still asks for the keys that it has.
            self.unnamed.update(key for key in self.delegated if key.encode() in raw)
            return
        keys = self._keys(parsed, names)
        if keys:
            self.payloads[sha256] = payload.rename(raw, keys)
            parsed = payload.read(self.payloads[sha256]) or parsed
        self.packings.update(parsed.packings)

    def _keys(self, parsed: Payload, names: Sequence[tuple[str, ...]]) -> dict[int, str]:
        """Number of a constant of a payload to the name that becomes its key."""
        keys: dict[int, str] = {}
        for number, constant in enumerate(parsed.constants):
            if constant.key not in self.delegated:
                continue
            name = self._name(number, names)
            if not name:
                self.unnamed.add(constant.key)
                continue
            # Weights of equal bytes may have other shapes.
            item = dataclasses.replace(
                self.delegated[constant.key],
                key=name,
                by_name=True,
                dtype=constant.dtype,
                shape=constant.shape,
            )
            self._add_data(item)
            keys[number] = name
            self.renamed.add(constant.key)
        return keys

    def _name(self, number: int, names: Sequence[tuple[str, ...]]) -> str:
        """The name of a constant; empty: it has none."""
        unique = {n[number] if number < len(n) else "" for n in names}
        if len(unique) > 1:
            raise BuildError(
                f"{self.label}: two delegates of equal bytes hold different weights "
                f"({', '.join(sorted(unique))}), so names cannot tell them apart.",
                f"{_BY_CONTENT}.",
            )
        return unique.pop()

    def _add_data(self, item: NamedData) -> None:
        other = self.data.setdefault(item.key, item)
        if other.sha256 != item.sha256:
            raise BuildError(
                f'{self.label}: the name "{item.key}" stands for two different weights: '
                f"{other.describe()} (sha256 {other.sha256}) and {item.describe()} (sha256 "
                f"{item.sha256}).",
                f"{_BY_CONTENT}, or give the layers weights of their own.",
            )


def _check_names(label: str, names: Sequence[str], count: int, reserved: frozenset[str]) -> None:
    for name in names:
        if name in reserved:
            raise BuildError(
                f'{label}: its own weight "{name}" has the name of a key in its shared data.',
                f'Leave it out of the shared data, exclude = ["{name}"], or keep it in the '
                f'program: own_data = ["{name}"].',
            )
    if not names:
        raise BuildError(
            f'{label}: adapter_data = "by_name", but none of the {count} weights of its own has a '
            "name.",
            "An adapter's weights must be parameters or buffers of the model, and not all of them "
            "may be in the shared data.",
        )


def _payloads(lowered: Lowered) -> dict[str, bytes]:
    """The payloads of a program's delegates by sha256: in segments and in its tables."""
    in_segments = {
        s.sha256: lowered.blob(s.sha256) if s.size else b""
        for s in lowered.index.segments
        if s.kind == "delegate"
    }
    return in_segments | inline_payloads(schema.unpack_program(lowered.program()))
