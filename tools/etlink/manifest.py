"""The manifest: which programs there are, which files they load, and which bytes each file has.

A runtime pairs a program with weights by key and checks nothing else: a wrong or damaged file gives
wrong numbers or a crash. So whoever writes files writes down what is in them, and whoever reads
them compares before anything is loaded.

There is one kind of document. EtShare writes that of a data file, EtLink that of a program: the
program with the keys that it takes from each data file. An app's is the union of its programs',
with their paths in the app and with its other files; a package's is that of its apps, and a
release's lists archives instead, with what is inside of them. So `union` and `difference` are all
that is ever done with manifests. Paths are relative to the manifest's folder.

An adapter's file is the one that may differ. `Program.interface` is a digest of all that an adapter
depends on: the program's own bytes, the shared bytes, and names, types and shapes of the adapter's
weights, but not their values. Two programs with the same interface take each other's adapters.

tests/manifest has documents with what a reader makes of them, for this reader and for the
runner's (tools/runner/files/manifest.h).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from etbuild.errors import BuildError

from etlink import declared_sizes
from etlink.container import REBUILD, write_text
from etlink.declared_sizes import InputSizes
from etlink.json_file import FormError, check_hash, check_path, encode, json_text, read_file
from etlink.named_data import NamedData
from etlink.variants import Variant
from etlink.weight_cache import WeightCache

FORMAT = 1
SUFFIX = ".manifest.json"

# The runner reads sizes and checksums as numbers of 64 and 32 bits.
_MAX_SIZE = 2**64 - 1
_MAX_CRC32 = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class File:
    """A file.

    Attributes:
      size: bytes.
      sha256: hex; empty: not computed, because the file is large and its keys have theirs.
      crc32: of a program: what a runner can check on every start; None: not computed.
      label: target that makes it; empty: unknown.
      keys: of a data file: what programs take from it, sorted by key.
      contents: of an archive: path inside of it to the file there.
      platforms: of an archive: the platforms that it is for.
      runtime: of an archive: ExecuTorch's version of the runtime in it.
      signing_key: of an archive: "own"; "debug": a public key; empty: it is not signed.
    """

    size: int
    sha256: str = ""
    crc32: int | None = None
    label: str = ""
    keys: tuple[NamedData, ...] = ()
    contents: dict[str, File] = field(default_factory=dict)
    platforms: tuple[str, ...] = ()
    runtime: str = ""
    signing_key: str = ""

    def by_key(self) -> dict[str, NamedData]:
        """Key to data."""
        return {item.key: item for item in self.keys}


@dataclass(frozen=True, kw_only=True)
class Method:
    """Needs of a method.

    Attributes:
      backends: that it delegates to, sorted.
      operators: with overloads ("aten::add.out"), sorted.
      sizes: of inputs with a dynamic dimension.
    """

    backends: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    sizes: tuple[InputSizes, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program, and what it loads.

    Attributes:
      label: target that makes it.
      file: path of the .pte.
      data: paths of the data files that it loads, its own first.
      adapter: the path among those that another adapter's file may replace; empty: none.
      interface: digest of what an adapter must fit.
      methods: by name.
      weight_cache: how XNNPACK's weights are packed; None: unknown, so they are not shared.
      built_from: in a release: "model", "entry_point", "recipe", "backend_packages".
    """

    label: str
    file: str
    data: tuple[str, ...] = ()
    adapter: str = ""
    interface: str = ""
    methods: dict[str, Method] = field(default_factory=dict)
    weight_cache: WeightCache | None = None
    built_from: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Files and programs.

    Attributes:
      label: target that they are of.
      files: by path.
      programs: by name.
      variants: of an app: name to programs that stand for each other, the best first.
      platforms: of an app: the platforms that it is for.
      executorch: ExecuTorch's versions: "exporter", and of an app "runtime".
      binary: path of an app's binary.
      libraries: paths of an app's shared libraries, sorted.
      version: of a release.
      python_packages: of a release: versions of what lowered it, by name: "python" itself, those of
        the "exporter", and those of each backend by label.
      source: of a stamped release: "revisions", "status", "timestamp".
      removed: of the difference to an earlier release: paths that only that has.
    """

    label: str
    files: dict[str, File]
    programs: dict[str, Program] = field(default_factory=dict)
    variants: dict[str, tuple[Variant, ...]] = field(default_factory=dict)
    platforms: tuple[str, ...] = ()
    executorch: dict[str, str] = field(default_factory=dict)
    binary: str = ""
    libraries: tuple[str, ...] = ()
    version: str = ""
    python_packages: dict[str, dict[str, str]] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def code(self) -> set[str]:
        """Paths of what is different on each platform; an installed app may have it elsewhere."""
        return {*self.libraries, *([self.binary] if self.binary else [])}

    def find(self, path: str) -> File:
        """The file of a path, which may lead into an archive.

        Raises:
          KeyError: there is none.
        """
        for parent in PurePosixPath(path).parents:
            archive = self.files.get(str(parent))
            if archive:
                return archive.contents[str(PurePosixPath(path).relative_to(parent))]
        return self.files[path]

    def adapter(self) -> tuple[Program, File] | None:
        """The program with an adapter, and that adapter's file."""
        for program in self.programs.values():
            if program.adapter:
                return program, self.files[program.adapter]
        return None


def read(path: Path) -> Manifest:
    """Reads a manifest.

    Raises:
      BuildError: the file cannot be read, is not a manifest, or has another format.
    """
    problem = "is not a manifest"
    return read_file(Manifest, path, problem, REBUILD, format=FORMAT, extra=True, check=_check)


def write(path: Path, manifest: Manifest) -> None:
    """Writes a manifest: the same bytes for the same contents."""
    write_text(path, text(manifest))


def text(manifest: Manifest) -> str:
    """Returns what `write` writes."""
    return json_text({"format": FORMAT, **encode(manifest)})


def beside(file: Path) -> Path:
    """The path that the manifest of a .pte or .ptd file has, if there is one."""
    return file.with_name(file.stem + SUFFIX)


def union(label: str, manifests: Iterable[Manifest]) -> Manifest:
    """Unites manifests, whose paths are relative to one folder.

    Raises:
      BuildError: a path or a name is that of two different files or programs.
    """
    files: dict[str, File] = {}
    programs: dict[str, Program] = {}
    variants: dict[str, tuple[Variant, ...]] = {}
    for manifest in manifests:
        for path, file in manifest.files.items():
            files[path] = _same_file(label, path, files[path], file) if path in files else file
        for name, program in manifest.programs.items():
            other = programs.setdefault(name, program)
            if other != program:
                raise BuildError(
                    f'{label}: two programs would be "{name}": {other.label} and {program.label}.',
                    "Rename one of them.",
                )
        for name, listed in manifest.variants.items():
            variants[name] = _same_variants(label, name, variants.get(name, ()), listed)
    return Manifest(label=label, files=files, programs=programs, variants=variants)


def _same_variants(
    label: str, name: str, first: tuple[Variant, ...], second: tuple[Variant, ...]
) -> tuple[Variant, ...]:
    """One list for variants of apps for two platforms, each without those of the other platform."""
    longer, shorter = sorted((first, second), key=len, reverse=True)
    if [variant for variant in longer if variant in shorter] != list(shorter):
        raise BuildError(
            f'{label}: "{name}" would be the name of two different lists of variants.',
            "Give all apps the same target with variants, or rename one.",
        )
    return longer


def _same_file(label: str, path: str, first: File, second: File) -> File:
    """One entry for what two manifests say of a file."""
    sums = [f.sha256 for f in (first, second) if f.sha256]
    ours, theirs = first.by_key(), second.by_key()
    twice = [key for key in ours.keys() & theirs.keys() if not ours[key].same_bytes(theirs[key])]
    if first.size != second.size or len(set(sums)) > 1 or twice:
        raise BuildError(
            f'{label}: two files would be "{path}": '
            f"{' and '.join(f'{_bytes_of(f)} of {f.label}' for f in (first, second))}.",
            "Build them in one configuration, or rename one of the targets.",
        )
    both = ours | theirs
    return dataclasses.replace(
        first,
        sha256=first.sha256 or second.sha256,
        crc32=second.crc32 if first.crc32 is None else first.crc32,
        label=first.label or second.label,
        keys=tuple(both[key] for key in sorted(both)),
    )


def _bytes_of(file: File) -> str:
    return f"{file.size} bytes" + (f" (sha256 {file.sha256})" if file.sha256 else "")


def moved(manifest: Manifest, paths: Mapping[str, str], names: Mapping[str, str]) -> Manifest:
    """Gives files and programs other paths and names.

    Args:
      manifest: the manifest.
      paths: old to new path of each file.
      names: old to new name of each program.
    """
    programs = {
        names[name]: dataclasses.replace(
            program,
            file=paths[program.file],
            data=tuple(paths[path] for path in program.data),
            adapter=paths[program.adapter] if program.adapter else "",
        )
        for name, program in manifest.programs.items()
    }
    files = {paths[path]: file for path, file in manifest.files.items()}
    variants = {
        group: tuple(dataclasses.replace(v, program=names[v.program]) for v in listed)
        for group, listed in manifest.variants.items()
    }
    return dataclasses.replace(manifest, files=files, programs=programs, variants=variants)


def difference(before: Manifest, after: Manifest) -> Manifest:
    """Lists what to fetch and to delete to get from one manifest's files to another's.

    Returns:
      A manifest of the files that `before` lacks or has with other bytes, without their contents.
    """
    changed = {
        path: dataclasses.replace(file, keys=(), contents={})
        for path, file in sorted(after.files.items())
        if path not in before.files
        or (before.files[path].size, before.files[path].sha256) != (file.size, file.sha256)
    }
    removed = tuple(sorted(before.files.keys() - after.files.keys()))
    return Manifest(label=after.label, version=after.version, files=changed, removed=removed)


def unique_names(targets: Sequence[tuple[str, str]]) -> list[str]:
    """File names for targets: their own, with the package in front where two are equal.

    Args:
      targets: (label, name) of each.
    """
    count = Counter(name for _, name in set(targets))
    return [name if count[name] == 1 else f"{_package(label)}_{name}" for label, name in targets]


def _package(label: str) -> str:
    package = label.rsplit(":", 1)[0].lstrip("@").replace("//", "/").strip("/")
    return package.replace("/", "_").replace("~", "_") or "root"


def interface(frame: str, shared: Iterable[NamedData], adapter: Iterable[NamedData]) -> str:
    """Digests what an adapter fits: the program, the shared bytes, and the adapter's shapes.

    Args:
      frame: digest of the program's tables and of the blobs that it holds.
      shared: what the program takes from shared files.
      adapter: its own data that another adapter may replace.

    Returns:
      A digest: two programs with the same one take each other's adapters.
    """
    own = {d.key: [d.dtype, list(d.shape), d.size] for d in adapter}
    hashes = {d.key: d.sha256 for d in shared}
    text = json.dumps({"program": frame, "shared": hashes, "adapter": own}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _check(manifest: Manifest) -> None:
    """Fails for a manifest whose parts do not fit together."""
    for path, file in manifest.files.items():
        where = f'it.files["{path}"]'
        check_path(path, "a path of it.files")
        _check_file(file, where)
    for name, program in manifest.programs.items():
        where = f'it.programs["{name}"]'
        # The program's outputs go to a folder of that name.
        check_path(name, "a name of it.programs")
        for path in (program.file, *program.data):
            if path not in manifest.files and not _is_in_archive(path, manifest):
                raise FormError(f'{where} needs the file "{path}", which is not in it.files')
        if program.adapter and program.adapter not in program.data:
            raise FormError(f'{where}.adapter is "{program.adapter}", expected one of its data')
        for method, about in program.methods.items():
            declared_sizes.check(about.sizes, f'{where}.methods["{method}"].sizes')
    _check_variants(manifest)
    for path in sorted(manifest.code()):
        check_path(path, "a path of it.binary or it.libraries")


def _check_variants(manifest: Manifest) -> None:
    free = set(manifest.programs)
    for name, variants in manifest.variants.items():
        check_path(name, "a name of it.variants")
        if name in manifest.programs:
            raise FormError(f'it.variants has the name "{name}", which is that of a program')
        if not variants:
            raise FormError(f'it.variants["{name}"] has no program, expected at least one')
        for variant in variants:
            if variant.program not in free:
                raise FormError(
                    f'it.variants["{name}"] has the program "{variant.program}", '
                    "expected one of it.programs that is no variant yet"
                )
            free.remove(variant.program)


def _is_in_archive(path: str, manifest: Manifest) -> bool:
    """Returns whether a path leads into an archive of a release."""
    return any(str(parent) in manifest.files for parent in PurePosixPath(path).parents)


def _check_file(file: File, where: str) -> None:
    _check_sums(file.size, file.sha256, file.crc32, where)
    keys = [item.key for item in file.keys]
    for number, item in enumerate(file.keys):
        inner = f"{where}.keys[{number}]"
        check_hash(item.sha256, f"{inner}.sha256")
        _check_sums(item.size, item.sha256, item.crc32, inner)
        if number and keys[number - 1] >= item.key:
            raise FormError(f'{where}.keys are not sorted: "{keys[number - 1]}", "{item.key}"')


def _check_sums(size: int, sha256: str, crc32: int | None, where: str) -> None:
    if sha256:
        check_hash(sha256, f"{where}.sha256")
    for name, value, most in (("size", size, _MAX_SIZE), ("crc32", crc32 or 0, _MAX_CRC32)):
        if value > most:
            raise FormError(f"{where}.{name} is {value}, expected at most {most}")
