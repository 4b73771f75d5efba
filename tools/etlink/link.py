"""Links a lowered program: a .pte, a .ptd if asked for, and a manifest of what it needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink import adapter, adapter_values, manifest, payload, ptd, shared, sharing
from etlink.adapter_values import Values
from etlink.assemble import Assembled, Changes, assemble
from etlink.container import Digest, Piece, digest_of, write_atomically
from etlink.data import Datum, data_of, unique_bytes
from etlink.lowered import Index, Lowered, check_digest
from etlink.payload import Packing
from etlink.shared import DataIndex, is_named
from etlink.sharing import Plan

# Bytes: larger programs are compared by their frame alone, so that linking is a plain copy.
_HASHED = 256 << 20
# Quantizes activations by scales that calibration found.
_STATIC = "quantized_decomposed::quantize_per_tensor.out"


@dataclass(frozen=True)
class Options:
    """What a target asks for.

    Attributes:
      label: the program, for messages; empty: the one that was lowered.
      shared: indices of the shared data files.
      allow_unshared: whether a shared file that gives nothing is accepted.
      own_data: qualified names or patterns that are not taken from shared files.
      min_shared: least amount that must be shared ("95%", "100 MB"); empty: any.
      adapter_data: "by_content" or "by_name".
      values: of an adapter in whose place others were lowered; None: the lowering has its own.
    """

    label: str = ""
    shared: Sequence[DataIndex] = ()
    allow_unshared: bool = False
    own_data: Sequence[str] = ()
    min_shared: str = ""
    adapter_data: str = "by_content"
    values: Values | None = None


@dataclass(frozen=True)
class Linked:
    """What linking wrote.

    Attributes:
      program_bytes: size of the .pte.
      data_bytes: size of the .ptd; 0: none was written.
      embedded: keys of the data in the .pte that could lie outside, sorted.
      separate: keys of the .ptd, sorted.
      shared: per shared file that the program loads its target, its file, keys and bytes.
      unused: targets of shared files that it doesn't load.
      unshared: data that no shared file holds, the largest first: name, bytes, reason.
      manifest: see `manifest.make`.
    """

    program_bytes: int
    data_bytes: int
    embedded: tuple[str, ...]
    separate: tuple[str, ...]
    shared: tuple[dict[str, Any], ...] = ()
    unused: tuple[str, ...] = ()
    unshared: tuple[dict[str, Any], ...] = ()
    manifest: dict[str, Any] = field(default_factory=dict)


def link(
    lowered: Lowered,
    program_path: Path,
    data_path: Path | None = None,
    options: Options | None = None,
) -> Linked:
    """Links a program.

    Args:
      lowered: the lowered program.
      program_path: the .pte to write.
      data_path: where its own weights go, with an index beside it (`<stem>.index.json`); None: into
        the .pte, which then, with nothing shared, has the bytes that upstream's API writes.
      options: what is shared, and how.

    Returns:
      What went where.

    Raises:
      BuildError: see `sharing.plan` and `adapter.by_name`; the recipe itself put data outside of
        the program and there is no data_path; an unwritable output.
    """
    options = options or Options()
    index = lowered.index
    label = options.label or index.label
    # Names matter only to data that leave the program.
    data = data_of(index) if options.shared or data_path else []
    made = sharing.plan(label, data, options.shared, options.allow_unshared, options.own_data)
    _check_external(index, label, data_path, made.shared_keys)
    if options.min_shared:
        sharing.check_min_shared(label, made, options.min_shared)
    placed = _place(lowered, made, options, data_path is not None)
    assembled = assemble(lowered, placed.changes)
    if options.values:
        _check_placeholders(label, lowered, placed, made, assembled, options.values)
    unchanged = placed.changes == Changes()
    if not unchanged or data_path:
        _check_blobs(lowered, {*assembled.blobs, *(d.blob for d in placed.separate)})
    digest, frame = _write_program(assembled, index, label, program_path, unchanged)
    files = [
        manifest.DataFile(options.shared[n].file, options.shared[n].label, "shared", made.shared[n])
        for n in made.files
    ]
    if data_path and placed.separate:
        kind = "adapter" if options.adapter_data == "by_name" else "own"
        files.insert(0, manifest.DataFile(data_path.name, label, kind, placed.separate))
    cache = _weight_cache(index, placed)
    described = manifest.make(label, program_path, digest, frame, files, cache)
    if data_path:
        _write_data(lowered, label, data_path, placed.separate, described["interface"])
    return Linked(
        program_path.stat().st_size,
        data_path.stat().st_size if data_path else 0,
        tuple(sorted([d.key for d in placed.embedded] or _named(index, data))),
        tuple(sorted(d.key for d in placed.separate)),
        tuple(_shared_summary(options.shared[n], made.shared[n]) for n in made.files),
        tuple(i.label for n, i in enumerate(options.shared) if n not in made.files),
        _unshared(made) if options.shared else (),
        described,
    )


def _weight_cache(index: Index, placed: _Placed) -> manifest.WeightCache:
    names = {n.key: n.names for n in index.named_data}
    if not placed.changes.payloads:
        return manifest.weight_cache(index.packings, names, unread=index.unread)
    names |= {d.key: d.names for d in placed.separate}
    return manifest.weight_cache(placed.packings, names, placed.separate, index.unread)


@dataclass(frozen=True)
class _Placed:
    """Where a program's data go, and how that changes the program.

    Attributes:
      changes: of the program.
      embedded: its own data that stay in it.
      separate: its own data that don't.
      packings: of the payloads that are changed for that.
    """

    changes: Changes
    embedded: tuple[Datum, ...]
    separate: tuple[Datum, ...]
    packings: tuple[Packing, ...] = ()


def _place(lowered: Lowered, made: Plan, options: Options, separate: bool) -> _Placed:
    own = [u.datum for u in made.own]
    reserved = frozenset(e.key for n in made.files for e in options.shared[n].entries)
    named = None
    if separate and options.adapter_data == "by_name":
        # A name of a shared file can't be in a second file, too: what own_data names is embedded.
        pinned = {
            d.key
            for d in own
            if is_named(d, options.own_data) and not reserved.isdisjoint({d.key, *d.names})
        }
        named = adapter.by_name(lowered, [d for d in own if d.key not in pinned], reserved)
        if options.values:
            label = options.label or lowered.index.label
            named = dataclasses.replace(
                named,
                data=adapter_values.exchanged(label, named.data, options.values.tensors),
            )
        staying = {d.key for d in named.kept} | pinned
    elif separate:
        # A key of a shared file can't be in a second file, too.
        staying = set(reserved)
    else:
        staying = {d.key for d in own}
    leaving = [d for d in own if d.size and d.key not in staying]
    outside = named.data if named else tuple(leaving)
    left_out = made.shared_keys | {d.key for d in leaving}
    external = {
        place: d.key
        for d in [*(d for found in made.shared.values() for d in found), *outside]
        for place in d.tensors
    }
    changes = Changes(left_out, external, named.payloads if named else {})
    embedded = tuple(d for d in own if d.key not in left_out)
    return _Placed(changes, embedded, outside, named.packings if named else ())


def _check_placeholders(
    label: str, lowered: Lowered, placed: _Placed, made: Plan, assembled: Assembled, values: Values
) -> None:
    """Fails where something of what was lowered in an adapter's place would leave the linker."""
    exchanged = {tensor.name for tensor in values.tensors}
    separate = [d for d in placed.separate if d.key not in exchanged]
    taken = [d for found in made.shared.values() for d in found]
    adapter_values.check_left(label, assembled.blobs, [*separate, *placed.embedded, *taken], values)
    if payload.is_static(lowered.index.packings) or any(
        _STATIC in method["operators"] for method in lowered.index.methods
    ):
        raise BuildError(
            f"{label}: the recipe's static quantization took its activation scales from a model "
            "with values of no adapter.",
            f"Use dynamic or weight-only quantization. {adapter_values.WITHOUT}",
        )


def _check_external(
    index: Index, label: str, data_path: Path | None, elsewhere: frozenset[str]
) -> None:
    outside = [n for n in index.named_data if n.external and n.key not in elsewhere]
    if outside and data_path is None:
        raise BuildError(
            f"{label}: its recipe moves {len(outside)} constants out of the program "
            f'(e.g. "{outside[0].key}"), but the program embeds its weights.',
            'Set weights = "separate" on the program.',
        )


def _write_program(
    assembled: Assembled, index: Index, label: str, path: Path, unchanged: bool
) -> tuple[Digest, str]:
    """Writes the .pte; returns its digest, as far as reading it again is cheap, and its frame."""
    frames: list[str] = []
    write_atomically(path, lambda out: frames.append(assembled.write(out)))
    small = path.stat().st_size <= _HASHED
    digest = digest_of(Piece.of_file(path)) if small else Digest("", -1)
    if not unchanged:
        return digest, frames[-1]
    # The promise of byte identity is checked on every link, not only in tests.
    if frames[-1] != index.frame or (small and digest.sha256 != index.sha256):
        path.unlink()
        raise BuildError(
            f"{label}: the linked program differs from the one that was lowered: got sha256 "
            f"{digest.sha256}, wanted {index.sha256}.",
            "A blob of the lowered program is damaged; build with an empty cache and report this.",
        )
    return Digest(index.sha256, digest.crc32), frames[-1]


def _check_blobs(lowered: Lowered, used: Collection[str]) -> None:
    """Checks blobs by their names, as far as reading them is cheap.

    What is linked as upstream's API writes it is compared as a whole; nothing else would notice
    here that a weight has changed on disk.
    """
    index = lowered.index
    sizes = {s.blob: s.size for s in index.segments}
    sizes |= {c.blob: c.size for c in index.constants} | {n.blob: n.size for n in index.named_data}
    known = {blob: sizes[blob] for blob in used if sizes.get(blob)}
    if sum(known.values()) > _HASHED:
        return
    for blob in sorted(known):
        piece = lowered.piece(blob, known[blob])
        check_digest(piece.path, digest_of(piece).sha256, blob)


def _write_data(
    lowered: Lowered, label: str, path: Path, data: Sequence[Datum], interface: str
) -> None:
    entries = [d.entry(lowered) for d in data]
    write_atomically(path, lambda out: ptd.write(out, entries, lowered.index.segment_alignment))
    listed = tuple(sorted(shared.entries_of(data, label), key=lambda e: e.key))
    index = DataIndex(label, path.name, path.stat().st_size, listed, interface)
    shared.write_index(path.with_suffix(".index.json"), index)


def _named(index: Index, data: Sequence[Datum]) -> list[str]:
    """Keys of a program that keeps all of its data."""
    return [] if data else [n.key for n in index.named_data]


def _shared_summary(index: DataIndex, data: Sequence[Datum]) -> dict[str, Any]:
    return {
        "label": index.label,
        "file": index.file,
        "keys": len(data),
        "bytes": unique_bytes(data),
        "file_bytes": index.size,
    }


def _unshared(made: Plan) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "name": u.datum.title(),
            "key": u.datum.key,
            "bytes": u.datum.size,
            "dtype": u.datum.dtype,
            "shape": list(u.datum.shape),
            "reason": u.reason,
        }
        for u in made.largest_own
    )
