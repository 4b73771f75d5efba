"""EtScan reads from Android's libraries just what they register when loaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etbundle import fit, library, scan
from etbundle.fit import Runtime
from etbundle.needs import uses_of
from etlink import delegated

_HERE = Path("tests/integration/bionic").absolute()
_BENCH = Path("tests/bionic").absolute()


@pytest.mark.parametrize("platform", ["android_arm64", "android_x86_64"])
def test_libraries_register_what_is_found(platform: str) -> None:
    app = _HERE / f"registered_{platform}"
    done = subprocess.run(
        [_BENCH / f"run_{platform}", app / "runner"], capture_output=True, check=True, text=True
    )
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    scanned = scan.scan(app / "lib/libexecutorch_jni.so")
    assert sorted(name for kind, _, name in lines if kind == "operator") == list(scanned.operators)
    assert sorted(name for kind, _, name in lines if kind == "backend") == list(scanned.backends)
    assert len(scanned.operators) > 200 and scanned.backends


@pytest.mark.parametrize("platform", ["android_arm64", "android_x86_64"])
def test_vulkan_has_the_operators_that_are_found(platform: str) -> None:
    app = _HERE / f"vulkan_registered_{platform}"
    done = subprocess.run(
        [_BENCH / f"run_{platform}", app / "runner"], capture_output=True, check=True, text=True
    )
    registered = {name for name in done.stdout.split() if "." in name}
    found = set(scan.scan(app / "lib/libexecutorch_jni.so").payload_operators["VulkanBackend"])
    assert len(registered) > 100
    assert not registered - found
    # Another string that looks like one; no payload has a name without a namespace that is not
    # registered.
    assert found - registered <= {"index.Tensor"}


@pytest.mark.parametrize("platform", ["android_arm64", "android_x86_64"])
def test_an_app_is_refused_whose_payload_the_runtime_cannot_run(
    tmp_path: Path, platform: str
) -> None:
    core = _HERE / f"vulkan_registered_{platform}/lib/libexecutorch_jni.so"
    scan.write(tmp_path / "core.registered", scan.scan(core))
    has = library.read("//r:core", str(core), tmp_path / "core.registered", ())
    (lowered,) = _HERE.glob("warp_vulkan*.lowered")
    uses = uses_of("//m:warp", _HERE / "warp_vulkan.pte", delegated.layers(lowered))
    with pytest.raises(BuildError) as caught:
        fit.choose("//a:app", Runtime("//r:r", platform, "1.3.1", has, ()), uses)
    assert '"aten.grid_sampler_2d.default"' in str(caught.value)
    assert 'VulkanBackend (method "forward", in warp)' in str(caught.value)
    assert "ExecuTorch 1.4.0 is the first" in str(caught.value)
