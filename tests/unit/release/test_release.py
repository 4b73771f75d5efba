"""Manifest and checksums of a release."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError
from etlink import manifest as manifests
from example_release import RECIPE, Release, whole
from runner import runtime


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return whole(tmp_path)


def manifest(release: Release, **status: str) -> dict[str, Any]:
    assert release.make(**status) == 0
    return release.json("manifest.json")


def digest(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def sums(files: dict[str, Any]) -> dict[str, Any]:
    """Size and sha256 of files."""
    return {path: {k: file[k] for k in ("size", "sha256")} for path, file in files.items()}


def test_every_file(release: Release) -> None:
    files = manifest(release)["files"]
    there = {
        p.relative_to(release.folder).as_posix() for p in release.folder.rglob("*") if p.is_file()
    }
    assert set(files) == there - {"manifest.json", "SHA256SUMS"}
    for path_in_release, one in files.items():
        assert {k: one[k] for k in ("size", "sha256")} == digest(release.folder / path_in_release)


def test_what_is_in_archives(release: Release, tmp_path: Path) -> None:
    """As unpacking them shows."""
    files = manifest(release)["files"]
    unpacked = tmp_path / "unpacked"
    shutil.unpack_archive(release.folder / "chat_apk.apk", unpacked, "zip")
    assert sums(files["chat_apk.apk"]["contents"]) == {
        p.relative_to(unpacked).as_posix(): digest(p) for p in unpacked.rglob("*") if p.is_file()
    }
    app = tmp_path / "apps/chat"
    assert sums(files["chat-linux_x86_64.tar.zst"]["contents"]) == {
        f"chat/{p.relative_to(app).as_posix()}": digest(p) for p in app.rglob("*") if p.is_file()
    }
    assert "contents" not in files["programs/update.pte"]


def test_sha256sum_accepts_the_checksums(release: Release) -> None:
    manifest(release)
    command = ["sha256sum", "-c", "--strict", "SHA256SUMS"]
    said = subprocess.run(command, cwd=release.folder, capture_output=True, text=True, check=True)
    checked = {line.removesuffix(": OK") for line in said.stdout.splitlines()}
    assert checked == {*release.json("manifest.json")["files"], "manifest.json"}
    (release.folder / "programs/update.pte").write_text("other")
    assert subprocess.run(command, cwd=release.folder, capture_output=True).returncode == 1


def test_versions(release: Release) -> None:
    made = manifest(release)
    assert made["executorch"] == {"exporter": "1.5.1"}
    packages = made["python_packages"]
    assert packages["exporter"] == {"jinja2": "3.1.6", "torch": "2.13.0+cpu"}
    assert packages["python"]["python"].startswith("3.")
    archive, apk = (made["files"][name] for name in ("chat-linux_x86_64.tar.zst", "chat_apk.apk"))
    assert (archive["label"], archive["platforms"]) == ("//x:chat", ["linux_x86_64"])
    assert (apk["label"], apk["platforms"]) == ("//x:chat_apk", ["android_arm64"])
    assert archive["runtime"] == apk["runtime"] == "1.5.1"
    assert apk["signing_key"] == "debug" and "signing_key" not in archive


def test_recipes_and_sharing(release: Release) -> None:
    made = manifest(release)
    programs = made["programs"]
    assert [p["label"] for p in programs.values()] == ["//m:base", "//m:task", "//m:update"]
    assert programs["base"]["built_from"] == {
        "model": "//m:base_model",
        "entry_point": "m:build",
        "recipe": RECIPE,
        "backend_packages": [],
    }
    assert programs["base"]["file"] == "chat-linux_x86_64.tar.zst/chat/programs/base.pte"
    assert list(programs["base"]["methods"]) == ["forward"]
    assert programs["update"]["file"] == "programs/update.pte"
    assert {tuple(p["data"]) for p in programs.values()} == {("data/foundation.ptd",)}
    assert made["files"]["data/foundation.ptd"]["label"] == "//m:foundation"


def test_programs_that_are_files_can_be_opened(release: Release) -> None:
    """As an app's, from the release's manifest."""
    manifest(release)
    read = manifests.read(release.folder / "manifest.json")
    file = release.folder / read.programs["update"].file
    assert read.programs["update"].file in read.files
    with pytest.raises(BuildError, match="is not an ExecuTorch data file"):
        runtime.verify(file, release.folder / "manifest.json")


def test_the_same_bytes_elsewhere(release: Release, tmp_path: Path) -> None:
    assert release.make() == 0
    other = whole(tmp_path / "some/other/place")
    # Neither order nor paths of the inputs count.
    for said in other.arguments.values():
        said.reverse()
    assert other.make() == 0
    for name in ("manifest.json", "sbom.cdx.json", "SHA256SUMS"):
        text = (release.folder / name).read_bytes()
        assert (other.folder / name).read_bytes() == text
        assert str(tmp_path).encode() not in text


STABLE = "BUILD_HOST secret\nBUILD_USER someone\nSTABLE_GIT_COMMIT 4f1c0de\nSTABLE_DIRTY \n"


def test_the_source_of_a_stamped_build(release: Release) -> None:
    assert "source" not in manifest(release)
    made = manifest(release, stable_status=STABLE, volatile_status="BUILD_TIMESTAMP 1700000000\n")
    assert made["source"] == {
        "revisions": ["4f1c0de"],
        "status": {"STABLE_GIT_COMMIT": "4f1c0de", "STABLE_DIRTY": ""},
        "timestamp": "2023-11-14T22:13:20Z",
    }
    # The machine and its user are nobody's business.
    text = (release.folder / "manifest.json").read_text()
    assert "secret" not in text and "someone" not in text


def test_the_time_of_the_source_goes_first(release: Release) -> None:
    made = manifest(
        release,
        stable_status="STABLE_SOURCE_DATE_EPOCH 86400\n",
        volatile_status="BUILD_TIMESTAMP 1700000000\n",
    )
    assert made["source"]["timestamp"] == "1970-01-02T00:00:00Z"


def refused(release: Release, capsys: pytest.CaptureFixture[str], **status: str) -> str:
    assert release.make(**status) == 1
    for name in ("manifest.json", "sbom.cdx.json", "SHA256SUMS"):
        assert not (release.folder / name).exists()
    return capsys.readouterr().err


def test_no_time(release: Release, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(
        release,
        capsys,
        stable_status="STABLE_SOURCE_DATE_EPOCH yesterday\n",
        volatile_status="BUILD_TIMESTAMP 1700000000\n",
    )
    assert 'STABLE_SOURCE_DATE_EPOCH: got "yesterday", expected seconds' in said


def test_no_metadata(release: Release, capsys: pytest.CaptureFixture[str]) -> None:
    release.file("torch.dist-info/METADATA", "Metadata-Version: 2.4\nName: torch\n")
    said = refused(release, capsys)
    assert (
        "torch.dist-info/METADATA is not METADATA of a Python package: Version not found." in said
    )


def test_one_target_with_different_bytes(
    release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(release.arguments["app"][1][4])
    given = json.loads(path.read_text())
    expected = given["files"]["programs/base.pte"]["sha256"]
    given["files"]["programs/base.pte"]["sha256"] = "0" * 64
    path.write_text(json.dumps(given))
    assert (
        f"//m:base: different contents in the release: sha256 {expected} and {'0' * 64}"
    ) in refused(release, capsys)


def test_an_app_alone(tmp_path: Path) -> None:
    """No program, no data, no package."""
    made = Release(tmp_path)
    made.app("own", "linux_arm64", [], file="own-linux_arm64.tar.zst")
    assert "programs" not in manifest(made)


def test_what_changed(release: Release, tmp_path: Path) -> None:
    """A program with other bytes and a new file are listed, and what the newer release lacks."""
    assert release.make() == 0
    older = tmp_path / "older.json"
    listed = release.json("manifest.json")
    removed = {"size": 1, "sha256": "0" * 64}
    listed["files"]["data/gone.ptd"] = removed
    del listed["files"]["sbom.cdx.json"]
    listed["files"]["programs/update.pte"] = removed | {"label": "//m:update"}
    older.write_text(json.dumps(listed))
    assert release.make(previous=older) == 0
    changes = release.json("changes.json")
    expected = ("programs/update.pte", "sbom.cdx.json")
    assert sums(changes["files"]) == {name: digest(release.folder / name) for name in expected}
    assert changes["removed"] == ["data/gone.ptd"]
    assert (changes["format"], changes["label"]) == (1, "//x:release")
    assert "  changes.json\n" in (release.folder / "SHA256SUMS").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [("[]", "is not a manifest"), ('{"format": 2}', "got format 2, expected 1")],
)
def test_a_previous_manifest_that_is_none(
    release: Release, tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    older = tmp_path / "older.json"
    older.write_text(text)
    assert release.make(previous=older) != 0
    assert says in capsys.readouterr().err
