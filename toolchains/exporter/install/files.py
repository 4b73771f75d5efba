"""Which files of locks Bazel downloads for this machine, and where it put them.

A lock has hashes of a package's files for several platforms; URLs are known of some. The installer
names those that this machine takes (`install --wanted_files`), Bazel downloads them to
`<folder>/<sha256>/<name>`, and the installer gives them to pip as they are (`--files`). pip looks
for the others itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pip._vendor.packaging.tags import Tag, sys_tags
from pip._vendor.packaging.utils import InvalidWheelFilename, parse_wheel_filename

from .locks import Requirement


def file_name(url: str) -> str:
    """The last part of a URL's path, unquoted."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def rank(name: str, order: Mapping[Tag, int]) -> int | None:
    """The place of a wheel's best tag in an order; None for other wheels and other files."""
    try:
        tags = parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return None
    return min((order[tag] for tag in tags if tag in order), default=None)


def preference(tags: Iterable[Tag] | None = None) -> dict[Tag, int]:
    """Tags, by default this machine's, to their places, the best first."""
    return {tag: place for place, tag in enumerate(tags or sys_tags())}


def wanted(
    requirements: Iterable[Requirement],
    urls_by_sha256: Mapping[str, list[str]],
    order: Mapping[Tag, int],
) -> dict[str, str]:
    """The best file of each requirement that a URL is known of: sha256 to name.

    Args:
      urls_by_sha256: of files of any packages.
      order: as `preference` gives it.
    """
    chosen = {}
    for requirement in requirements:
        ranked = []
        for sha256 in sorted(requirement.hashes & urls_by_sha256.keys()):
            name = file_name(urls_by_sha256[sha256][0])
            place = rank(name, order)
            if place is not None:
                ranked.append((place, sha256, name))
        if ranked:
            _, sha256, name = min(ranked)
            chosen[sha256] = name
    return chosen


def downloaded(folder: Path) -> dict[str, Path]:
    """The files in `<folder>/<sha256>/<name>`: sha256 to path."""
    return {path.parent.name: path.absolute() for path in sorted(folder.glob("*/*"))}
