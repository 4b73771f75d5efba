"""Puts what a package unpacked to into a tree of packages, and nowhere else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bootstrap.console import BootstrapError

_REFUSED = "Do not use this package: fetch it again, and if it stays so, report it to its archive."


def merge(source: Path, target: Path, name: str) -> None:
    """Moves all that lies in a directory into another one, over what is there.

    A link that another package brought is followed only as far as it stays in the tree.

    Args:
        source: what one package unpacked to, in a directory of its own; it is empty afterwards.
        target: the tree.
        name: of the package, for messages.

    Raises:
        BootstrapError: it holds something other than files, links and directories, or would write
            outside of the tree.
    """
    root = Path(os.path.realpath(target))
    waiting = [(source, target)]
    while waiting:
        folder, place = waiting.pop()
        _make_directory(folder, place, root, name)
        for entry in sorted(os.scandir(folder), key=lambda e: e.name):
            mode = entry.stat(follow_symlinks=False).st_mode
            destination = place / entry.name
            if stat.S_ISDIR(mode):
                waiting.append((Path(entry.path), destination))
            elif not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                kind = "a device, a pipe or a socket"
                raise _refused(name, destination, root, f"holds {kind}", "")
            elif destination.is_dir() and not destination.is_symlink():
                raise _refused(name, destination, root, "has a file", "where a directory is")
            else:
                os.replace(entry.path, destination)


def _make_directory(folder: Path, place: Path, root: Path, name: str) -> None:
    real = Path(os.path.realpath(place))
    if real != root and root not in real.parents:
        raise _refused(name, place, root, "would write", f"through a link to {real}")
    if not real.is_dir():
        if os.path.lexists(real):
            raise _refused(name, place, root, "has a directory", "where a file is")
        real.mkdir()
        real.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IRWXU)


def _refused(name: str, place: Path, root: Path, does: str, how: str) -> BootstrapError:
    where = os.path.relpath(place, root)
    return BootstrapError(f"{name} {does} {how + ' ' if how else ''}at {where}", [_REFUSED])
