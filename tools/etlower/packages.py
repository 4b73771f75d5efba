"""Needs of a backend beside the exporter's environment: packages, programs, an SDK."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_FLAG = "--packages"

# What programs of a layer are started with; toolchains/exporter/install writes their launchers.
_INTERPRETER = "RULES_EXECUTORCH_INTERPRETER"
_PATH = "RULES_EXECUTORCH_PATH"

# Folders of programs, joined by colons; set by the scripts that lower outside of an action.
PROGRAMS = "ET_PROGRAMS"

_SYSTEM_PATH = "/usr/bin:/bin"


@dataclass(frozen=True)
class Packages:
    """Packages of one backend.

    Attributes:
      stamp: a file beside which all the others lie.
      roots: folders that Python imports from.
      programs: folders for PATH.
      variables: environment variables: name to file or folder.
    """

    stamp: Path
    roots: tuple[Path, ...]
    programs: tuple[Path, ...]
    variables: dict[str, Path]


# What this process was started with.
_installed: list[Packages] = []


def installed() -> list[Path]:
    """Folders and files of the packages that this process has."""
    return [
        path
        for each in _installed
        for path in (*each.roots, *each.programs, *each.variables.values())
    ]


def install_given(arguments: Sequence[str]) -> list[str]:
    """Installs what a command line names; returns the other arguments.

    These flags are part of how a worker is started, and so of its key: it serves the requests of
    one set of packages.
    """
    others = list(arguments)
    given = []
    while others[:1] == [_FLAG]:
        given.append(parse(others[1]))
        others = others[2:]
    install(given)
    return others


def parse(text: str) -> Packages:
    """Reads a flag's value.

    Args:
      text: a JSON object of paths.
    """
    raw = json.loads(text)
    stamp = Path(raw["stamp"]).absolute()

    def existing(path: str) -> Path:
        return _existing(Path(path).absolute(), stamp)

    return Packages(
        stamp=stamp,
        roots=tuple(existing(path) for path in raw["roots"]),
        programs=tuple(existing(path) for path in raw["programs"]),
        variables={name: existing(path) for name, path in sorted(raw["variables"].items())},
    )


def install(packages: Iterable[Packages]) -> None:
    """Makes packages importable, behind those of the exporter, and their programs startable."""
    programs: list[str] = []
    for each in packages:
        _installed.append(each)
        sys.path.extend(str(root) for root in each.roots if str(root) not in sys.path)
        programs += [str(folder) for folder in each.programs]
        os.environ.update({name: str(path) for name, path in each.variables.items()})
    _make_startable(programs)


def install_programs() -> None:
    """Makes the programs startable that the variable `PROGRAMS` has the folders of."""
    _make_startable([folder for folder in os.environ.get(PROGRAMS, "").split(os.pathsep) if folder])


def _make_startable(programs: Sequence[str]) -> None:
    if not programs:
        return
    os.environ["PATH"] = os.pathsep.join([*programs, os.environ.get("PATH", _SYSTEM_PATH)])
    os.environ[_INTERPRETER] = sys.executable
    os.environ[_PATH] = os.pathsep.join(sys.path)
    importlib.invalidate_caches()


def _existing(path: Path, stamp: Path) -> Path:
    """A path; where Bazel left the folder out, the same one elsewhere.

    Bazel's sandbox for multiplex workers holds files only; the stamp is a link to the real one. On
    remote workers Bazel before 8.3 has folders of runfiles only where they lie for actions.
    """
    base, real = stamp.parent, Path(os.path.realpath(stamp)).parent
    if path.exists() or not path.is_relative_to(base):
        return path
    relative = path.relative_to(base)
    root, inside, repository = str(base).rpartition(".runfiles/")
    for_actions = Path(root.rpartition("/bazel-out/")[0] or "/", "external", repository)
    if inside and (for_actions / relative).exists():
        return for_actions / relative
    return real / relative
