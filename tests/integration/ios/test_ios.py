"""A Swift package of the iOS runtime's framework, programs and data."""

from __future__ import annotations

import json
import plistlib
import re
import zipfile
from pathlib import Path

PACKAGE = Path("tests/integration/ios/nets_ios")
ZIP = Path("tests/integration/ios/nets_ios.zip")
APP = Path("tests/integration/android/host_app")
FRAMEWORK = "ExecutorchLib.xcframework"
FILES = PACKAGE / "Sources/NetsIos/ExecuTorch"
# Mach-O, 64 bits, little endian.
_MAGIC = b"\xcf\xfa\xed\xfe"


def test_framework() -> None:
    """One part for devices and one for simulators, each with its binary."""
    info = plistlib.loads((PACKAGE / FRAMEWORK / "Info.plist").read_bytes())
    assert info["CFBundlePackageType"] == "XFWK"
    parts = {part["LibraryIdentifier"]: part for part in info["AvailableLibraries"]}
    assert list(parts) == ["ios-arm64", "ios-arm64-simulator"]
    assert "SupportedPlatformVariant" not in parts["ios-arm64"]
    assert parts["ios-arm64-simulator"]["SupportedPlatformVariant"] == "simulator"
    binaries = set()
    for name, part in parts.items():
        assert part["SupportedPlatform"] == "ios"
        assert part["SupportedArchitectures"] == ["arm64"]
        binary = PACKAGE / FRAMEWORK / name / part["BinaryPath"]
        # Without mlx.metallib, which only programs for MLX need.
        names = {path.name for path in binary.parent.iterdir()}
        assert names == {"ExecutorchLib", "Info.plist"}
        contents = binary.read_bytes()
        assert contents.startswith(_MAGIC)
        binaries.add(contents)
    assert len(binaries) == 2


def test_files() -> None:
    """The app's programs and data, each once, and a manifest of them."""
    app = json.loads((APP / "manifest.json").read_text())
    manifest = json.loads((FILES / "manifest.json").read_text())
    kept = {
        n: f for n, f in app["files"].items() if n.startswith(("programs/", "data/", "assets/"))
    }
    assert manifest["files"] == kept
    assert manifest["platforms"] == ["ios_arm64", "ios_sim_arm64"]
    assert manifest["executorch"]["runtime"] == "1.3.1"
    for name in kept:
        assert (FILES / name).read_bytes() == (APP / name).read_bytes()


def test_package() -> None:
    """The package's Swift files."""
    text = (PACKAGE / "Package.swift").read_text()
    assert text.startswith("// swift-tools-version:5.9\n")
    assert '.binaryTarget(name: "ExecutorchLib", path: "ExecutorchLib.xcframework")' in text
    assert '.binaryTarget(name: "ExecutorchApp", path: "ExecutorchApp.xcframework")' in text
    assert 'dependencies: ["ExecutorchApp", "ExecutorchLib"]' in text
    assert '.copy("ExecuTorch")' in text
    # As the framework's own Info.plist says.
    assert '.iOS("17.0")' in text
    source = (PACKAGE / "Sources/NetsIos/NetsIos.swift").read_text()
    assert "public enum NetsIos {" in source


def test_zip() -> None:
    """The same files; binaries are executable."""
    with zipfile.ZipFile(ZIP) as archive:
        names = {name.removeprefix("nets_ios/") for name in archive.namelist()}
        for name in names:
            assert archive.read(f"nets_ios/{name}") == (PACKAGE / name).read_bytes()
        programs = {i.filename for i in archive.infolist() if i.external_attr >> 16 & 0o111}
    found = {p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*") if p.is_file()}
    assert names == found
    assert any(name.startswith("licenses/executorch_runtime_ios_arm64/") for name in names)
    assert programs == {
        f"nets_ios/{name}.xcframework/{part}/{name}.framework/{name}"
        for name in ("ExecutorchApp", "ExecutorchLib")
        for part in ("ios-arm64", "ios-arm64-simulator")
    }


# What the classes do not offer: what the runner's command line needs.
_NOT_IN_SWIFT = {
    "executorch_app_" + name
    for name in (
        "close_tokenizer",
        "context",
        "data_path",
        "describe_method",
        "generate",
        "has_weight_cache",
        "is_language_model",
        "label",
        "last_run",
        "load_method",
        "open_session_at",
        "open_tokenizer",
        "position",
        "program_path",
        "reset_session",
        "runtime_info",
        "set_threads",
        "text_inputs",
        "write_events",
    )
}


def test_interface() -> None:
    """The framework that the classes import, and the C functions that they call."""
    sources = {path.stem: path.read_text() for path in FILES.parent.glob("*.swift")}
    assert sorted(sources) == ["Chat", "NetsIos", "Program", "Programs"]
    folder = PACKAGE / "ExecutorchApp.xcframework/ios-arm64/ExecutorchApp.framework"
    info = plistlib.loads((folder / "Info.plist").read_bytes())
    assert info["CFBundleExecutable"] == "ExecutorchApp"
    assert 'header "executorch_app.h"' in (folder / "Modules/module.modulemap").read_text()
    header = (folder / "Headers/executorch_app.h").read_text()
    declared = set(re.findall(r"\b(executorch_app_\w+)\(", header))
    used = {name for text in sources.values() for name in re.findall(r"\bexecutorch_app_\w+", text)}
    assert declared - used == _NOT_IN_SWIFT
    types = set(re.findall(r"\} (executorch_app_\w+);", header))
    assert used - declared <= types


def test_an_app_with_a_main_of_its_own() -> None:
    package = Path("tests/integration/ios/own_main_ios")
    text = (package / "Package.swift").read_text()
    assert 'dependencies: ["ExecutorchLib"]' in text and "ExecutorchApp" not in text
    assert [path.name for path in package.rglob("*.swift")].count("Chat.swift") == 0
