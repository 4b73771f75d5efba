"""One data file out of several: the Python runtime loads one, the C++ Module any number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from etbuild.errors import BuildError

from etlink import manifest, ptd, pte
from etlink.container import sha256_of, write_atomically


def merge(files: Sequence[Path], path: Path) -> Path:
    """Writes the union of data files.

    Args:
      files: .ptd files.
      path: the .ptd to write.

    Returns:
      A file with all keys: the only one of `files`, or `path`.

    Raises:
      BuildError: a file is damaged; two have the same key, which a runtime refuses, too.
    """
    if len(files) == 1:
        return files[0]
    entries: dict[str, ptd.Entry] = {}
    owner: dict[str, Path] = {}
    for file in files:
        for key, (piece, layout) in ptd.read(file).items():
            if key in entries:
                raise BuildError(f'{file} and {owner[key]} both have the key "{key}".')
            blob = sha256_of(piece)
            entries[key], owner[key] = ptd.Entry(key, blob, piece, 1, layout), file
    write_atomically(path, lambda out: ptd.write(out, list(entries.values())))
    return path


def checked(place: Path | None, program: Path, files: Sequence[Path], folder: Path) -> Path | None:
    """What to hand to ExecuTorch's Python runtime beside a program.

    Args:
      place: the program's manifest; None: the files are taken as they are.
      program: the .pte file.
      files: data files; those that the manifest doesn't ask for are left out.
      folder: where a file that holds several of them is written.

    Returns:
      The data file; None: the program needs none.

    Raises:
      BuildError: a file is missing, damaged, or another one than the program was built with.
    """
    if place:
        files = manifest.check(manifest.read(place), program, files)
    elif program.is_file():
        # The runtime takes a program's tables at their word.
        pte.read(program)
    return merge(files, folder / "merged.ptd") if files else None
