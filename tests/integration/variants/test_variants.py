"""An app chooses the best variant that its device meets, and that loads."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from etbundle.variants import devices
from runner import emulated
from runner.api.executorch_app import App, AppError

_HERE = Path("tests/integration/variants").absolute()
_FILES = _HERE / "files/assets"
_TABLE = json.loads((_HERE / "conv.variants.json").read_text())
_FACTS = ("platform", "os", "cpu", "os_level", "soc", "ram_gb", "features", "vulkan", "qnn")
_FLEET = devices.devices_of(devices.read(_HERE / "devices.json"))
# They never load: this machine's runtime has QNN's backend without a library of QNN, and none for
# Vulkan.
_NPU, _GPU = "conv_qualcomm_int8", "conv_vulkan_fp32"
# Python answers for the backends of these.
_VGF, _TOSA = "conv_arm_vgf_int8", "conv_arm_tosa_fp"
_REASONS = {
    _NPU: "Fail to start backend",
    _GPU: "VulkanBackend",
    _VGF: "cannot be loaded",
    _TOSA: "cannot be loaded",
}
_PHONE = next(d for d in _FLEET if d.name == "Phone with an NPU, ram_gb 8, os_level 35")

# Backends without a device here; whether a payload is taken.
_LOADS = {"VgfBackend": True, "TOSABackend": True}


def npu_of(name: str) -> Any:
    def make(_: emulated.Delegate) -> emulated.Run:
        if not _LOADS[name]:
            raise RuntimeError(f"{name} has no driver")
        return lambda values: values

    return make


@pytest.fixture(scope="module", autouse=True)
def backends() -> None:
    for name in _LOADS:
        emulated.register_backend(name, npu_of(name))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(_FILES, tmp_path / "app")
    for path in (tmp_path / "app").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path / "app"


def given(device: devices.Device) -> dict[str, str]:
    """All facts: those that a device lacks are empty, and not those of this machine."""
    return {fact: " ".join(device.facts.get(fact, ())) for fact in _FACTS}


def came_to(folder: Path, device: devices.Device, **options: Any) -> dict[str, Any]:
    with App(folder, device=given(device), **options) as app:
        found = app.variant("conv")
        assert found is not None and app.variant() == found
        assert app.programs == ["conv"]
        return found


def rows() -> Iterator[tuple[devices.Device, list[str]]]:
    """Devices, and the programs that the proof gives them, best first."""
    by_name = {row["device"]: row for row in _TABLE["devices"]}
    assert len(by_name) == len(_FLEET)
    for device in _FLEET:
        row = by_name[device.name]
        yield device, [label.split(":")[-1] for label in (row["program"], *row["then"])]


def test_each_device_and_each_set_of_what_loads(folder: Path) -> None:
    """The proof, in Python, and the interface, in C++, agree."""
    missing = ["conv_xnnpack_int8_static_per_channel", "conv_xnnpack_fp32"]
    programs = folder / "programs"
    for vgf, tosa, *present in itertools.product((True, False), repeat=4):
        _LOADS.update(VgfBackend=vgf, TOSABackend=tosa)
        for name, is_present in zip(missing, present, strict=True):
            file, away = programs / f"{name}.pte", programs / f"{name}.away"
            if is_present and away.exists():
                away.rename(file)
            elif not is_present and file.exists():
                file.rename(away)
        cannot = {name for name, there in zip(missing, present, strict=True) if not there}
        cannot |= {_NPU, _GPU, *(n for n, loads in ((_VGF, vgf), (_TOSA, tosa)) if not loads)}
        for device, fits in rows():
            expected = next(name for name in fits if name not in cannot or name == fits[-1])
            found = came_to(folder, device)
            assert found["program"] == expected, (device.name, cannot)
            skipped = {row["program"]: row["reason"] for row in found["skipped"]}
            for name in fits[: fits.index(expected)]:
                reason = _REASONS.get(name, f"{name}.pte cannot be opened")
                assert reason in skipped[name], skipped
    _LOADS.update(VgfBackend=True, TOSABackend=True)


def test_the_table_says_which_device_gets_which() -> None:
    found = {device.name: names[0] for device, names in rows()}
    assert found == {
        "Phone with an NPU, ram_gb 6, os_level 30": "conv_vulkan_fp32",
        "Phone with an NPU, ram_gb 6, os_level 35": "conv_arm_vgf_int8",
        "Phone with an NPU, ram_gb 8, os_level 30": "conv_qualcomm_int8",
        "Phone with an NPU, ram_gb 8, os_level 35": "conv_qualcomm_int8",
        "Phone with an NPU, ram_gb 12, os_level 30": "conv_qualcomm_int8",
        "Phone with an NPU, ram_gb 12, os_level 35": "conv_qualcomm_int8",
        "Phone of another chip": "conv_arm_tosa_fp",
        "Old phone, ram_gb 2": "conv_portable_fp32",
        "Old phone, ram_gb 4": "conv_xnnpack_fp32",
        "Computer, ram_gb 2": "conv_xnnpack_int8_static_per_channel",
        "Computer, ram_gb 16": "conv_xnnpack_int8_static_per_channel",
        "Server": "conv_xnnpack_int8_static_per_channel",
        "Board, ram_gb 1": "conv_portable_fp32",
        "Board, ram_gb 4": "conv_xnnpack_fp32",
    }
    by_program = {row["program"].split(":")[-1]: row for row in _TABLE["variants"]}
    assert by_program[_NPU]["from_payloads"] == [{"fact": "soc", "any_of": ["SM8650"]}]
    assert by_program[_GPU]["from_payloads"] == [{"fact": "vulkan", "at_least": "1.1"}]
    page = (_HERE / "conv.variants.md").read_text()
    assert "| Old phone, ram_gb 4 | @" in page or "| Old phone, ram_gb 4 | //" in page
    assert "needs soc = SM8650" in page


def test_reasons(folder: Path) -> None:
    found = came_to(folder, next(d for d in _FLEET if d.name == "Phone of another chip"))
    assert found["program"] == _TOSA
    reasons = [row["reason"] for row in found["skipped"]]
    assert reasons == [
        "it needs soc = SM8650, and the device has soc SM8450",
        "it needs os_level >= 33, and the device has os_level 31",
        "it needs soc = SM8650, and the device has soc SM8450",
    ]
    assert found["device"]["soc"] == ["SM8450"]


def test_a_chosen_program_runs_under_the_variants_name(folder: Path) -> None:
    image = np.linspace(-1, 1, 3 * 16 * 16, dtype="f4").reshape(1, 3, 16, 16)
    outputs = []
    for name in ("conv_xnnpack_fp32", "conv_portable_fp32"):
        with App(folder, variants=[name]) as app, app.session("conv") as session:
            assert app.variant("conv")["program"] == name
            outputs.append(session.run([image])[0])
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"variants": ["conv"]}, ['variant: got "conv"', "conv_portable_fp32"]),
        ({"variants": ["other"]}, ['variant: got "other"']),
        ({"variants": [3]}, ["variants: got 3"]),
        ({"device": {"soc SM": "x"}}, ["soc SM=x", "expected FACT=VALUE"]),
        ({"device": {"": "x"}}, ["expected FACT=VALUE"]),
    ],
    ids=str,
)
def test_bad_options(folder: Path, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(AppError) as caught:
        App(folder, **options)
    for word in words:
        assert word in str(caught.value)


def test_no_program_for_a_device(folder: Path) -> None:
    change(folder, lambda manifest: manifest["variants"]["conv"].pop())
    with pytest.raises(AppError) as caught:
        came_to(folder, next(d for d in _FLEET if d.name == "Board, ram_gb 1"))
    assert 'no program of "conv" is for this device' in str(caught.value)
    assert "it needs ram_gb >= 4, and the device has ram_gb 1" in str(caught.value)


def change(folder: Path, how: Any) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    how(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ({"fact": "npu_tops", "at_least": "40"}, "the device has no npu_tops"),
        ({"fact": "soc", "matches": "SM8.*"}, "none that this version of the interface knows"),
        ({"fact": "ram_gb", "at_least": "much"}, "it needs ram_gb >= much"),
        ({"fact": "ram_gb", "at_least": "1", "below": ".9"}, "it needs ram_gb >= 1 < .9"),
    ],
    ids=["fact", "sign", "bound", "bounds"],
)
def test_conditions_of_later_rules(folder: Path, condition: dict[str, str], reason: str) -> None:
    def add(manifest: Any) -> None:
        manifest["variants"]["conv"][0]["conditions"].append(condition)

    change(folder, add)
    found = came_to(folder, _PHONE)
    assert found["program"] == _VGF
    assert reason in found["skipped"][0]["reason"]


def test_damaged_files_of_a_variant(folder: Path) -> None:
    (folder / f"programs/{_NPU}.pte").write_bytes(b"no program")
    found = came_to(folder, _PHONE)
    assert found["program"] == _VGF
    assert f"{_NPU}.pte has 10 bytes" in found["skipped"][0]["reason"]


def test_more_variants_than_any_app_has(folder: Path) -> None:
    def multiply(manifest: Any) -> None:
        programs, [first, *_] = manifest["programs"], manifest["variants"]["conv"]
        for number in range(100):
            programs[f"more_{number}"] = programs[_NPU]
            manifest["variants"]["conv"].append({**first, "program": f"more_{number}"})

    change(folder, multiply)
    with pytest.raises(AppError, match=r"programs for \"conv\", expected at most 100"):
        came_to(folder, _PHONE)


def test_files_of_another_program_must_be_there(folder: Path) -> None:
    """Only those of variants may be missing."""
    change(folder, lambda manifest: manifest["variants"].clear())
    (folder / f"programs/{_NPU}.pte").unlink()
    with pytest.raises(AppError, match="is missing"):
        App(folder, device=given(_PHONE))


def load_once(folder: Path, state: Path | str, way: str) -> subprocess.CompletedProcess[str]:
    facts = [f"{fact}={value}" for fact, value in given(_PHONE).items()]
    command = [sys.executable, _HERE / "load_once.py", folder, str(state), way, *facts]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("way", ["crash", "kill"])
def test_a_process_that_ends_while_it_loads(folder: Path, tmp_path: Path, way: str) -> None:
    """The next one takes another variant, until the program is a new one."""
    state = tmp_path / "state"
    state.mkdir()
    assert load_once(folder, state, way).returncode < 0
    (mark,) = state.iterdir()
    found = json.loads(load_once(folder, state, way).stdout)
    assert found["program"] == "conv_xnnpack_int8_static_per_channel", "no TOSA in that process"
    reasons = {row["program"]: row["reason"] for row in found["skipped"]}
    assert reasons[_VGF] == (
        f"an earlier process ended while it loaded it; remove {mark} to try it again."
    )

    def renew(manifest: Any) -> None:
        manifest["files"][f"programs/{_VGF}.pte"]["sha256"] = "0" * 64

    change(folder, renew)
    assert load_once(folder, state, way).returncode < 0, "another version is tried"
    mark.unlink()


def test_without_state_nothing_is_remembered(folder: Path) -> None:
    assert load_once(folder, "", "kill").returncode < 0
    assert load_once(folder, "", "kill").returncode < 0


def test_marks_are_removed(folder: Path, tmp_path: Path) -> None:
    found = came_to(folder, _PHONE, state=tmp_path)
    assert found["program"] == _VGF
    _LOADS["VgfBackend"] = False
    assert came_to(folder, _PHONE, state=tmp_path)["program"] == _TOSA
    _LOADS["VgfBackend"] = True
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("executorch_loading")]


def test_a_folder_that_is_not_there_remembers_nothing(folder: Path, tmp_path: Path) -> None:
    assert came_to(folder, _PHONE, state=tmp_path / "none")["program"] == _VGF


def test_a_process_that_loads_now_has_not_crashed(folder: Path, tmp_path: Path) -> None:
    load_once(folder, tmp_path, "kill")
    (mark,) = (path for path in tmp_path.iterdir() if path.name.startswith("executorch_loading"))
    with mark.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert came_to(folder, _PHONE, state=tmp_path)["program"] == _VGF
    assert came_to(folder, _PHONE, state=tmp_path)["program"] == _TOSA


# Programs that an app for Linux has of `pictures`, and the choice by processor.
_PROCESSORS = [
    ("linux_x86_64", [], None),
    ("linux_x86_64", ["--device", "features="], "conv_portable_fp32"),
    ("linux_x86_64", ["--device", "features=avx2"], "conv_xnnpack_fp32"),
    ("linux_arm64", ["-cpu", "cortex-a53"], "conv_portable_fp32"),
    ("linux_arm64", ["-cpu", "cortex-a76"], "conv_xnnpack_int8_static_per_channel"),
    ("linux_arm64", ["-cpu", "max"], "conv_xnnpack_int8_static_per_channel"),
]


@pytest.mark.parametrize(("platform", "options", "expected"), _PROCESSORS, ids=str)
def test_processors(platform: str, options: list[str], expected: str | None) -> None:
    app = _HERE / f"app_{platform}"
    start: list[str | Path] = []
    if platform == "linux_arm64":
        # Not by its script, which chooses the processor.
        (emulator,) = Path("..").resolve().glob("*executorch_qemu")
        libraries = emulator / "usr/aarch64-linux-gnu"
        start = [emulator / "usr/bin/qemu-aarch64-static", *options, "-L", libraries]
        options = []
    command = [*start, app / "runner", "--app", app, "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (ran,) = json.loads(done.stdout)["programs"]
    assert ran["name"] == "pictures"
    if expected is None:
        flags = Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n")[0].split()
        expected = (
            "conv_xnnpack_int8_static_per_channel"
            if "avx512f" in flags
            else "conv_xnnpack_fp32"
            if "avx2" in flags
            else "conv_portable_fp32"
        )
    assert Path(ran["program"]).stem == expected


def test_devices_by_a_runner_for_arm() -> None:
    """The same choices as the proof's, of what a runtime for Linux can load."""
    (emulator,) = Path("..").resolve().glob("*executorch_qemu")
    start = [emulator / "usr/bin/qemu-aarch64-static", "-L", emulator / "usr/aarch64-linux-gnu"]
    runner = _HERE / "app_linux_arm64/runner"
    for device, fits in rows():
        facts = [word for f, v in given(device).items() for word in ("--device", f"{f}={v}")]
        command = [*start, runner, "--app", _FILES, "--json", *facts]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (ran,) = json.loads(done.stdout)["programs"]
        expected = next(name for name in fits if name not in _REASONS)
        assert Path(ran["program"]).stem == expected, device.name


def test_the_app_has_what_its_platform_can_have() -> None:
    manifest = json.loads((_HERE / "app_linux_arm64/manifest.json").read_text())
    assert _GPU not in manifest["programs"]
    assert [v["program"] for v in manifest["variants"]["pictures"]] == [
        "conv_xnnpack_int8_static_per_channel",
        "conv_xnnpack_fp32",
        "conv_portable_fp32",
    ]


def test_the_runner_forces_a_variant() -> None:
    app = _HERE / "app_linux_x86_64"
    command = [app / "runner", "--variant", "conv_portable_fp32", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert Path(json.loads(done.stdout)["programs"][0]["program"]).stem == "conv_portable_fp32"


def test_variants_share_weights() -> None:
    """Two foundations in two programs each take hardly more than their weights."""
    folder = _HERE / "shared/assets"
    weights = 2 * 4 * (64 * 1280 + 1280 + 1280 * 100 + 100)
    files = [path for path in folder.rglob("*") if path.suffix in (".pte", ".ptd")]
    assert len(files) == 6
    assert weights < sum(path.stat().st_size for path in files) <= 1.02 * weights
    added = [
        row["added_bytes"]
        for row in json.loads((_HERE / "net_1.variants.json").read_text())["variants"]
    ]
    assert added[1] < 0.01 * added[0]
    with App(folder, device={"ram_gb": "2"}) as app:
        assert app.programs == ["net_1", "net_2"]
        assert app.variant("net_2")["program"] == "portable_2" and app.variant() is None
        outputs = [app.session(name).run([np.ones((1, 64), "f4")])[0] for name in app.programs]
    with App(folder, device={"ram_gb": "8"}) as app:
        assert app.variant("net_2")["program"] == "xnnpack_2"
        for name, other in zip(app.programs, outputs, strict=True):
            got = app.session(name).run([np.ones((1, 64), "f4")])[0]
            np.testing.assert_allclose(got, other, atol=1e-5)
    assert not np.allclose(*outputs)
