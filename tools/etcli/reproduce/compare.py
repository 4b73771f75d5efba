"""Compares the outputs of two builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from etcli.files.archives import sha256_of
from etcli.files.explain import explain
from etcli.reproduce.build import Output


@dataclass(frozen=True)
class Difference:
    """An output that differs between two builds.

    Attributes:
      label: of the target.
      name: path of the output under the execution root.
      reasons: what differs, a line each; the first is the most telling.
    """

    label: str
    name: str
    reasons: tuple[str, ...]


def compare(first: Mapping[str, Output], second: Mapping[str, Output]) -> list[Difference]:
    """Compares by sha256; explains differences.

    Args:
      first: path under the execution root to the output, as `Build.run` returns.
      second: the other build's.
    """
    differences = []
    for name in sorted({*first, *second}):
        if name not in first or name not in second:
            which, build = ("first", first) if name in first else ("second", second)
            reasons: Sequence[str] = [f"only the {which} build has it"]
            differences.append(Difference(build[name].label, name, tuple(reasons)))
        elif sha256_of(first[name].path) != sha256_of(second[name].path):
            reasons = explain(first[name].path, second[name].path)
            differences.append(Difference(first[name].label, name, tuple(reasons)))
    return differences
