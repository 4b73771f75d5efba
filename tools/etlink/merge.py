"""Merges data files into one: the Python runtime loads one, the C++ Module any number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from etbuild.errors import BuildError

from etlink import manifest, ptd, pte
from etlink.container import Piece, write_atomically
from etlink.data_index import describe_key
from etlink.named_data import NamedData


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
    data: list[tuple[NamedData, Piece]] = []
    owner: dict[str, Path] = {}
    for file in files:
        for key, (piece, layout) in ptd.read(file).items():
            if key in owner:
                raise BuildError(f'{file} and {owner[key]} both have the key "{key}".')
            owner[key] = file
            data.append((describe_key(key, piece, layout), piece))
    write_atomically(path, lambda out: ptd.write(out, data))
    return path


def checked(
    manifest_path: Path | None, program: Path, files: Sequence[Path], folder: Path
) -> Path | None:
    """Checks what is handed to ExecuTorch's Python runtime together with a program.

    Args:
      manifest_path: of the program; None: the files are taken as they are.
      program: the .pte file.
      files: data files; those that the manifest does not list are left out.
      folder: where a file that holds several of them is written.

    Returns:
      The data file; None: the program needs none.

    Raises:
      BuildError: a file is missing, damaged, or not the one that the program was built with.
    """
    if manifest_path:
        files = manifest.check(manifest.read(manifest_path), program, files)
    elif program.is_file():
        # The runtime trusts a program's tables.
        pte.read(program)
    return merge(files, folder / "merged.ptd") if files else None
