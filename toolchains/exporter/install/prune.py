"""Leaves files out by the patterns in prune.toml, each with its reason."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .errors import InstallError

DEFAULT = Path(__file__).parents[1] / "locks/prune.toml"
_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\{[^}]*\}|.")
_TRANSLATED = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True)
class Pruning:
    """The rules for a folder: patterns of what is left out, exceptions, and the package or ""."""

    rules: tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...]

    def keeps(self, path: str, package: str = "") -> bool:
        """Tells whether a file stays: its path relative to the folder, with `/`; its package."""
        return not any(
            owner in ("", package) and remove.match(path) and not keep.match(path)
            for remove, keep, owner in self.rules
        )


def translate(pattern: str) -> str:
    """A pattern as a regular expression for whole relative paths.

    `*` and `?` stay inside one path component, `**/` is any number of them, a trailing `/` means
    everything below, `{a,b*}` is either.
    """

    def token(match: re.Match[str]) -> str:
        text = match[0]
        if text.startswith("{") and text.endswith("}"):
            return f"(?:{'|'.join(map(translate, text[1:-1].split(',')))})"
        return _TRANSLATED.get(text, re.escape(text))

    return _TOKEN.sub(token, pattern + "**" if pattern.endswith("/") else pattern)


def _compile(patterns: Iterable[str]) -> re.Pattern[str]:
    # Of no patterns: matches nothing, as no path is empty.
    return re.compile(f"(?:{'|'.join(map(translate, patterns))})\\Z")


def load(folder: str, path: Path = DEFAULT) -> Pruning:
    """Reads the rules for a folder ("site-packages", "stdlib") from a file like prune.toml."""
    rules = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get(folder, []):
        unknown = set(entry) - {"remove", "keep", "reason", "package"}
        if unknown or not entry.get("remove") or not entry.get("reason"):
            raise InstallError(
                f"{path}: malformed rule in [[{folder}]]: got {entry}, expected reason and remove, "
                "and optionally keep and package."
            )
        keep = _compile(entry.get("keep", []))
        rules.append((_compile(entry["remove"]), keep, entry.get("package", "")))
    return Pruning(tuple(rules))
