"""Components of a CycloneDX bill of materials, as JSON objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from etrelease.contents import Digest
from etrelease.python_packages import PythonPackage

Component = dict[str, Any]

# SPDX identifiers that packages use as names of their licenses; what is none of them stays a name.
_SPDX_IDS = frozenset(
    (
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "WTFPL",
        "Zlib",
    )
)
_PROPERTY = "rules_executorch:"


def component(kind: str, ref: str, name: str, version: str = "", **more: Any) -> Component:
    """A component; what is empty is left out.

    Args:
        kind: CycloneDX's type ("library", "file", …).
        ref: what the rest of the bill calls it by.
        name: of it.
        version: of it.
        **more: further fields.
    """
    made = {"type": kind, "bom-ref": ref, "name": name, "version": version, **more}
    return {key: value for key, value in made.items() if value}


def file(ref: str, name: str, digest: Digest, **more: Any) -> Component:
    """A file with its hash."""
    return component("file", ref, name, hashes=hashes(digest), **more)


def hashes(digest: Digest) -> list[dict[str, str]]:
    """A file's hash as CycloneDX has it."""
    return [{"alg": "SHA-256", "content": digest["sha256"]}]


def properties(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Properties in this project's namespace, in order; empty ones are left out."""
    return [
        {"name": _PROPERTY + name, "value": value}
        for name, value in sorted(values.items())
        if value
    ]


def package(purl: str, license: str) -> Component:
    """A package of which nothing is known but its URL and the license's expression."""
    name, _, version = purl.partition("?")[0].partition("#")[0].rpartition("@")
    return component(
        "library",
        purl,
        unquote(name.rsplit("/", 1)[-1]),
        unquote(version),
        licenses=licenses(license, []),
        purl=purl,
    )


def python_package(one: PythonPackage) -> Component:
    """A Python package."""
    return component(
        "library",
        one.purl,
        one.name,
        one.version,
        licenses=licenses(one.expression, one.licenses),
        purl=one.purl,
    )


def licenses(expression: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Licenses: an SPDX expression, else the names that a package gives, as it gives them."""
    if expression:
        return [{"expression": expression}]
    given = list(names)
    if len(given) == 1 and _is_expression(given[0]):
        return [{"expression": given[0]}]
    return [
        {"license": {"id": name} if name in _SPDX_IDS else {"name": name}} for name in given if name
    ]


def _is_expression(text: str) -> bool:
    """Whether a name is several SPDX identifiers, joined."""
    words = re.split(r" (?:AND|OR) ", text)
    return len(words) > 1 and all(word.strip("()") in _SPDX_IDS for word in words)
