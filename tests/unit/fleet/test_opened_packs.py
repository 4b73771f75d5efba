"""Packs on devices: the interface opens what stores deliver, and takes the best program there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import play
import pytest
from etbundle.variants import devices
from etbundle.variants.devices import Device
from etlink import manifest as manifests
from runner.api.executorch_app import App

_PACK = Path("tests/unit/fleet/pack")
_ASSETS = _PACK / "pictures/src/main/assets"
_CONFIG = play.read((_PACK / "device_targeting_configuration.xml").read_text(encoding="utf-8"))
_TABLE = devices.read(Path("rules/devices.json"))
# Those of this machine's runtime.
_LOADS = ("xnnpack", "portable")


def delivered(device: Device) -> Path:
    """The folder that Play delivers to a phone."""
    chip = device.facts.get("soc", ("",))[0]
    maker = _TABLE.chips[chip].play.split(", ")[0] if chip else ""
    ram = int(device.facts["ram_gb"][0]) * 2**30
    seen = {"ram": ram, "maker": maker, "model": chip, "brand": "", "device": ""}
    return _ASSETS / f"executorch#group_{play.group_of(_CONFIG, seen)}"


def phones() -> list[Device]:
    """One device of each chip, size of memory and system."""
    found = {}
    for device in devices.devices_of(_TABLE):
        if device.platform == "android_arm64":
            keys = ("soc", "ram_gb", "os_level")
            found[tuple(device.facts.get(key, ("",))[0] for key in keys)] = device
    return list(found.values())[::3]


@pytest.mark.parametrize("device", phones(), ids=lambda device: device.name)
def test_a_phone_opens_what_play_delivers(device: Device) -> None:
    folder = delivered(device)
    [choices] = manifests.read(folder / "manifest.json").variants.values()
    there = {path.stem for path in folder.glob("programs/*.pte")}
    fitting = [v.program for v in choices if v.fits(device.facts) and v.program in there]
    loading = [name for name in fitting if any(word in name for word in _LOADS)]
    # Those that a phone lacks are empty, not this machine's.
    facts = dict.fromkeys(("features", "os_level", "qnn", "ram_gb", "soc", "vulkan"), "")
    facts |= {name: " ".join(values) for name, values in device.facts.items()}
    with App(folder, device=facts) as app:
        found = app.variant("pictures")
        assert found is not None
        assert found["program"] == loading[0]
        with app.session("pictures") as session:
            [output] = session.run([np.ones((1, 3, 16, 16), "float32")])
            assert np.isfinite(output).all()
