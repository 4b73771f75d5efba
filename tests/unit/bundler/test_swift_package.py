"""Text and property lists of a Swift package."""

from __future__ import annotations

import plistlib
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etbundle.mobile import swift_package


def info(path: Path, **content: object) -> Path:
    """A framework's Info.plist, in the binary form that Xcode writes."""
    path.write_bytes(plistlib.dumps(content, fmt=plistlib.FMT_BINARY))
    return path


def test_minimum(tmp_path: Path) -> None:
    """The newest of what frameworks need, by number and not by letter."""
    nine = info(tmp_path / "nine", MinimumOSVersion="9.3")
    fifteen = info(tmp_path / "fifteen", MinimumOSVersion="15.10.1")
    assert swift_package.minimum_ios([nine, fifteen]) == "15.10.1"
    assert swift_package.minimum_ios([nine]) == "9.3"
    assert swift_package.minimum_ios([info(tmp_path / "none")]) == "17.0"
    assert swift_package.minimum_ios([]) == "17.0"


def test_damaged(tmp_path: Path) -> None:
    """No property list, or one with another kind of version."""
    broken = tmp_path / "broken"
    broken.write_text("plist?")
    with pytest.raises(BuildError, match="broken is not a property list"):
        swift_package.minimum_ios([broken])
    with pytest.raises(BuildError, match='MinimumOSVersion: got "latest", expected numbers'):
        swift_package.minimum_ios([info(tmp_path / "x", MinimumOSVersion="latest")])


def test_info_plist() -> None:
    """One part only, and the order of parts doesn't count."""
    devices = plistlib.loads(swift_package.info_plist("A", ["ios-arm64"]))
    assert devices["AvailableLibraries"] == [
        {
            "BinaryPath": "A.framework/A",
            "LibraryIdentifier": "ios-arm64",
            "LibraryPath": "A.framework",
            "SupportedArchitectures": ["arm64"],
            "SupportedPlatform": "ios",
        }
    ]
    both = ["ios-arm64", "ios-arm64-simulator"]
    assert swift_package.info_plist("A", both) == swift_package.info_plist("A", both[::-1])


def test_several_frameworks() -> None:
    """Commas between them, and only there."""
    values = {"name": "n", "module": "M", "minimum_ios": "17.0"}
    text = swift_package.render("Package.swift.jinja", values | {"frameworks": ["A", "B"]})
    assert b'dependencies: ["A", "B"]' in text
    assert b'.binaryTarget(name: "A", path: "A.xcframework"),\n    .binaryTarget(name: "B"' in text
