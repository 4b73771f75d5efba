"""Bazel's version numbers."""

from __future__ import annotations

import re

Version = tuple[int, ...]

MINIMUM: Version = (7, 7)


def parse_version(text: str) -> Version | None:
    """The version in the output of `bazel --version`, in a Debian version or in a label.

    Returns:
        The numbers, or None if the text holds no version.
    """
    match = re.search(r"(?<![\w.])(\d+(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def format_version(version: Version) -> str:
    """The usual way to write a version."""
    return ".".join(str(part) for part in version)


def new_enough(version: Version) -> bool:
    """Whether this project can be built with that Bazel."""
    return version >= MINIMUM
