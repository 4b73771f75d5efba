"""The tags of wheels that fit a machine, by the packaging standard, the best first."""

from __future__ import annotations

import os
import platform as machine
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

# Tags of a wheel, (interpreter, ABI, platform), to their places; the smallest is the best.
Order = Mapping[tuple[str, str, str], int]

_ALIASES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


def canonical(name: str) -> str:
    """A package's name as indexes and locks have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _linux(minor: int, cpu: str) -> Iterator[str]:
    for number in range(minor, 4, -1):
        yield f"manylinux_2_{number}_{cpu}"
        if number in _ALIASES:
            yield f"{_ALIASES[number]}_{cpu}"


def _macos(major: int, minor: int, cpu: str) -> Iterator[str]:
    kinds = [cpu, "universal2"]
    for number in range(major, 10, -1):
        yield from (f"macosx_{number}_0_{kind}" for kind in kinds)
    for number in range(16 if major > 10 else minor, 3, -1):
        kinds = ["universal2"] if cpu == "arm64" else ["x86_64", "universal2", "intel"]
        yield from (f"macosx_10_{number}_{kind}" for kind in kinds)


def platforms(tag: str = "") -> list[str]:
    """Platform tags that fit where `tag` does ("manylinux_2_28_x86_64"); "": on this machine."""
    if not tag:
        cpu = machine.machine()
        if sys.platform == "darwin":
            major, minor = (machine.mac_ver()[0].split(".") + ["0"])[:2]
            return list(_macos(int(major), int(minor), cpu))
        glibc = re.fullmatch(r"glibc 2\.(\d+).*", _libc())
        return [f"linux_{cpu}", *(_linux(int(glibc[1]), cpu) if glibc else ())]
    if match := re.fullmatch(r"manylinux_2_(\d+)_(\w+)", tag):
        return list(_linux(int(match[1]), match[2]))
    if match := re.fullmatch(r"macosx_(\d+)_(\d+)_(\w+)", tag):
        return list(_macos(int(match[1]), int(match[2]), match[3]))
    return [tag]


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        return ""


def order(names: Iterable[str]) -> Order:
    """The tags that the running version of CPython takes with these platform tags."""
    names, minor = list(names), sys.version_info[1]
    own = f"cp3{minor}"
    pythons = [f"py3{minor}", "py3", *(f"py3{older}" for older in range(minor - 1, -1, -1))]
    kinds = [(own, own), (own, "abi3"), (own, "none")]
    kinds += [(f"cp3{older}", "abi3") for older in range(minor - 1, 1, -1)]
    kinds += [(python, "none") for python in pythons]
    found = [(*kind, name) for kind in kinds for name in names]
    found += [(python, "none", "any") for python in [own, *pythons]]
    return {tag: place for place, tag in enumerate(found)}


def wheel_parts(name: str) -> tuple[str, str, list[tuple[str, str, str]]] | None:
    """A wheel's package, version and tags by its file name; None for other files."""
    words = name[:-4].split("-") if name.endswith(".whl") else []
    if len(words) not in (5, 6):
        return None
    choices = [word.split(".") for word in words[-3:]]
    found = [(p, a, m) for p in choices[0] for a in choices[1] for m in choices[2]]
    return canonical(words[0]), words[1], found


def rank(name: str, order: Order) -> int | None:
    """The place of a wheel's best tag in an order; None for other wheels and other files."""
    parts = wheel_parts(name)
    return min((order[tag] for tag in parts[2] if tag in order), default=None) if parts else None
