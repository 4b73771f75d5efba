"""The rules' own table of devices: complete, and from named sources."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from etbundle.variants import devices
from etbundle.variants.devices import Device, Model

TABLE = devices.read(Path("rules/devices.json"))
PHONES = [m for m in TABLE.devices if m.facts["platform"][0] in ("android_arm64", "ios_arm64")]
# As users write them in conditions: rules/private/conditions.bzl.
FACTS = re.findall(
    r'^    "(\w+)": (?:True|False),$', Path("rules/private/conditions.bzl").read_text(), re.M
)
CLASSES = {"1", "2", "3", "4", "6", "8", "12", "16", "18", "24"}


def test_sources_are_named_and_dated() -> None:
    assert len(TABLE.sources) > 3
    for source in TABLE.sources:
        assert source.name
        assert datetime.date.fromisoformat(source.date) <= datetime.date(2026, 11, 26)


def test_there_are_phones_and_chips_of_many_makers() -> None:
    makers = {model.name.split()[0] for model in PHONES}
    assert len(PHONES) >= 60
    assert {"Apple", "Google", "Samsung", "Xiaomi", "OnePlus", "Motorola", "Sony"} <= makers
    assert len(TABLE.chips) >= 20


def test_each_platform_has_a_device() -> None:
    text = Path("toolchains/platforms/BUILD.bazel").read_text(encoding="utf-8")
    platforms = set(re.findall(r'^platform\(\s+name = "(\w+)"', text, re.MULTILINE))
    assert platforms == {model.facts["platform"][0] for model in TABLE.devices}


@pytest.mark.parametrize("model", TABLE.devices, ids=lambda model: model.name)
def test_facts_are_those_that_conditions_name(model: Model) -> None:
    facts = {**model.facts, **model.one_of}
    assert facts.keys() <= set(FACTS)
    assert set(facts["ram_gb"]) <= CLASSES
    for fact in ("os_level", "ram_gb", "vulkan"):
        assert all(re.fullmatch(r"\d+(\.\d+)*", value) for value in facts.get(fact, ()))
    if model in PHONES:
        assert "os_level" in facts


def test_chips_are_those_of_devices() -> None:
    """And phones with a chip have its features."""
    used = {soc for model in TABLE.devices for soc in model.facts.get("soc", ())}
    assert TABLE.chips.keys() <= used
    for device in devices.devices_of(TABLE):
        if device.platform == "android_arm64" and "soc" in device.facts:
            assert "dotprod" in device.facts["features"], device.name


def test_a_newer_generation_has_what_an_older_one_has() -> None:
    def features(chip: str) -> set[str]:
        return set(TABLE.chips[chip].facts["features"])

    for family in (
        ["SM8250", "SM8350", "SM8450", "SM8550", "SM8650", "SM8750"],
        ["Tensor", "Tensor G2", "Tensor G3", "Tensor G4"],
    ):
        for older, newer in zip(family, family[1:], strict=False):
            assert features(older) <= features(newer), (older, newer)


def test_sizes_of_memory_make_devices() -> None:
    by_name = {device.name: device for device in devices.devices_of(TABLE)}
    large: Device = by_name["OnePlus 12, ram_gb 24, os_level 36"]
    assert large.facts["soc"] == ("SM8650",)
    assert large.facts["ram_gb"] == ("24",)
    assert len(by_name) > 200
