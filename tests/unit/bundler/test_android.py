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
        "label": f"//x:{folder.name}",
        "platforms": [platform],
        "executorch": {"exporter": "1.5.1", "runtime": "1.3.1"},
        "binary": "runner",
        "libraries": ["lib/libexecutorch.so"],
        "programs": {"net": {"label": "//x:net", "file": "programs/net.pte"}},
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
    entries = {e.name: e.source for e in apps.common([arm, x86], "//x:both", "in")}
    expected = sorted({*FILES, "licenses/x86/LICENSE"} - {"runner", "lib/libexecutorch.so"})
    assert sorted(entries) == sorted([f"in/{path}" for path in expected] + ["in/manifest.json"])
    manifest = json.loads(entries["in/manifest.json"])
    assert manifest["label"] == "//x:both"
    assert manifest["platforms"] == ["android_arm64", "android_x86_64"]
    assert manifest["files"]["licenses/x86/LICENSE"] == {
        "size": 3,
        "sha256": hashlib.sha256(b"MIT").hexdigest(),
    }
    assert list(manifest["files"]) == expected
    assert not {"binary", "libraries"} & manifest.keys()


def with_variants(folder: Path, platform: str, *names: str, group: str = "chat") -> apps.App:
    """An app that has some of three variants of one name."""
    programs = {name: {"label": f"//x:{name}", "file": f"programs/{name}.pte"} for name in names}
    kept = {path: text for path, text in FILES.items() if not path.startswith("programs/")}
    return make_app(
        folder,
        platform,
        kept | {about["file"]: name for name, about in programs.items()},
        programs=programs,
        variants={group: [{"program": name} for name in names]},
    )


def test_variants_of_one_platform(tmp_path: Path) -> None:
    """Programs for an accelerator are in the app for its platform alone."""
    arm = with_variants(tmp_path / "arm", "android_arm64", "npu", "gpu", "cpu")
    x86 = with_variants(tmp_path / "x86", "android_x86_64", "gpu", "cpu")
    for order in ([arm, x86], [x86, arm]):
        entries = {e.name: e.source for e in apps.common(order, "//x:both", "in")}
        manifest = json.loads(entries["in/manifest.json"])
        listed = [variant["program"] for variant in manifest["variants"]["chat"]]
        assert listed == ["npu", "gpu", "cpu"]
        assert "in/programs/npu.pte" in entries


def test_variants_that_an_app_lacks(tmp_path: Path) -> None:
    arm = with_variants(tmp_path / "arm", "android_arm64", "npu", "cpu")
    x86 = with_variants(tmp_path / "x86", "android_x86_64", "cpu", group="talk")
    with pytest.raises(BuildError, match="//x:x86 lacks chat, which //x:arm has"):
        apps.common([arm, x86], "//x:both", "in")


@pytest.mark.parametrize(
    ("change", "said", "message"),
    [
        (
            {"programs/net.pte": "ET13"},
            {},
            'two files would be "programs/net.pte": 4 bytes .*sha256',
        ),
        ({"data/more.ptd": "FT01"}, {}, "//x:arm lacks data/more.ptd, which //x:x86 has"),
        (
            {"licenses/executorch/LICENSE": "MIT"},
            {},
            'two files would be "licenses/executorch/LICENSE"',
        ),
        ({}, {"executorch": {"runtime": "1.5.1"}}, "have other versions of ExecuTorch"),
        ({}, {"programs": {}}, "//x:x86 lacks net, which //x:arm has"),
    ],
)
def test_apps_that_differ(
    arm: apps.App, change: dict[str, str], said: dict, message: str, tmp_path: Path
) -> None:
    """Only the platform may be another."""
    x86 = make_app(tmp_path / "x86", "android_x86_64", FILES | change, **said)
    with pytest.raises(BuildError, match=message):
        apps.common([arm, x86], "//x:both", "in")


def test_no_app(tmp_path: Path) -> None:
    """Directories that no app is in."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.txt").write_text("")
    with pytest.raises(BuildError, match="is not an app: manifest.json not found"):
        apps.read(tmp_path / "a")
    with pytest.raises(BuildError, match="got format 2, expected 1"):
        make_app(tmp_path / "b", "android_arm64", FILES, format=2)
    make_app(tmp_path / "c", "android_arm64", FILES)
    (tmp_path / "c/assets/words.txt").unlink()
    with pytest.raises(BuildError, match="//x:c: assets/words.txt not found in an app whose"):
        apps.common([apps.read(tmp_path / "c")] * 2, "//x:c", "in")


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
