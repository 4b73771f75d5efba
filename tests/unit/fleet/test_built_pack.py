"""The pack that et_android_ai_pack builds: each group's folder is complete."""

from __future__ import annotations

from pathlib import Path

import play
from etlink import manifest as manifests

_PACK = Path("tests/unit/fleet/pack")
_ASSETS = _PACK / "pictures/src/main/assets"
_ALL = "conv_vulkan_fp32 conv_xnnpack_int8_static_per_channel conv_xnnpack_fp32 conv_portable_fp32"
_VULKAN, _INT8, _FP32, _PORTABLE = _ALL.split()


def test_groups_have_their_programs() -> None:
    """Vulkan is no fact of Play's, and neither is the system: those get the next ones, too."""
    config = play.read((_PACK / "device_targeting_configuration.xml").read_text(encoding="utf-8"))
    assert [group.attrib["name"] for group in config] == [_VULKAN, _INT8, _FP32]
    programs = {
        folder.name: sorted(path.stem for path in folder.glob("programs/*.pte"))
        for folder in _ASSETS.iterdir()
    }
    assert programs == {
        f"executorch#group_{_VULKAN}": sorted([_VULKAN, _INT8, _FP32, _PORTABLE]),
        f"executorch#group_{_INT8}": sorted([_INT8, _FP32, _PORTABLE]),
        f"executorch#group_{_FP32}": sorted([_FP32, _PORTABLE]),
        "executorch#group_other": [_PORTABLE],
    }


def test_files_are_those_of_the_manifest() -> None:
    """Their bytes, and nothing that the manifest does not have."""
    for folder in _ASSETS.iterdir():
        found = manifests.read(folder / "manifest.json")
        assert list(found.variants) == ["pictures"]
        for path in folder.rglob("*"):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and name != "manifest.json":
                assert path.stat().st_size == found.files[name].size
                assets = Path("tests/unit/fleet/files/assets", name)
                assert path.read_bytes() == assets.read_bytes()


def test_the_first_chips_get_the_first_program() -> None:
    config = play.read((_PACK / "device_targeting_configuration.xml").read_text(encoding="utf-8"))
    phone = {"ram": 12 * 2**30, "maker": "QTI", "model": "SM8650", "brand": "x", "device": "y"}
    assert play.group_of(config, phone) == _VULKAN
    assert play.group_of(config, {**phone, "model": "SM8550"}) == _INT8
    assert play.group_of(config, {**phone, "model": "?"}) == _FP32
    assert play.group_of(config, {**phone, "model": "?", "ram": 3 * 2**30}) == "other"


def test_a_release_has_what_downloads_need() -> None:
    """Conditions of each program, and a hash of each file."""
    found = manifests.read(Path("tests/unit/fleet/downloads/manifest.json"))
    assert [variant.program for variant in found.variants["pictures"]] == _ALL.split()
    for program in found.programs.values():
        for path in (program.file, *program.data):
            assert len(found.files[path].sha256) == 64
