"""Files of locks that Bazel downloads for this machine, and where it put them.

A lock has hashes of a package's files for several platforms; URLs are known of some. The installer
names those that this machine takes (`install --wanted_files`), Bazel downloads them to
`<folder>/<sha256>/<name>`, and the installer takes them from there (`--files`). It fetches the
others itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fetch.tags import Order, rank

from .locks import Requirement


def file_name(url: str) -> str:
    """The last part of a URL's path, unquoted."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def wanted(
    requirements: Iterable[Requirement], urls_by_sha256: Mapping[str, list[str]], order: Order
) -> dict[str, str]:
    """The best file of each requirement that a URL is known of: sha256 to name.

    Args:
      urls_by_sha256: of files of any packages.
      order: tags of wheels, the best first.
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
