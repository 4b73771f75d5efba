"""Links a lowered program: a .pte, a .ptd if asked for, and a manifest of what it needs.

Linking decides for each weight of a program where it lies: in the program, in a .ptd of its own, or
in a shared .ptd that several programs load (`matching.py`). It computes nothing: tables are edited,
blobs are copied, so it takes as long as a copy and needs no torch.

Two invariants hold. With everything embedded and nothing changed, the .pte has the bytes that
upstream's API wrote; that is checked on every link, and fails if the reader or writer of programs
knows upstream's format no longer. And no key is in two files that a program loads together, as a
runtime refuses that: a key that a shared file holds never goes into the program's own .ptd, even if
the program takes its bytes from elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink import adapter, adapter_values, matching, payload
from etlink.adapter_values import Values
from etlink.assemble import Assembled, Changes, assemble
from etlink.container import Digest, Piece, digest_of, write_atomically
from etlink.data_file import write_data_file
from etlink.declared_sizes import InputSizes
from etlink.json_file import decode
from etlink.lowered import Index, Lowered, check_digest, data_of, tensors_of
from etlink.manifest import File, Manifest, Method, Program, interface, unique_names
from etlink.matching import Matching
from etlink.named_data import NamedData, titles, unique_bytes
from etlink.payload import Packing
from etlink.weight_cache import WeightCache, weight_cache

# Bytes: larger programs are compared by their frame alone, so that linking is a plain copy.
_HASHED = 256 << 20
# Quantizes activations with scales that calibration computed.
_STATIC = "quantized_decomposed::quantize_per_tensor.out"


@dataclass(frozen=True)
class Options:
    """The options of a target.

    Attributes:
      label: the program, for messages; empty: the one that was lowered.
      shared: name and description of each shared data file, as their manifests have them.
      allow_unshared: whether a shared file that gives nothing is accepted.
      own_data: qualified names or patterns of weights that are not taken from shared files.
      min_shared: least amount that must be shared ("95%", "100 MB"); empty: any.
      adapter_data: "by_content" or "by_name": the keys of the program's own data.
      values: of an adapter, to replace the placeholders that were lowered; None: there are none.
    """

    label: str = ""
    shared: Sequence[tuple[str, File]] = ()
    allow_unshared: bool = False
    own_data: Sequence[str] = ()
    min_shared: str = ""
    adapter_data: str = "by_content"
    values: Values | None = None


@dataclass(frozen=True)
class Linked:
    """The outcome of linking.

    Attributes:
      program_bytes: size of the .pte.
      data_bytes: size of the .ptd; 0: none was written.
      embedded: keys of the data in the .pte that could lie outside, sorted.
      separate: keys of the .ptd, sorted.
      shared: per shared file that the program loads its target, its file, keys and bytes.
      unused: targets of shared files that it does not load.
      unshared: data that no shared file holds, the largest first: name, bytes, reason.
      titles: keys to names of weights, where keys are hashes.
      manifest: of the program.
    """

    program_bytes: int
    data_bytes: int
    embedded: tuple[str, ...]
    separate: tuple[str, ...]
    manifest: Manifest
    shared: tuple[dict[str, Any], ...] = ()
    unused: tuple[str, ...] = ()
    unshared: tuple[dict[str, Any], ...] = ()
    titles: dict[str, str] = field(default_factory=dict)


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
      data_path: where its own weights go; None: into the .pte, which then, with nothing shared, has
        the bytes that upstream's API writes.
      options: what is shared, and how.

    Returns:
      What went where.

    Raises:
      BuildError: see `matching.match` and `adapter.by_name`; the recipe itself put data outside of
        the program and there is no data_path; an output cannot be written.
    """
    options = options or Options()
    index = lowered.index
    label = options.label or index.label
    # Names matter only to data that leave the program.
    data = data_of(index) if options.shared or data_path else []
    shared = [file for _, file in options.shared]
    matched = matching.match(label, data, shared, options.allow_unshared, options.own_data)
    _check_external(index, label, data_path, {d.key for d in matched.all_shared})
    if options.min_shared:
        matching.check_min_shared(label, matched, options.min_shared)
    placement = _place(lowered, matched, options, data_path is not None)
    assembled = assemble(lowered, placement.changes)
    if options.values:
        _check_placeholders(label, lowered, placement, matched, assembled, options.values)
    unchanged = placement.changes == Changes()
    if not unchanged or data_path:
        _check_blobs(lowered, {*assembled.hashes, *(d.sha256 for d in placement.separate)})
    digest, frame = _write_program(assembled, index, label, program_path, unchanged)
    own = _write_data(lowered, label, data_path, placement.separate) if data_path else None
    taken = [(*options.shared[n], data) for n, data in matched.shared.items()]
    files = _data_files(data_path if placement.separate else None, own, taken)
    adapter = data_path.name if data_path and placement.adapter else ""
    program = Program(
        label=label,
        file=program_path.name,
        data=tuple(files),
        adapter=adapter,
        interface=interface(frame, matched.all_shared, placement.separate if adapter else ()),
        methods={
            m["name"]: Method(
                backends=tuple(m["backends"]),
                operators=tuple(m["operators"]),
                sizes=decode(tuple[InputSizes, ...], m.get("sizes", [])),
            )
            for m in index.methods
        },
        weight_cache=_weight_cache(index, placement),
    )
    program_file = _described(program_path, label, digest)
    return Linked(
        program_bytes=program_file.size,
        data_bytes=own.size if own else 0,
        embedded=tuple(sorted([d.key for d in placement.embedded] or _all_keys(index, data))),
        separate=tuple(sorted(d.key for d in placement.separate)),
        manifest=Manifest(
            label=label,
            files={program_path.name: program_file, **files},
            programs={program_path.stem: program},
        ),
        shared=tuple(_summary(name, file, data) for name, file, data in taken),
        unused=tuple(f.label for n, f in enumerate(shared) if n not in matched.shared),
        unshared=_unshared(matched) if options.shared else (),
        titles=titles(index.named_data),
    )


def _described(program: Path, label: str, digest: Digest) -> File:
    crc32 = digest.crc32 if digest.crc32 >= 0 else None
    return File(size=program.stat().st_size, sha256=digest.sha256, crc32=crc32, label=label)


def _data_files(
    own_path: Path | None,
    own: File | None,
    taken: Sequence[tuple[str, File, Sequence[NamedData]]],
) -> dict[str, File]:
    """The data files that a program loads, its own first, with the keys that it takes from each."""
    files = {own_path.name: own} if own_path and own else {}
    names = unique_names([*((f.label, name) for name, f, _ in taken), *(("", n) for n in files)])
    for name, (_, file, data) in zip(names, taken, strict=False):
        keys = {item.key for item in data}
        files[name] = dataclasses.replace(file, keys=tuple(d for d in file.keys if d.key in keys))
    return files


def _weight_cache(index: Index, placement: _Placement) -> WeightCache:
    names = {n.key: n.names for n in index.named_data}
    if not placement.changes.payloads:
        return weight_cache(index.packings, names, unread=index.unread)
    names |= {d.key: d.names for d in placement.separate}
    return weight_cache(placement.packings, names, placement.separate, index.unread)


@dataclass(frozen=True)
class _Placement:
    """The places of a program's own data, and the changes of the program.

    Attributes:
      changes: of the program.
      embedded: its own data that stay in it.
      separate: its own data that do not.
      adapter: whether another adapter's file may replace those.
      packings: of the payloads that are changed for that.
    """

    changes: Changes
    embedded: tuple[NamedData, ...]
    separate: tuple[NamedData, ...]
    adapter: bool = False
    packings: tuple[Packing, ...] = ()


def _place(lowered: Lowered, matched: Matching, options: Options, separate: bool) -> _Placement:
    own = [u.data for u in matched.own]
    tensors = tensors_of(lowered.index)
    reserved = frozenset(d.key for n in matched.shared for d in options.shared[n][1].keys)
    named = None
    if separate and options.adapter_data == "by_name":
        named, staying = _place_by_name(lowered, own, options, tensors, reserved)
    elif separate:
        # A key of a shared file cannot be in a second file, too.
        staying = set(reserved)
    else:
        staying = {d.key for d in own}
    leaving = [d for d in own if d.size and d.key not in staying]
    outside = named.data if named else tuple(leaving)
    left_out = frozenset(d.key for d in [*matched.all_shared, *leaving])
    external = {
        tensor: d.key for d in [*matched.all_shared, *outside] for tensor in tensors.get(d.key, ())
    }
    return _Placement(
        changes=Changes(left_out, external, named.payloads if named else {}),
        embedded=tuple(d for d in own if d.key not in left_out),
        separate=outside,
        adapter=named is not None and bool(outside),
        packings=named.packings if named else (),
    )


def _place_by_name(
    lowered: Lowered,
    own: Sequence[NamedData],
    options: Options,
    tensors: Mapping[str, Any],
    reserved: frozenset[str],
) -> tuple[adapter.OwnData, set[str]]:
    """The program's own data by name, and the keys of those that stay in the program."""
    # A name of a shared file cannot be in a second file, too: what own_data names is embedded.
    pinned = {
        d.key
        for d in own
        if d.matches(options.own_data) and not reserved.isdisjoint({d.key, *d.names})
    }
    movable = [d for d in own if d.key not in pinned]
    named = adapter.by_name(lowered, movable, tensors.keys(), reserved)
    if options.values:
        label = options.label or lowered.index.label
        data = adapter_values.with_values(label, named.data, options.values.tensors)
        named = dataclasses.replace(named, data=data)
    return named, {d.key for d in named.kept} | pinned


def _check_placeholders(
    label: str,
    lowered: Lowered,
    placement: _Placement,
    matched: Matching,
    assembled: Assembled,
    values: Values,
) -> None:
    """Fails where something of an adapter's placeholders would leave the linker."""
    replaced = {tensor.name for tensor in values.tensors}
    separate = [d for d in placement.separate if d.key not in replaced]
    others = [*separate, *placement.embedded, *matched.all_shared]
    adapter_values.check_placeholders(label, assembled.hashes, others, values)
    if payload.is_static(lowered.index.packings) or any(
        _STATIC in method["operators"] for method in lowered.index.methods
    ):
        raise BuildError(
            f"{label}: the recipe's static quantization took its activation scales from the "
            "adapter's placeholders.",
            f"Use dynamic or weight-only quantization. {adapter_values.WITHOUT}",
        )


def _check_external(
    index: Index, label: str, data_path: Path | None, shared: Collection[str]
) -> None:
    """Fails where the recipe moves data out of the program, and there is no file for them."""
    outside = [d.key for d in index.named_data if d.key in index.external and d.key not in shared]
    if outside and data_path is None:
        raise BuildError(
            f"{label}: its recipe moves {len(outside)} constants out of the program "
            f'(e.g. "{outside[0]}"), but the program embeds its weights.',
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
            f"{label}: the linked program {path} differs from the one that was lowered: "
            f"got sha256 {digest.sha256}, expected {index.sha256}.",
            "A blob of the lowered program is damaged. Build with an empty cache, and report this.",
        )
    return Digest(index.sha256, digest.crc32), frames[-1]


def _check_blobs(lowered: Lowered, used: Collection[str]) -> None:
    """Checks blobs against the hashes that are their names, as far as reading them is cheap.

    A program that is linked unchanged is compared as a whole; for others nothing else would notice
    that a weight has changed on disk.
    """
    index = lowered.index
    blobs = [*index.segments, *index.constants, *index.named_data]
    sizes = {b.sha256: b.size for b in blobs if b.size and b.sha256 in used}
    if sum(sizes.values()) > _HASHED:
        return
    for sha256, size in sorted(sizes.items()):
        piece = lowered.piece(sha256, size)
        check_digest(piece.path, digest_of(piece).sha256, sha256)


def _write_data(lowered: Lowered, label: str, path: Path, data: Sequence[NamedData]) -> File:
    items = [(d, lowered.piece(d.sha256, d.size)) for d in data]
    return write_data_file(path, label, items, lowered.index.segment_alignment)


def _all_keys(index: Index, data: Sequence[NamedData]) -> list[str]:
    """Keys of a program that keeps all of its data."""
    return [] if data else [n.key for n in index.named_data]


def _summary(name: str, file: File, data: Sequence[NamedData]) -> dict[str, Any]:
    return {
        "label": file.label,
        "file": name,
        "keys": len(data),
        "bytes": unique_bytes(data),
        "file_bytes": file.size,
    }


def _unshared(matched: Matching) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "name": u.data.title(),
            "key": u.data.key,
            "bytes": u.data.size,
            "dtype": u.data.dtype,
            "shape": list(u.data.shape),
            "reason": u.reason,
        }
        for u in matched.largest_own
    )
