"""Lock files: requirement files in which every entry is `name==version` with sha256 hashes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fetch.tags import canonical

from . import markers
from .errors import InstallError

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;]+)\s*(?:;\s*|$)(.*)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_REGENERATE = "Write the lock with `bazel run @rules_executorch//toolchains/exporter:lock.update`."


@dataclass(frozen=True)
class Requirement:
    """An entry of a lock: canonical name, version, marker (may be empty), and sha256 of files."""

    name: str
    version: str
    marker: str
    hashes: frozenset[str]

    def line(self) -> str:
        """The requirement as pip reads it."""
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = "".join(f" \\\n    --hash=sha256:{h}" for h in sorted(self.hashes))
        return f"{self.name}=={self.version}{marker}{hashes}\n"


def matches(marker: str, environment: Mapping[str, str] | None = None) -> bool:
    """Returns whether a marker holds, on this machine or with the values of `environment`."""
    return not marker or markers.evaluate(marker, environment)


def parse(text: str, path: object) -> list[Requirement]:
    """The entries of a lock. Anything else in it is refused, index URLs as well."""
    requirements = []
    number = 0
    for line in text.replace("\\\n", "\v").split("\n"):
        first, number = number + 1, number + 1 + line.count("\v")
        entry = re.sub(r"(^|\s)#.*", "", line).strip()
        if not entry:
            continue
        pin_text, *words = re.split(r"\s+(?=--)", entry)
        pin = _PIN.fullmatch(pin_text)
        hashes = [match[1] for word in words if (match := _HASH.fullmatch(word))]
        if pin is None or not hashes or len(hashes) < len(words) or not _is_marker(pin[3]):
            raise InstallError(
                f"{path}:{first}: malformed entry: got {entry[:120]!r}, expected `name==version [; "
                "marker]` and at least one `--hash=sha256:<64 hex digits>`. Options and index URLs "
                f"belong to pip's own configuration. {_REGENERATE}"
            )
        requirements.append(Requirement(canonical(pin[1]), pin[2], pin[3], frozenset(hashes)))
    return requirements


def _is_marker(text: str) -> bool:
    try:
        matches(text)
    except ValueError:
        return False
    return True


def load(
    paths: Iterable[Path], environment: Mapping[str, str] | None = None
) -> dict[str, Requirement]:
    """Merges the entries of locks that count on this machine or in `environment`, by name."""
    merged: dict[str, Requirement] = {}
    for path in paths:
        for entry in parse(path.read_text(encoding="utf-8"), path):
            if not matches(entry.marker, environment):
                continue
            other = merged.get(entry.name, entry)
            if other.version != entry.version:
                raise InstallError(
                    f"{path}: {entry.name} is in two versions: got {entry.version}, expected "
                    f"{other.version} as before. Lock additional packages with the first lock as a "
                    "constraint."
                )
            merged[entry.name] = replace(entry, marker="", hashes=entry.hashes | other.hashes)
    if not merged:
        names = ", ".join(map(str, paths))
        raise InstallError(f"{names}: no package for this machine in the lock. {_REGENERATE}")
    return dict(sorted(merged.items()))


def without(
    requirements: Mapping[str, Requirement], base: Mapping[str, Requirement], name: str
) -> dict[str, Requirement]:
    """The requirements of the layer `name` that the environment below it does not have."""
    for package in sorted(set(requirements) & set(base)):
        got, expected = requirements[package].version, base[package].version
        if got != expected:
            raise InstallError(
                f"{name}: {package} differs from the exporter's environment: got {got}, expected "
                f"{expected}. Lock the backend's packages with the exporter's lock as a constraint."
            )
    added = {package: r for package, r in requirements.items() if package not in base}
    if not added:
        raise InstallError(
            f"{name}: the exporter's environment has all packages of this lock. Remove the layer."
        )
    return added
