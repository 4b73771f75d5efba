"""Which files are left out, by the patterns in prune.toml, each with its reason."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .errors import InstallError

DEFAULT = Path(__file__).with_name("prune.toml")


@dataclass(frozen=True)
class Rule:
    """One reason to leave files out, its patterns, and the exceptions that stay.

    Attributes:
      reason: for people.
      remove: paths that are left out.
      keep: exceptions; None: none.
      package: the package whose files it is about; empty: all packages.
    """

    reason: str
    remove: re.Pattern[str]
    keep: re.Pattern[str] | None
    package: str = ""

    def removes(self, path: str, package: str) -> bool:
        """Whether this rule leaves the path of a package out."""
        if self.package and self.package != package:
            return False
        return bool(self.remove.match(path)) and not (self.keep and self.keep.match(path))


class Pruning:
    """All rules for one folder."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self.hits: Counter[str] = Counter()

    def keeps(self, path: str, package: str = "") -> bool:
        """Whether a file (a path relative to the folder, with `/`) of a package stays."""
        for rule in self.rules:
            if rule.removes(path, package):
                self.hits[rule.reason] += 1
                return False
        return True


def translate(pattern: str) -> str:
    """A pattern as a regular expression for whole relative paths.

    `*` and `?` stay inside one path component, `**/` is any number of them, a trailing `/` means
    everything below, `{a,b*}` is either.
    """
    if pattern.endswith("/"):
        pattern += "**"
    out, i = "", 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            out, i = out + r"(?:[^/]+/)*", i + 3
        elif pattern.startswith("**", i):
            out, i = out + ".*", i + 2
        elif pattern[i] == "*":
            out, i = out + "[^/]*", i + 1
        elif pattern[i] == "?":
            out, i = out + "[^/]", i + 1
        elif pattern[i] == "{":
            end = pattern.index("}", i)
            choices = "|".join(translate(choice) for choice in pattern[i + 1 : end].split(","))
            out, i = out + f"(?:{choices})", end + 1
        else:
            out, i = out + re.escape(pattern[i]), i + 1
    return out


def _compile(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("(?:" + "|".join(translate(pattern) for pattern in patterns) + r")\Z")


def load(folder: str, path: Path = DEFAULT) -> Pruning:
    """Reads the rules for a folder ("site-packages", "stdlib") from a file like prune.toml."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    rules = []
    for entry in data.get(folder, []):
        unknown = set(entry) - {"remove", "keep", "reason", "package"}
        if unknown or not entry.get("remove") or not entry.get("reason"):
            raise InstallError(
                "a pruning rule is not complete",
                where=f"{path}, [[{folder}]]",
                got=entry,
                wanted="reason, remove = [patterns], and perhaps keep = [patterns], package = name",
                todo="put the rule right",
            )
        keep = _compile(entry["keep"]) if entry.get("keep") else None
        package = entry.get("package", "")
        rules.append(Rule(entry["reason"], _compile(entry["remove"]), keep, package))
    return Pruning(rules)
