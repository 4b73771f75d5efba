"""Checks a program's files against its manifest: every file, every byte, before anything is loaded.

Files that a user gives are matched with the manifest's by their bytes, then as another adapter that
fits, then by keys, and last by name: two targets' files may have the same name. The runner does the
same (tools/runner/files/file_check.cc).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from etbuild.errors import BuildError

from etlink import manifest, ptd
from etlink.container import REBUILD, sha256_of
from etlink.manifest import File, Manifest, Program
from etlink.named_data import NamedData


def check(known: Manifest, name: str, program: Path, files: Sequence[Path]) -> list[Path]:
    """Checks every byte of a program and of its data files.

    Args:
      known: a manifest that has the program.
      name: of the program in the manifest; empty: the only one.
      program: its .pte file.
      files: data files, in any order; those that the program does not need are left out.

    Returns:
      The data files to load, in the manifest's order.

    Raises:
      BuildError: a file is missing, damaged, or not the one that the program was built with.
    """
    name = name or next(iter(known.programs), "")
    if name not in known.programs:
        raise BuildError(f"{known.label}: its manifest has no program {name}.", REBUILD)
    needs = _Needs(known, name)
    needs.check_program(program)
    matched = needs.match([_DataFile(path) for path in files])
    for path, file in zip(needs.program.data, matched, strict=True):
        if file is None:
            raise BuildError(
                f'{needs.label}: the data file "{path}" ({needs.files[path].label}) is missing.',
                "Give its path, too.",
            )
        needs.check_data(path, file)
    return [file.path for file in matched if file]


class _DataFile:
    """A data file that a user gives; its bytes are read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = manifest.beside(path)
        self.pieces = ptd.read(path)
        self._digests: dict[str, str] = {}

    def digest(self, key: str) -> str:
        """The sha256 of a key's bytes, hex."""
        if key not in self._digests:
            self._digests[key] = sha256_of(self.pieces[key][0])
        return self._digests[key]

    def holds(self, file: File) -> bool:
        """Returns whether it has the bytes that a program was built with."""
        return self.has_keys(file) and all(
            self.pieces[d.key][0].size == d.size and self.digest(d.key) == d.sha256
            for d in file.keys
        )

    def has_keys(self, file: File) -> bool:
        """Returns whether it has the keys that a program asks for."""
        return all(d.key in self.pieces for d in file.keys)

    def adapter(self) -> tuple[Program, File] | None:
        """The program that it is the adapter of, and what it should hold."""
        return manifest.read(self.manifest).adapter() if self.manifest.is_file() else None


class _Needs:
    """Needs of a program, as its manifest has them."""

    def __init__(self, known: Manifest, name: str) -> None:
        self.program = known.programs[name]
        self.label = self.program.label
        self.files = known.files

    def check_program(self, path: Path) -> None:
        expected = self.files[self.program.file]
        size = path.stat().st_size if path.exists() else -1
        digest = sha256_of(path) if size == expected.size else ""
        if size != expected.size or (expected.sha256 and digest != expected.sha256):
            raise BuildError(
                f"{self.label}: {path} is not the program of its manifest: got "
                f"{'no file' if size < 0 else _bytes(size, digest)}, expected "
                f"{_bytes(expected.size, expected.sha256)}.",
                REBUILD,
            )

    def match(self, files: Sequence[_DataFile]) -> list[_DataFile | None]:
        """The file for each of the program's data files; None: it is missing."""

        def is_named(file: _DataFile, path: str) -> bool:
            return file.path.name == Path(path).name

        def is_adapter(file: _DataFile, path: str) -> bool:
            other = file.adapter() if path == self.program.adapter else None
            return other is not None and other[0].interface == self.program.interface

        rules: list[Callable[[_DataFile, str], bool]] = [
            lambda file, path: is_named(file, path) and file.holds(self.files[path]),
            lambda file, path: file.holds(self.files[path]),
            is_adapter,
            lambda file, path: is_named(file, path) and file.has_keys(self.files[path]),
            lambda file, path: file.has_keys(self.files[path]),
            is_named,
        ]
        matched: dict[str, _DataFile] = {}
        left = list(files)
        for rule in rules:
            for path in self.program.data:
                file = next((f for f in left if path not in matched and rule(f, path)), None)
                if file:
                    matched[path] = file
                    left.remove(file)
        if not matched and len(self.program.data) == len(left) == 1:
            # An error about the keys that it lacks says more than "missing".
            return [left[0]]
        return [matched.get(path) for path in self.program.data]

    def check_data(self, path: str, file: _DataFile) -> None:
        expected = self.files[path]
        hashes = {d.key: d.sha256 for d in expected.keys}
        if path == self.program.adapter and self._is_other_adapter(path, file):
            hashes = self._adapter_hashes(path, file)
        missing = sorted(d.key for d in expected.keys if d.key not in file.pieces)
        if missing:
            raise BuildError(
                f"{self.label}: {file.path} is not the data of {expected.label}: {len(missing)} of "
                f'{len(expected.keys)} keys are missing, e.g. "{missing[0]}".',
                "It holds other weights, or those of another recipe. Use the file that was built "
                "with the program.",
            )
        for item in expected.keys:
            _check_key(f"{self.label}: {file.path}", item, file, hashes.get(item.key, ""))

    def _is_other_adapter(self, path: str, file: _DataFile) -> bool:
        """Returns whether a file is another target's: by its manifest, or by name and bytes."""
        other = file.adapter()
        if other:
            return other[1].label != self.files[path].label
        return file.path.name != Path(path).name and not file.holds(self.files[path])

    def _adapter_hashes(self, path: str, file: _DataFile) -> dict[str, str]:
        """Hashes of another adapter's data, which its own manifest gives.

        Raises:
          BuildError: it has no manifest, or is for another program.
        """
        other = file.adapter()
        if other is None:
            raise BuildError(
                f"{self.label}: {file.path} has no adapter's manifest beside it "
                f"({file.manifest.name}), so nothing says that it fits.",
                "Copy the manifest that was built with it.",
            )
        program, adapter = other
        if program.interface == self.program.interface:
            return {d.key: d.sha256 for d in adapter.keys}
        raise BuildError(
            f"{self.label}: the adapter {file.path} ({program.label}) does not fit: "
            f"{_misfit(self.files[path], adapter)}.",
            "Build it with the model, recipe and shared data of the program, and with the same "
            "rank.",
        )


def _check_key(where: str, item: NamedData, file: _DataFile, sha256: str) -> None:
    piece, layout = file.pieces[item.key]
    if layout and layout != item.layout:
        expected = item.layout.describe() if item.layout else "none"
        raise BuildError(
            f'{where}: the tensor "{item.key}" has another type or shape than the program was '
            f"built with: got {layout.describe()}, expected {expected}.",
            "The file is damaged. Use the one that was built with the program.",
        )
    digest = file.digest(item.key) if piece.size == item.size else ""
    if digest != sha256:
        raise BuildError(
            f'{where}: "{item.key}" has other bytes than the program was built with: got '
            f"{_bytes(piece.size, digest)}, expected {_bytes(item.size, sha256)}.",
            "The file is damaged, or holds other weights. Use the one that was built with the "
            "program.",
        )


def _misfit(expected: File, adapter: File) -> str:
    theirs = adapter.by_key()
    for item in expected.keys:
        other = theirs.pop(item.key, None)
        if other is None:
            return f'it has no "{item.key}"'
        if (other.dtype, other.shape) != (item.dtype, item.shape):
            return (
                f'"{item.key}" is {other.dtype} {list(other.shape)}, expected {item.dtype} '
                f"{list(item.shape)} (another rank or base)"
            )
    if theirs:
        return f'it has "{min(theirs)}", which the program does not take'
    return (
        "its names and shapes are the same, but its program differs in base weights, layers or "
        "activation scales (static quantization puts those into the program)"
    )


def _bytes(size: int, sha256: str) -> str:
    return f"{size} bytes, sha256 {sha256}" if sha256 else f"{size} bytes"
