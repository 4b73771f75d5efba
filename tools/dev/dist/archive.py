"""Packs a commit as the release archive: `bazel run //tools/dev/dist:archive -- dist`.

The archive is `<module>-<version>.tar.gz`, all in a folder `<module>-<version>`, without what
.gitattributes leaves out. The same files give the same bytes: names are sorted, and times, users
and other permissions than "executable" are left out.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path


class ArchiveError(Exception):
    """Something a person has to put right."""


def git(workspace: Path, *arguments: str) -> bytes:
    """Runs a git command and returns its output.

    Raises:
      ArchiveError: it failed.
    """
    try:
        done = subprocess.run(["git", *arguments], cwd=workspace, capture_output=True, check=False)
    except FileNotFoundError:
        raise ArchiveError("git is not on PATH; it knows which files belong to a release") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise ArchiveError(f"git {' '.join(arguments)}, in {workspace}, failed: {said}")
    return done.stdout


def module_line(text: str, where: str) -> tuple[str, str]:
    """Name and version of a MODULE.bazel.

    Args:
      text: of the file.
      where: what it is, for messages.

    Raises:
      ArchiveError: it has none.
    """
    call = re.search(r"^module\((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    matches = [
        re.search(rf'^\s*{key} = "([^"]+)"', call[1] if call else "", re.MULTILINE)
        for key in ("name", "version")
    ]
    if not all(matches):
        raise ArchiveError(f"{where} has no module() with a name and a version")
    return matches[0][1], matches[1][1]


def pack(exported: bytes, prefix: str) -> bytes:
    """The archive of what `git archive` wrote.

    Args:
      exported: a tar.
      prefix: name of the folder that all is in.
    """
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(exported)) as source,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out,
    ):
        for member in sorted(source.getmembers(), key=lambda m: m.name):
            if member.isdir():
                continue
            entry = tarfile.TarInfo(f"{prefix}/{member.name}")
            entry.mode = 0o755 if member.mode & 0o100 else 0o644
            entry.type, entry.linkname = member.type, member.linkname
            entry.size = member.size if member.isreg() else 0
            out.addfile(entry, source.extractfile(member) if member.isreg() else None)
    return gzip.compress(packed.getvalue(), compresslevel=9, mtime=0)


def make(workspace: Path, folder: Path, revision: str = "HEAD") -> Path:
    """Writes the archive of a commit.

    Args:
      workspace: a folder with a git repository.
      folder: where to write it; made if it isn't there.
      revision: which commit.

    Returns:
      Its path.

    Raises:
      ArchiveError: git can't, or the commit has no module.
    """
    text = git(workspace, "show", f"{revision}:MODULE.bazel").decode()
    name, version = module_line(text, f"MODULE.bazel of {revision}")
    prefix = f"{name}-{version}"
    data = pack(git(workspace, "archive", "--format=tar", revision), prefix)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{prefix}.tar.gz"
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(data)
    partial.replace(path)
    return path


def integrity(path: Path) -> str:
    """The file's hash as Bazel writes it: "sha256-<base64>"."""
    return "sha256-" + base64.b64encode(hashlib.sha256(path.read_bytes()).digest()).decode()


def main(arguments: list[str]) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="archive", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="where to write the archive")
    parser.add_argument("--revision", default="HEAD", help="the commit to pack (default: HEAD)")
    options = parser.parse_args(arguments)
    workspace = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    here = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    try:
        path = make(workspace, here / options.folder, options.revision)
    except ArchiveError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{path}\n  integrity = {integrity(path)!r}\n  strip_prefix = {path.name[:-7]!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
