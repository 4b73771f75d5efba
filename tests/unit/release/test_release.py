"""Manifest and checksums of a release."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from example_release import RECIPE, Release, whole


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return whole(tmp_path)


def manifest(release: Release, **status: str) -> dict[str, Any]:
    assert release.make(**status) == 0
    return release.json("manifest.json")


def digest(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def by_label(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["label"]: item for item in items}


def test_every_file(release: Release) -> None:
    files = manifest(release)["files"]
    there = {
        p.relative_to(release.folder).as_posix() for p in release.folder.rglob("*") if p.is_file()
    }
    assert set(files) == there - {"manifest.json", "SHA256SUMS"}
    for path_in_release, one in files.items():
        assert {k: v for k, v in one.items() if k != "contents"} == digest(
            release.folder / path_in_release
        )


def test_what_is_in_archives(release: Release, tmp_path: Path) -> None:
    """As unpacking them shows."""
    files = manifest(release)["files"]
    unpacked = tmp_path / "unpacked"
    shutil.unpack_archive(release.folder / "chat_apk.apk", unpacked, "zip")
    assert files["chat_apk.apk"]["contents"] == {
        p.relative_to(unpacked).as_posix(): digest(p) for p in unpacked.rglob("*") if p.is_file()
    }
    app = tmp_path / "apps/chat"
    assert files["chat-linux_x86_64.tar.zst"]["contents"] == {
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
    assert made["exporter"]["executorch"] == "1.5.1"
    assert made["exporter"]["torch"] == "2.13.0"
    assert made["exporter"]["python"].startswith("3.")
    assert made["exporter"]["packages"] == {"jinja2": "3.1.6", "torch": "2.13.0+cpu"}
    assert made["platforms"] == {
        "android_arm64": {
            "apps": ["//x:phone"],
            "files": ["chat_apk.apk"],
            "runtimes": {"//rt:android_arm64": "1.5.1"},
        },
        "linux_x86_64": {
            "apps": ["//x:chat"],
            "files": ["chat-linux_x86_64.tar.zst"],
            "runtimes": {"//rt:linux_x86_64": "1.5.1"},
        },
    }
    assert made["packages"] == [
        {
            "label": "//x:chat_apk",
            "kind": "apk",
            "file": "chat_apk.apk",
            "apps": ["//x:phone"],
            "signing_key": "debug",
        }
    ]


def test_recipes_and_sharing(release: Release) -> None:
    made = manifest(release)
    programs = by_label(made["programs"])
    assert list(programs) == ["//m:base", "//m:task", "//m:update"]
    assert programs["//m:base"]["recipe"] == RECIPE
    assert programs["//m:base"]["model"] == {"label": "//m:base_model", "entry_point": "m:build"}
    assert programs["//m:base"]["archives"] == ["chat-linux_x86_64.tar.zst", "chat_apk.apk"]
    assert programs["//m:base"]["methods"] == ["forward"]
    assert programs["//m:update"]["files"] == ["programs/update.pte"]
    (data,) = made["data"]
    assert data["label"] == "//m:foundation"
    assert data["programs"] == ["//m:base", "//m:task", "//m:update"]
    assert data["files"] == ["data/foundation.ptd"]
    assert data["archives"] == ["chat-linux_x86_64.tar.zst", "chat_apk.apk"]


def test_the_same_bytes_elsewhere(release: Release, tmp_path: Path) -> None:
    assert release.make() == 0
    other = whole(tmp_path / "some/other/place")
    # Neither order nor paths of the inputs count.
    for key in ("apps", "programs", "models", "packages"):
        other.description[key].reverse()
    assert other.make() == 0
    for name in ("manifest.json", "sbom.cdx.json", "SHA256SUMS"):
        text = (release.folder / name).read_bytes()
        assert (other.folder / name).read_bytes() == text
        assert str(tmp_path).encode() not in text


def test_labels_of_other_repositories(tmp_path: Path) -> None:
    """As manifests of apps have them, whatever analysis calls the repository."""
    made = Release(tmp_path)
    program = made.program("net")
    program = dataclasses.replace(program, label="@nets//m:net")
    said = made.description["programs"][0]
    said |= {"label": "@@nets~1.0//m:net", "recipe": {"label": "@@nets~1.0//r:fp32"}}
    made.app("own", "linux_arm64", [program], file="own-linux_arm64.tar.zst")
    assert made.make(repository=["@@nets~1.0//x:y", "@nets//x:y"]) == 0
    (listed,) = made.json("manifest.json")["programs"]
    assert listed["label"] == "@nets//m:net"
    assert listed["recipe"] == {"label": "@nets//r:fp32"}


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
    path = Path(release.description["apps"][1]["manifest"])
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
    assert manifest(made)["programs"] == []
    assert manifest(made)["data"] == []


def test_what_changed(release: Release, tmp_path: Path) -> None:
    """A program with other bytes and a new file are listed, and what the newer release lacks."""
    assert release.make() == 0
    older = tmp_path / "older.json"
    listed = release.json("manifest.json")
    removed = {"size": 1, "sha256": "0" * 64}
    listed["files"]["data/gone.ptd"] = removed
    del listed["files"]["sbom.cdx.json"]
    listed["files"]["programs/update.pte"] = removed
    older.write_text(json.dumps(listed))
    assert release.make(previous=older) == 0
    changes = release.json("changes.json")
    assert changes["changed"] == [
        {"file": name, **digest(release.folder / name)}
        for name in ("programs/update.pte", "sbom.cdx.json")
    ]
    assert changes["removed"] == ["data/gone.ptd"]
    assert changes["previous"]["sha256"] == digest(older)["sha256"]
    assert changes["current"]["sha256"] == digest(release.folder / "manifest.json")["sha256"]
    assert "  changes.json\n" in (release.folder / "SHA256SUMS").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "is not a manifest of a release"),
        ('{"format": 2}', "got format 2, expected 1"),
        ('{"format": 1, "label": "//a:b", "files": {"a": {"size": 1}}}', "sha256"),
        ('{"format": 1, "label": "//a:b", "files": {"a": {"size": 1, "sha256": "x"}}}', "sha256"),
    ],
)
def test_a_previous_manifest_that_is_none(
    release: Release, tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    older = tmp_path / "older.json"
    older.write_text(text)
    assert release.make(previous=older) != 0
    assert says in capsys.readouterr().err
