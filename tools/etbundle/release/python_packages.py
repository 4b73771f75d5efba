"""Python packages and their licenses, read from METADATA files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from urllib.parse import quote

from etbuild.errors import BuildError

_CLASSIFIER = "License :: "
# Longer ones are whole licenses, not names of them.
_LONGEST_NAME = 80


@dataclass(frozen=True, order=True)
class PythonPackage:
    """A package of a Python environment.

    Attributes:
        name: normalized.
        version: with its local part ("2.13.0+cpu").
        expression: its license as an SPDX expression; empty: it gives none.
        licenses: names of its licenses, if it gives no expression.
    """

    name: str
    version: str
    expression: str = ""
    licenses: tuple[str, ...] = ()

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{quote(self.version, safe='.-_~')}"


@dataclass(frozen=True)
class Environment:
    """The environment that the programs of a release were lowered in.

    Attributes:
        python: version of the exporter's interpreter.
        exporter: its packages.
        layers: packages of backends, by label.
    """

    python: str
    exporter: Sequence[PythonPackage]
    layers: Mapping[str, Sequence[PythonPackage]]


def read(files: Iterable[Path]) -> list[PythonPackage]:
    """Reads METADATA files; returns the packages in order.

    Raises:
        BuildError: a file cannot be read, or has no name or version.
    """
    return sorted({_package(path) for path in files})


def _package(path: Path) -> PythonPackage:
    try:
        fields = HeaderParser().parsestr(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{path} cannot be read: {error}.") from error
    name, version = fields["Name"], fields["Version"]
    if not name or not version:
        raise BuildError(
            f"{path} is not METADATA of a Python package: "
            f"{'Version' if name else 'Name'} not found.",
            "metadata_files of an exporter takes the METADATA files in packages' .dist-info.",
        )
    expression = fields["License-Expression"] or ""
    return PythonPackage(
        name=re.sub(r"[-_.]+", "-", name).lower(),
        version=version,
        expression=expression,
        licenses=() if expression else _licenses(fields),
    )


def _licenses(fields: Message) -> tuple[str, ...]:
    """Returns the license of a package without an expression: a name, or its classifiers."""
    name = (fields["License"] or "").strip()
    if name and len(name) <= _LONGEST_NAME and "\n" not in name:
        return (name,)
    classifiers = fields.get_all("Classifier", [])
    names = {c.split(" :: ")[-1] for c in classifiers if c.startswith(_CLASSIFIER)}
    if names - {"OSI Approved"}:
        return tuple(sorted(names - {"OSI Approved"}))
    return (name.splitlines()[0].strip(),) if name else ()
