"""Lock files: requirement files in which every line is `name==version` with sha256 hashes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import InstallError
from .markers import matches

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;]+)\s*(?:;\s*(.*))?$")
_HASH = re.compile(r"^sha256:[0-9a-f]{64}$")
_REGENERATE = (
    "write the lock again with `bazel run @rules_executorch//toolchains/exporter:lock.update`"
)


@dataclass(frozen=True)
class Requirement:
    """One package of a lock: its version, the marker under which it counts, its files' hashes."""

    name: str
    version: str
    marker: str
    hashes: frozenset[str]

    def line(self) -> str:
        """The requirement as pip reads it."""
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = "".join(f" \\\n    --hash=sha256:{h}" for h in sorted(self.hashes))
        return f"{self.name}=={self.version}{marker}{hashes}\n"


def canonical(name: str) -> str:
    """A package's name in the form in which names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str, where: object) -> list[Requirement]:
    """Reads a lock. Anything but pinned and hashed packages is refused, index URLs as well."""
    requirements: list[Requirement] = []
    for number, line in _logical_lines(text):
        place = f"{where}:{number}"
        words = re.split(r"\s+(?=--)", line)
        pin = _PIN.match(words[0].strip())
        if pin is None:
            raise InstallError(
                "a lock holds a line that is not `name==version --hash=…`",
                where=place,
                got=line[:120],
                wanted="name==version [; marker] --hash=sha256:<64 hex digits> …",
                todo="options and index URLs belong to pip's own configuration; " + _REGENERATE,
            )
        hashes = []
        for word in words[1:]:
            option, _, value = word.strip().partition("=")
            if option != "--hash" or not _HASH.match(value):
                raise InstallError(
                    f"the lock's entry for {pin[1]} has something other than sha256 hashes",
                    where=place,
                    got=word.strip()[:120],
                    wanted="--hash=sha256:<64 hex digits>",
                    todo=_REGENERATE,
                )
            hashes.append(value.removeprefix("sha256:"))
        if not hashes:
            raise InstallError(
                f"the lock's entry for {pin[1]} has no hash",
                where=place,
                wanted="at least one --hash=sha256:…",
                todo=_REGENERATE,
            )
        marker = (pin[3] or "").strip()
        requirements.append(Requirement(canonical(pin[1]), pin[2], marker, frozenset(hashes)))
    return requirements


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Lines with continuations joined, comments and blank lines left out."""
    joined, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        start = start or number
        if line.endswith("\\"):
            joined += line[:-1].strip() + " "
            continue
        joined += line.strip()
        if joined.strip():
            yield start, joined.strip()
        joined, start = "", 0
    if joined.strip():
        yield start, joined.strip()


def load(paths: Iterable[Path], environment: Mapping[str, str]) -> dict[str, Requirement]:
    """Reads locks and merges what counts in this environment: name → requirement, sorted."""
    merged: dict[str, tuple[Requirement, Path]] = {}
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise InstallError(
                "a lock can't be read", where=path, got=error.strerror, todo="name an existing file"
            ) from error
        for requirement in parse(text, path):
            if not _counts(requirement, environment, path):
                continue
            earlier = merged.get(requirement.name)
            if earlier is not None and earlier[0].version != requirement.version:
                raise InstallError(
                    f"two locks want different versions of {requirement.name}",
                    where=f"{earlier[1]} and {path}",
                    got=f"{earlier[0].version} and {requirement.version}",
                    wanted="one version",
                    todo="lock the additional packages with the first lock as a constraint",
                )
            hashes = requirement.hashes | (earlier[0].hashes if earlier else frozenset())
            merged[requirement.name] = (
                Requirement(requirement.name, requirement.version, "", hashes),
                path,
            )
    if not merged:
        raise InstallError(
            "the locks name no package for this machine",
            where=", ".join(str(path) for path in paths),
            todo=_REGENERATE,
        )
    return {name: merged[name][0] for name in sorted(merged)}


def beyond(
    requirements: Mapping[str, Requirement], base: Mapping[str, Requirement], places: Iterable[Path]
) -> dict[str, Requirement]:
    """What a layer adds to the environment below it.

    Args:
      requirements: of the layer's locks.
      base: of the locks of the environment that it is for.
      places: the layer's locks, for messages.

    Raises:
      InstallError: a package has another version in the base, or the base has all of them.
    """
    where = ", ".join(str(path) for path in places)
    for name in sorted(set(requirements) & set(base)):
        wanted, got = requirements[name].version, base[name].version
        if wanted != got:
            raise InstallError(
                f"a backend's lock has {name} in another version than the exporter's environment",
                where=where,
                got=f"{wanted}; the environment has {got}",
                wanted="one version",
                todo="lock the backend's packages with the exporter's lock as a constraint",
            )
    added = {name: r for name, r in requirements.items() if name not in base}
    if not added:
        raise InstallError(
            "the exporter's environment has all packages of this lock",
            where=where,
            todo="remove the layer",
        )
    return added


def _counts(requirement: Requirement, environment: Mapping[str, str], path: Path) -> bool:
    try:
        return matches(requirement.marker, environment)
    except ValueError as error:
        raise InstallError(
            f"the lock's entry for {requirement.name} has a marker that can't be read",
            where=path,
            got=str(error),
            todo=_REGENERATE,
        ) from error
