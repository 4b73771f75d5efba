"""Keys by name for a program's own data: one program that runs with many adapters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from etbuild.errors import BuildError

from etlink import payload, schema
from etlink.data import Datum
from etlink.lowered import Lowered
from etlink.payload import Packing
from etlink.tables import inline_payloads


@dataclass(frozen=True)
class Named:
    """A program's own data, by name.

    Attributes:
      data: what goes into the adapter's file, sorted by key; every key is a name.
      kept: what stays in the program: it has no name.
      payloads: sha256 of a delegate's payload to the bytes that stand in for it.
      packings: weights that XNNPACK packs, with the keys that they then have.
    """

    data: tuple[Datum, ...]
    kept: tuple[Datum, ...]
    payloads: dict[str, bytes]
    packings: tuple[Packing, ...]


def by_name(lowered: Lowered, own: Iterable[Datum], reserved: frozenset[str]) -> Named:
    """Gives a program's own data stable keys: the names of its weights.

    Tensors that the runtime loads have such keys. Delegates load by a sha256, which is different in
    every adapter: their payloads are changed to ask for names.

    Args:
      lowered: the program.
      own: data that are not shared.
      reserved: keys of the shared files that the program loads.

    Raises:
      BuildError: a name would stand for two data; nothing has a name; a name is a
        shared file's key.
    """
    label = lowered.index.label
    own = [d for d in own if d.size]
    portable = {d.key: d for d in own if d.tensors and d.by_name}
    delegated = {d.key: d for d in own if not d.tensors}
    found = dict(portable)
    renamed: set[str] = set()
    unnamed: set[str] = set()
    payloads: dict[str, bytes] = {}
    packings: set[Packing] = set()
    listed: dict[str, list[tuple[str, ...]]] = {}
    for item in lowered.index.payloads:
        listed.setdefault(item.blob, []).append(item.names)
    for blob, raw in _payloads(lowered).items():
        names = listed.get(blob, [()])
        parsed = payload.read(raw)
        if parsed is None:
            # Another backend's: it goes on asking for the keys that it has.
            unnamed.update(key for key in delegated if key.encode() in raw)
            continue
        keys: dict[int, str] = {}
        for place, constant in enumerate(parsed.constants):
            if constant.key not in delegated:
                continue
            called = {n[place] if place < len(n) else "" for n in names}
            if len(called) > 1:
                raise BuildError(
                    f"{label}: two delegates of equal bytes hold different weights "
                    f"({', '.join(sorted(called))}), so they can't be told apart by name.",
                    'Use adapter_data = "by_content".',
                )
            name = called.pop()
            if not name:
                unnamed.add(constant.key)
                continue
            # Weights of equal bytes may have other shapes.
            datum = dataclasses.replace(
                delegated[constant.key],
                key=name,
                by_name=True,
                dtype=constant.dtype,
                shape=constant.shape,
            )
            before = found.setdefault(name, datum)
            if before.blob != datum.blob:
                raise BuildError(
                    f'{label}: the name "{name}" stands for two data: {before.described()} '
                    f"(sha256 {before.blob}) and {datum.described()} (sha256 {datum.blob}).",
                    'Use adapter_data = "by_content", or give the layers weights of their own.',
                )
            keys[place] = name
            renamed.add(constant.key)
        if keys:
            payloads[blob] = payload.rename(raw, keys)
            parsed = payload.read(payloads[blob]) or parsed
        packings.update(parsed.packings)
    kept = [d for d in own if d.key not in portable and d.key not in renamed - unnamed]
    for key in sorted(found):
        if key in reserved:
            raise BuildError(
                f'{label}: its own weight "{key}" has the name of a key in its shared data.',
                f'Leave it out of the shared data, exclude = ["{key}"], or keep it in the program: '
                f'own_data = ["{key}"].',
            )
    if not found:
        raise BuildError(
            f'{label}: adapter_data = "by_name", but none of the {len(own)} data that are its own '
            "has a name.",
            "An adapter's weights must be parameters or buffers of the model, and not all of them "
            "may be in the shared data.",
        )
    data = tuple(found[key] for key in sorted(found))
    return Named(data, tuple(kept), payloads, tuple(sorted(packings)))


def _payloads(lowered: Lowered) -> dict[str, bytes]:
    """The payloads of a program's delegates by sha256: in segments and in its tables."""
    found = {
        s.blob: lowered.blob(s.blob) if s.size else b""
        for s in lowered.index.segments
        if s.kind == "delegate"
    }
    return found | inline_payloads(schema.unpack_program(lowered.program()))
