"""Downloading what the locks name, hash-checked by pip."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from . import torch_source
from .errors import InstallError
from .locks import Requirement, canonical
from .pip_tool import Pip, explain
from .progress import Progress, human_size

_WHEEL = re.compile(r"^([A-Za-z0-9._]+)-([^-]+)-(?:\d[^-]*-)?[^-]+-[^-]+-[^-]+\.whl$")


def wheel_identity(file_name: str) -> tuple[str, str]:
    """A wheel's canonical package name and version, from its file name."""
    found = _WHEEL.match(file_name)
    if found is None:
        raise InstallError(
            "a downloaded file is not a wheel",
            where=file_name,
            wanted="name-version-tags.whl",
            todo="report this: the lock must name packages that have wheels",
        )
    return canonical(found[1]), found[2]


def download(
    pip: Pip,
    requirements: Mapping[str, Requirement],
    place: Path,
    progress: Progress,
    *,
    extra_index: str = "",
    extra_index_for: frozenset[str] = frozenset(),
) -> dict[str, Path]:
    """Fetches a wheel per requirement into `place`: name → wheel."""
    place.mkdir(parents=True)
    counter = _Counter(len(requirements), progress)
    apart = [name for name in requirements if name in extra_index_for]
    for name in apart:
        requirement = requirements[name]
        said = pip.run(["index", "versions", "--only-binary", ":all:", name])[1]
        versions = torch_source.available_versions(said)
        decision = torch_source.decide(requirement, versions, sys.platform, extra_index)
        progress.step(f"{name} {requirement.version}: {decision.reason}")
        _fetch(pip, [requirement], place, counter, decision)
    rest = [r for name, r in requirements.items() if name not in apart]
    if rest:
        _fetch(pip, rest, place, counter)
    return _match(requirements, place)


def _fetch(
    pip: Pip,
    requirements: list[Requirement],
    place: Path,
    counter: _Counter,
    decision: torch_source.Decision = torch_source.OWN_SETTINGS,
) -> None:
    names = place / f"{requirements[0].name}.requirements"
    names.write_text("".join(r.line() for r in requirements), encoding="utf-8")
    arguments = ["download", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    arguments += ["--dest", str(place), "--requirement", str(names), *decision.options]
    code, said = pip.run(arguments, counter.line)
    if code:
        what = requirements[0].name if len(requirements) == 1 else f"{len(requirements)} packages"
        doing = " ".join([f"pip download of {what}", *decision.options])
        raise explain(said, doing=doing, hint=decision.hint())
    names.unlink()


def _match(requirements: Mapping[str, Requirement], place: Path) -> dict[str, Path]:
    wheels: dict[str, Path] = {}
    for wheel in sorted(place.iterdir()):
        wheels[wheel_identity(wheel.name)[0]] = wheel
    missing = sorted(set(requirements) - set(wheels))
    if missing:
        raise InstallError(
            "pip ended well but left no wheel for some packages",
            where=place,
            got=", ".join(sorted(wheels)),
            wanted=", ".join(missing),
            todo="run the build again; if it stays so, report it with pip's version",
        )
    return wheels


class _Counter:
    """Turns pip's lines into one line per package."""

    # "Downloading X.whl (191.8 MB)", "Using cached X.whl (…)", "Processing /place/X.whl (from …)"
    _FILE = re.compile(
        r"^\s*(?:Downloading|Using cached|Processing|File was already downloaded)\s+"
        r"(\S+\.whl)(?:\s+\((\d[\d.]* [kMG]?B)\))?(?:\s+\(from [^)]*\)*)?\s*$"
    )

    def __init__(self, total: int, progress: Progress) -> None:
        self._total = total
        self._progress = progress
        self._seen: set[str] = set()

    def line(self, line: str) -> None:
        """Takes a line of pip's output."""
        found = self._FILE.match(line)
        if found is None:
            return
        path = Path(unquote(found[1].removeprefix("file://")))
        name, version = wheel_identity(path.name)
        if name in self._seen:
            return
        self._seen.add(name)
        size = found[2] or (human_size(path.stat().st_size) if path.is_file() else "")
        text = f"{name} {version}" + (f" ({size})" if size else "")
        self._progress.counted(min(len(self._seen), self._total), self._total, text)
