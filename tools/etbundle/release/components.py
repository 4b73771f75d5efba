"""Components of a CycloneDX bill of materials, as JSON objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from etbundle.release.contents import Digest
from etbundle.release.python_packages import PythonPackage

Component = dict[str, Any]

# SPDX identifiers that packages use as names of their licenses; other names stay names.
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
    """A component, without its empty fields.

    Args:
        kind: CycloneDX's type ("library", "file", …).
        ref: by which the rest of the bill refers to it.
        name: of it.
        version: of it.
        **more: further fields.
    """
    fields = {"type": kind, "bom-ref": ref, "name": name, "version": version, **more}
    return {key: value for key, value in fields.items() if value}


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
    """A package that is known by its URL and the expression of its license only."""
    name, _, version = purl.partition("?")[0].partition("#")[0].rpartition("@")
    return component(
        "library",
        purl,
        unquote(name.rsplit("/", 1)[-1]),
        unquote(version),
        licenses=licenses(license, []),
        purl=purl,
    )


def python_package(package: PythonPackage) -> Component:
    """A Python package."""
    return component(
        "library",
        package.purl,
        package.name,
        package.version,
        licenses=licenses(package.expression, package.licenses),
        purl=package.purl,
    )


def licenses(expression: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Licenses: an SPDX expression, else the names that a package gives, as it gives them."""
    if expression:
        return [{"expression": expression}]
    names = [name for name in names if name]
    if len(names) == 1 and _is_expression(names[0]):
        return [{"expression": names[0]}]
    return [{"license": {"id": name} if name in _SPDX_IDS else {"name": name}} for name in names]


def _is_expression(text: str) -> bool:
    """Whether a name consists of several SPDX identifiers."""
    words = re.split(r" (?:AND|OR) ", text)
    return len(words) > 1 and all(word.strip("()") in _SPDX_IDS for word in words)
