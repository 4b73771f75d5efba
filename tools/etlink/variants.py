"""Variants: programs that stand for each other, each for devices that meet its conditions.

A device is a set of facts, each with values: {"soc": ("SM8650",), "features": ("dotprod", "i8mm")}.
docs/howto/fleet.md lists them. The runner's twin of `Condition.holds` is in
tools/runner/app/variants.cc; a test compares them on each device and condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Longer ones are no versions; Python would refuse to read them.
_VERSION = re.compile(r"[0-9][0-9.]{0,99}")

# Facts of a device; what its values are.
Facts = Mapping[str, Sequence[str]]

# Facts that are the same for all devices that one app is built for.
OF_PLATFORM = ("platform", "os", "cpu")


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Demand on a device: one of the texts is its fact's, or a version is in a range.

    Attributes:
      fact: name of the fact.
      any_of: texts; empty: not asked for.
      at_least: oldest version; empty: not asked for.
      below: version that is too new; empty: not asked for.
    """

    fact: str
    any_of: tuple[str, ...] = ()
    at_least: str = ""
    below: str = ""

    def holds(self, device: Facts) -> bool:
        """Returns whether a device meets the condition."""
        return any(self._meets(value) for value in device.get(self.fact, ()))

    def _meets(self, value: str) -> bool:
        if self.any_of:
            return value in self.any_of
        versions = [value, *filter(None, (self.at_least, self.below))]
        if len(versions) == 1 or not all(map(_VERSION.fullmatch, versions)):
            return False
        above = not self.at_least or numbers(value) >= numbers(self.at_least)
        return above and (not self.below or numbers(value) < numbers(self.below))

    def __str__(self) -> str:
        if self.any_of:
            return f"{self.fact} = {' '.join(self.any_of)}"
        signs = ((">=", self.at_least), ("<", self.below))
        return " ".join([self.fact, *(f"{sign} {value}" for sign, value in signs if value)])


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One of the programs that stand for each other.

    Attributes:
      program: its name in the manifest.
      conditions: all must hold.
    """

    program: str
    conditions: tuple[Condition, ...] = ()

    def fits(self, device: Facts) -> bool:
        """Returns whether a device meets all conditions."""
        return all(condition.holds(device) for condition in self.conditions)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at its end: (1, 3) of "1.3.0"."""
    parts = [int(part or 0) for part in version.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)
