"""Folders of the engines that were fetched for this tool."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

# Written by the rule `engines`, beside this package.
_LISTING = Path(__file__).absolute().parent / "engines.json"


@dataclass(frozen=True)
class Engines:
    """Folders that the engines were unpacked in.

    Args:
        bubblewrap: Debian's packages of bubblewrap.
        buildbox: buildbox-casd and buildbox-run.
        buildgrid: a Python environment with BuildGrid.
        nginx: Debian's packages of nginx.
        worker: a small Linux system, for workers that see nothing of this machine.
    """

    bubblewrap: Path
    buildbox: Path
    buildgrid: Path
    nginx: Path
    worker: Path


def load_engines() -> Engines:
    """The engines of the runfiles that this package is in."""
    listing = json.loads(_LISTING.read_text(encoding="utf-8"))
    runfiles = _LISTING.parents[len(Path(listing["listing"]).parts) - 1]
    # Runfiles are links: what is wanted are the repositories themselves, with all that is in them.
    folders = {
        name: (runfiles / marker).resolve().parent for name, marker in listing["markers"].items()
    }
    return Engines(**folders)


def loaded_with(program: Path, prefix: Path) -> list[str]:
    """The command that starts a program with libraries of the packages that it was unpacked with.

    Through this machine's loader, so that no variable of the environment is needed, which all that
    the program starts would inherit.

    Args:
        program: the program.
        prefix: folder that the packages were unpacked in.
    """
    folders = [prefix / path for path in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")]
    libraries = ":".join(str(folder) for folder in folders)
    return ["/lib64/ld-linux-x86-64.so.2", "--library-path", libraries, str(program)]
