"""Reads the table of devices that there are: a JSON file that users replace by their own.

    {
      "sources": [{"name": "Makers' pages of specifications", "date": "2026-11-26"}],
      "chips": {"SM8650": {"name": "Snapdragon 8 Gen 3", "facts": {"vulkan": ["1.3"]}}},
      "devices": [
        {
          "name": "Galaxy S24 Ultra",
          "facts": {"platform": ["android_arm64"], "soc": ["SM8650"], "ram_gb": ["12"]},
          "one_of": {"os_level": ["34", "35"]},
          "play": [{"brand": "samsung", "device": "e3q"}]
        }
      ]
    }

A device has the facts of its chip beside its own. `one_of` are facts of which a phone has one
value: sizes of memory in which it is sold, systems that it had. Each combination is a device of the
proof.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from etbuild.errors import BuildError
from etlink.json_file import FormError, read_file
from etlink.variants import Facts

_FORM = "See docs/howto/fleet.md for its form."
# A table of all phones that are sold has fewer.
_MAX_DEVICES = 100_000
_MAX_TEXT = 100


@dataclass(frozen=True, kw_only=True)
class Source:
    """Origin of facts in a table.

    Attributes:
      name: of the public table or page.
      date: when it was read.
    """

    name: str
    date: str


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A system on a chip.

    Attributes:
      name: as it is sold.
      facts: of all devices with it.
      play: its manufacturer in Play's device targeting ("QTI"); empty: unknown.
    """

    name: str = ""
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    play: str = ""


@dataclass(frozen=True, kw_only=True)
class PlayDevice:
    """A device in Play's catalog.

    Attributes:
      brand: Build.BRAND.
      device: Build.DEVICE.
    """

    brand: str
    device: str


@dataclass(frozen=True, kw_only=True)
class Model:
    """A kind of devices in the table.

    Attributes:
      name: as it is sold.
      facts: name to values.
      one_of: facts of which a device has one value.
      play: its devices in Play's catalog.
    """

    name: str
    facts: dict[str, tuple[str, ...]]
    one_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    play: tuple[PlayDevice, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Table:
    """The file."""

    devices: tuple[Model, ...]
    chips: dict[str, Chip] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True)
class Device:
    """A device of the proof.

    Attributes:
      name: of its model, with the values of `one_of`.
      facts: name to values, with "os" and "cpu" of its platform.
    """

    name: str
    facts: Facts

    @property
    def platform(self) -> str:
        """The platform of its apps."""
        return self.facts["platform"][0]


def read(path: Path) -> Table:
    """Reads a table.

    Raises:
      BuildError: the file cannot be read, or is not a table of devices.
    """
    return read_file(Table, path, "is not a table of devices", _FORM, check=_check)


def devices_of(table: Table) -> list[Device]:
    """All devices of a table: each combination of what its models have one of."""
    found = []
    for model in table.devices:
        for values in itertools.product(*model.one_of.values()):
            chosen = dict(zip(model.one_of, values, strict=True))
            own = {**model.facts, **{fact: (value,) for fact, value in chosen.items()}}
            chips = [table.chips[chip] for chip in own.get("soc", ()) if chip in table.chips]
            facts = {name: value for chip in chips for name, value in chip.facts.items()} | own
            texts = [f"{fact} {value}" for fact, value in chosen.items()]
            found.append(Device(", ".join([model.name, *texts]), of_platform(facts)))
    return found


def of_platform(facts: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Adds the facts that follow from a device's platform."""
    system, _, processor = facts["platform"][0].replace("_sim_", "_").partition("_")
    return {"os": (system,), "cpu": (processor,), **facts}


def _check(table: Table) -> None:
    names: set[str] = set()
    count = 0
    for number, model in enumerate(table.devices):
        where = f"it.devices[{number}] ({model.name})"
        if model.name in names:
            raise FormError(f"{where} has the name of an earlier device")
        names.add(model.name)
        for fact, values in {**model.facts, **model.one_of}.items():
            _check_fact(fact, values, where)
        twice = sorted(model.facts.keys() & model.one_of.keys())
        if twice:
            raise FormError(f"{where} has {twice[0]} in facts and in one_of")
        platforms = model.facts.get("platform", ())
        if len(platforms) != 1:
            raise FormError(f"{where}.facts has {len(platforms)} platforms, expected one")
        for device in model.play:
            _check_text(device.brand, f"{where}.play: brand")
            _check_text(device.device, f"{where}.play: device")
        combinations = 1
        for values in model.one_of.values():
            combinations *= len(values)
        count += combinations
        if count > _MAX_DEVICES:
            raise FormError(f"{where}: with it there are over {_MAX_DEVICES} devices")
    for chip, about in table.chips.items():
        for fact, values in about.facts.items():
            _check_fact(fact, values, f'it.chips["{chip}"]')
        if about.play:
            _check_text(about.play, f'it.chips["{chip}"].play')
    if not table.devices:
        raise FormError("it.devices is empty, expected at least one device")


def _check_fact(fact: str, values: tuple[str, ...], where: str) -> None:
    if not values:
        raise FormError(f"{where}: {fact} has no value; leave out what a device does not have")
    for value in values:
        _check_text(value, f"{where}: {fact}")


def _check_text(value: str, where: str) -> None:
    if not value.isprintable() or not value.strip() or len(value) > _MAX_TEXT:
        raise FormError(
            f"{where} has the value {value[:_MAX_TEXT]!r}, expected a printable text of at most "
            f"{_MAX_TEXT} characters"
        )


def missing_platform(platform: str, path: Path, label: str) -> BuildError:
    """The error for a platform of which a table has no device."""
    return BuildError(
        f"{label}: platforms: got {platform!r}, and {path.name} has no device of it.",
        "Name a platform of the table, or add devices to a table of your own.",
    )
