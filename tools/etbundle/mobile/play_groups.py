"""Device groups of Play's device targeting, from conditions of variants.

Play knows a device's memory, its chip and its name; a condition may name more. What follows from a
chip, such as features of its processor, becomes the list of chips of the table of devices that
have it. What does not, such as the version of the system, is left to the app's interface: then the
device gets the next variants, too, of which the interface chooses.

Groups come best first, as a device gets the first that it belongs to. The last, "other", is Play's
own: all devices that are in no group.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from xml.sax.saxutils import quoteattr

from etbuild.errors import BuildError
from etlink.variants import OF_PLATFORM, Condition, Facts, Variant

from etbundle.variants.devices import Model, PlayDevice, Table, of_platform

_T = TypeVar("_T")

OTHER = "other"
NAMESPACE = "http://schemas.android.com/apk/config"
# The limits of Play.
MAX_SELECTORS = 5
MAX_DEVICES = 10_000

_PHONES = of_platform({"platform": ("android_arm64",)})
# Memory as it is sold, in GiB: a device's counts as the next of these. As in
# tools/runner/app/device.cc.
_CLASSES = (1, 2, 3, 4, 6, 8, 12, 16, 18, 24, 32, 48, 64)
_GIB = 2**30


@dataclass(frozen=True)
class Selector:
    """Devices that Play selects together; what is empty or None is not asked for.

    Attributes:
      at_least: least memory in bytes.
      below: memory in bytes that is too much; None: no limit.
      chips: models of chips, of which a device has one.
      devices: names of devices, of which it is one.
    """

    at_least: int = 0
    below: int | None = None
    chips: frozenset[str] | None = None
    devices: frozenset[PlayDevice] | None = None

    def both(self, other: Selector) -> Selector | None:
        """Selects devices that both select; None: there are none."""
        limits = [limit for limit in (self.below, other.below) if limit is not None]
        at_least, below = max(self.at_least, other.at_least), min(limits, default=None)
        chips = _both(self.chips, other.chips)
        devices = _both(self.devices, other.devices)
        # Devices are named where the table has no chip of them.
        if (chips is not None and (devices is not None or not chips)) or devices == frozenset():
            return None
        if below is not None and at_least >= below:
            return None
        return Selector(at_least, below, chips, devices)

    def covers(self, other: Selector) -> bool:
        """Returns whether it selects all that another does."""
        return self.both(other) == other


@dataclass(frozen=True)
class Group:
    """Devices that get the same files.

    Attributes:
      name: in Play's configuration.
      selectors: a device is in the group if one of them selects it; none: Play's own group.
      programs: names of programs that its devices may choose, sorted.
    """

    name: str
    selectors: tuple[Selector, ...]
    programs: tuple[str, ...]


@dataclass(frozen=True)
class _Reach:
    """Devices of a variant; `exact`: Play can tell all its conditions."""

    selectors: tuple[Selector, ...]
    exact: bool


def groups_of(label: str, variants: Mapping[str, Sequence[Variant]], table: Table) -> list[Group]:
    """Makes the groups of all combinations of variants.

    Args:
      label: of the pack, for messages.
      variants: name to variants, the best first.
      table: of devices.

    Returns:
      The best first, then that of all other devices.

    Raises:
      BuildError: not all devices get a variant, or Play cannot have so many selectors.
    """
    reaches = {
        name: [reach_of(variant.conditions, table) for variant in choices]
        for name, choices in variants.items()
    }
    groups: list[Group] = []
    for numbers in itertools.product(*(range(len(choices)) for choices in variants.values())):
        chosen = dict(zip(variants, numbers, strict=True))
        selectors = _all_of([reaches[name][n].selectors for name, n in chosen.items()])
        programs = {
            program
            for name, n in chosen.items()
            for program in _programs(variants[name], reaches[name], n)
        }
        if Selector() in selectors:
            return [*groups, Group(OTHER, (), tuple(sorted(programs)))]
        earlier = [selector for group in groups for selector in group.selectors]
        if all(any(e.covers(selector) for e in earlier) for selector in selectors):
            continue
        names = [variants[name][n].program for name, n in chosen.items()]
        group = Group(_group_name(names), selectors, tuple(sorted(programs)))
        _check(label, group, groups)
        groups.append(group)
    raise BuildError(
        f"{label}: no program is for all phones, so devices that are in no group would get none.",
        "Add a program without conditions to the et_variants.",
    )


def reach_of(conditions: Iterable[Condition], table: Table) -> _Reach:
    """Finds the devices that meet conditions, as Play selects them."""
    memory = [Selector()]
    chips: frozenset[str] | None = None
    named: list[Condition] = []
    exact, by_table = True, False
    for condition in conditions:
        if condition.fact in OF_PLATFORM:
            if not condition.holds(_PHONES):
                return _Reach((), True)
            continue
        if condition.fact == "ram_gb":
            memory = list(_all_of([memory, _memory(condition)]))
            continue
        having = _chips(condition, table)
        if having is None:
            exact = False
            continue
        chips = _both(chips, having)
        by_table = True
        named.append(condition)
    if not by_table:
        return _Reach(tuple(memory), exact)
    kinds = [Selector(chips=chips)] if chips else []
    devices = frozenset(d for model in table.devices for d in _named(model, named))
    kinds += [Selector(devices=devices)] if devices else []
    return _Reach(_all_of([memory, kinds]), exact)


def _both(one: frozenset[_T] | None, other: frozenset[_T] | None) -> frozenset[_T] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _all_of(lists: Sequence[Iterable[Selector]]) -> tuple[Selector, ...]:
    """Selects what one of each list selects."""
    found: dict[Selector, None] = {Selector(): None}
    for selectors in lists:
        pairs = itertools.product(found, selectors)
        found = {both: None for one, other in pairs if (both := one.both(other))}
    return tuple(found)


def _memory(condition: Condition) -> list[Selector]:
    """Ranges of bytes for sizes that meet a condition; sizes beside each other make one."""
    ranges: list[list[int | None]] = []
    begin = 0
    for size in _CLASSES:
        end = None if size == _CLASSES[-1] else size * _GIB + 1
        if condition.holds({"ram_gb": (str(size),)}):
            if ranges and ranges[-1][1] == begin:
                ranges[-1][1] = end
            else:
                ranges.append([begin, end])
        begin = size * _GIB + 1
    return [Selector(low or 0, high) for low, high in ranges]


def _chips(condition: Condition, table: Table) -> frozenset[str] | None:
    """Chips of which all devices meet a condition; None: it does not follow from a chip."""
    if condition.fact == "soc":
        return frozenset(condition.any_of)
    having = {chip: about for chip, about in table.chips.items() if condition.fact in about.facts}
    if not having:
        return None
    return frozenset(chip for chip, about in having.items() if condition.holds(about.facts))


def _named(model: Model, conditions: Sequence[Condition]) -> tuple[PlayDevice, ...]:
    """Play's names of a model without a chip that meets conditions."""
    facts: Facts = model.facts
    if "soc" in facts or facts["platform"] != _PHONES["platform"]:
        return ()
    return model.play if all(condition.holds(facts) for condition in conditions) else ()


def _programs(choices: Sequence[Variant], reaches: Sequence[_Reach], first: int) -> Iterable[str]:
    """Programs that devices of a variant may choose, and the last, to fall back to."""
    for number in range(first, len(choices)):
        if any(a.both(b) for a in reaches[first].selectors for b in reaches[number].selectors):
            yield choices[number].program
            others = reaches[number]
            if others.exact and all(
                any(b.covers(a) for b in others.selectors) for a in reaches[first].selectors
            ):
                break
    fitting = [n for n, reach in enumerate(reaches) if reach.selectors]
    yield choices[fitting[-1]].program


def _group_name(programs: Iterable[str]) -> str:
    name = re.sub(r"\W", "_", "_".join(programs), flags=re.ASCII)
    return name if name[0].isalpha() and name != OTHER else f"group_{name}"


def _check(label: str, group: Group, earlier: Sequence[Group]) -> None:
    if group.name in [other.name for other in earlier]:
        raise BuildError(
            f'{label}: two groups of devices would be "{group.name}".',
            "Rename one of the programs.",
        )
    if len(group.selectors) > MAX_SELECTORS:
        raise BuildError(
            f"{label}: group {group.name}: got {len(group.selectors)} selectors, and Play takes "
            f"at most {MAX_SELECTORS}.",
            "Name fewer separate sizes of memory in its conditions.",
        )
    count = sum(len(selector.devices or ()) for selector in group.selectors)
    if count > MAX_DEVICES:
        raise BuildError(
            f"{label}: group {group.name}: got {count} devices, and Play takes at most "
            f"{MAX_DEVICES}.",
            "Give their chips in the table of devices.",
        )


def configuration(label: str, groups: Sequence[Group], table: Table) -> str:
    """Writes Play's configuration, as XML.

    Raises:
      BuildError: the table does not say who makes a chip.
    """
    lines = ['<?xml version="1.0" encoding="utf-8"?>']
    lines.append(f"<config:device-targeting-config xmlns:config={quoteattr(NAMESPACE)}>")
    for group in groups:
        if group.name == OTHER:
            continue
        lines.append(f"  <config:device-group name={quoteattr(group.name)}>")
        for selector in group.selectors:
            lines += _selector_lines(label, selector, table)
        lines.append("  </config:device-group>")
    return "\n".join([*lines, "</config:device-targeting-config>"]) + "\n"


def _selector_lines(label: str, selector: Selector, table: Table) -> list[str]:
    limits = f' ram-min-bytes="{selector.at_least}"' if selector.at_least else ""
    limits += f' ram-max-bytes="{selector.below}"' if selector.below is not None else ""
    lines = [
        f"      <config:included-device-id brand={quoteattr(brand)} device={quoteattr(device)}/>"
        for brand, device in sorted((d.brand, d.device) for d in selector.devices or ())
    ]
    for chip in sorted(selector.chips or ()):
        makers = table.chips[chip].play if chip in table.chips else ""
        if not makers:
            raise BuildError(
                f'{label}: soc = {chip}: the table of devices does not say who makes "{chip}".',
                f'Add it to its chips: "{chip}": {{"play": "QTI"}}, with what '
                "Build.SOC_MANUFACTURER is there.",
            )
        lines += [
            f"      <config:system-on-chip manufacturer={quoteattr(maker.strip())} "
            f"model={quoteattr(chip)}/>"
            for maker in makers.split(",")
        ]
    if not lines:
        return [f"    <config:device-selector{limits}/>"]
    return [f"    <config:device-selector{limits}>", *lines, "    </config:device-selector>"]
