"""Apps for several kinds of devices in one APK or AAR."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etbundle import apps
from etbundle.mobile import apk

FILES = {
    "runner": "elf",
    "lib/libexecutorch.so": "elf",
    "programs/net.pte": "ET12",
    "programs/net.manifest.json": "{}",
    "data/weights.ptd": "FT01",
    "assets/words.txt": "a b",
    "licenses/executorch/LICENSE": "BSD",
}


def make_app(folder: Path, platform: str, files: dict[str, str], **said: object) -> apps.App:
    """An app as EtApp writes it."""
    described = {}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        described[name] = {"size": len(text), "sha256": digest}
    manifest = {
        "format": 1,
        "app": folder.name,
        "label": f"//x:{folder.name}",
        "platform": platform,
        "executorch": {"exporter": "1.5.1", "runtime": "1.3.1"},
        "binary": "runner",
        "libraries": ["lib/libexecutorch.so"],
        "programs": [{"name": "net", "file": "programs/net.pte"}],
        "files": described,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | said))
    return apps.read(folder)


@pytest.fixture
def arm(tmp_path: Path) -> apps.App:
    return make_app(tmp_path / "arm", "android_arm64", FILES)


def test_common(arm: apps.App, tmp_path: Path) -> None:
    """Programs and data once, licenses of all, libraries of none."""
    others = FILES | {"lib/libexecutorch.so": "other elf", "licenses/x86/LICENSE": "MIT"}
    x86 = make_app(tmp_path / "x86", "android_x86_64", others)
    common = apps.common([arm, x86], "both")
    expected = sorted({*FILES, "licenses/x86/LICENSE"} - {"runner", "lib/libexecutorch.so"})
    assert list(common.files) == expected
    manifest = json.loads(common.manifest)
    assert manifest["app"] == "both"
    assert manifest["platforms"] == ["android_arm64", "android_x86_64"]
    assert manifest["files"]["licenses/x86/LICENSE"] == {
        "size": 3,
        "sha256": hashlib.sha256(b"MIT").hexdigest(),
    }
    assert list(manifest["files"]) == expected
    assert not {"binary", "label", "libraries", "platform"} & manifest.keys()


@pytest.mark.parametrize(
    ("change", "said", "message"),
    [
        (
            {"programs/net.pte": "ET13"},
            {},
            r"programs/net.pte differs between //x:arm \(sha256 .*//x:x86",
        ),
        ({"data/more.ptd": "FT01"}, {}, "//x:arm lacks data/more.ptd, which //x:x86 has"),
        (
            {"licenses/executorch/LICENSE": "MIT"},
            {},
            "licenses/executorch/LICENSE differs between //x:arm",
        ),
        ({}, {"executorch": {"runtime": "1.5.1"}}, 'differ in "executorch" of their manifest.json'),
        ({}, {"programs": []}, 'differ in "programs"'),
    ],
)
def test_apps_that_differ(
    arm: apps.App, change: dict[str, str], said: dict, message: str, tmp_path: Path
) -> None:
    """Only the platform may be another."""
    x86 = make_app(tmp_path / "x86", "android_x86_64", FILES | change, **said)
    with pytest.raises(BuildError, match=message):
        apps.common([arm, x86], "both")


def test_no_app(tmp_path: Path) -> None:
    """Directories that no app is in."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.txt").write_text("")
    with pytest.raises(BuildError, match="is not an app: manifest.json not found"):
        apps.read(tmp_path / "a")
    with pytest.raises(BuildError, match="got format 2, expected 1"):
        make_app(tmp_path / "b", "android_arm64", FILES, format=2)
    make_app(tmp_path / "c", "android_arm64", FILES)
    (tmp_path / "c/assets/more.txt").write_text("")
    with pytest.raises(BuildError, match="manifest.json does not list assets/more.txt"):
        apps.common([apps.read(tmp_path / "c")] * 2, "c")


def write(output: Path, apps_by_abi: dict[str, apps.App], folder: Path) -> Path:
    """An APK of the apps."""
    (folder / "dex").mkdir(exist_ok=True)
    (folder / "dex/classes.dex").write_text("dex")
    (folder / "library.so").write_text("elf")
    base = folder / "base.apk"
    with zipfile.ZipFile(base, "w") as archive:
        archive.writestr("AndroidManifest.xml", "binary")
    libraries = {abi: folder / "library.so" for abi in apps_by_abi}
    apk.write_apk(output, "name", base, folder / "dex", apps_by_abi, libraries)
    return output


def test_apk(arm: apps.App, tmp_path: Path) -> None:
    """An APK has its files in their places and order."""
    with zipfile.ZipFile(write(tmp_path / "a.apk", {"arm64-v8a": arm}, tmp_path)) as archive:
        assert archive.namelist() == [
            "AndroidManifest.xml",
            "assets/assets/words.txt",
            "assets/data/weights.ptd",
            "assets/licenses/executorch/LICENSE",
            "assets/manifest.json",
            "assets/programs/net.manifest.json",
            "assets/programs/net.pte",
            "classes.dex",
            "lib/arm64-v8a/libexecutorch.so",
            "lib/arm64-v8a/libexecutorch_app.so",
        ]


def test_too_large(arm: apps.App, tmp_path: Path) -> None:
    """More than an APK can hold, as a sparse file."""
    with arm.files["data/weights.ptd"].open("r+b") as file:
        file.truncate(2**31)
    with pytest.raises(BuildError, match=r"is too large: got 2.0 GiB, expected at most 2 GiB"):
        write(tmp_path / "a.apk", {"arm64-v8a": arm}, tmp_path)


def test_no_libraries(tmp_path: Path) -> None:
    """An app that can't be for Android."""
    app = make_app(tmp_path / "ios", "ios_arm64", {"programs/net.pte": "ET12"})
    with pytest.raises(BuildError, match=r"//x:ios: no library found in lib/"):
        write(tmp_path / "a.apk", {"arm64-v8a": app}, tmp_path)
