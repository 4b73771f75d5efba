"""Blobs, the difference of two releases, and update files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from etbuild.errors import BuildError
from etbundle.app import describe_blobs, describe_files
from etbundle.blobs import SMALLEST, blobs_of, in_manifest, of_manifest
from etlink import ptd
from etlink.container import Piece, sha256_of
from etlink.named_data import NamedData
from etrelease import difference, folder, update, update_file
from example_release import whole

KEYS = {"a": b"a" * 5000, "b": b"b" * 3000, "small": b"s" * 10, "tiny": b"t" * 8}


def write_ptd(path: Path, keys: Mapping[str, bytes]) -> Path:
    data = [
        (
            NamedData(
                key=key, sha256=sha256_of(Piece.of(value)), size=len(value), crc32=zlib.crc32(value)
            ),
            Piece.of(value),
        )
        for key, value in keys.items()
    ]
    with path.open("wb") as out:
        ptd.write(out, data)
    return path


def test_blobs_are_the_whole_file(tmp_path: Path) -> None:
    path = write_ptd(tmp_path / "x.ptd", KEYS)
    blobs = blobs_of(path)
    data = path.read_bytes()
    assert blobs[0].offset == 0
    assert sum(blob.size for blob in blobs) == len(data)
    for blob in blobs:
        assert sha256_of(Piece.of(data[blob.offset :][: blob.size])) == blob.sha256
    starts = {blob.offset for blob in blobs}
    assert {data.index(b"a" * 5000), data.index(b"b" * 3000)} <= starts
    assert of_manifest(in_manifest(blobs)) == blobs


def test_a_blob_is_where_a_large_key_is(tmp_path: Path) -> None:
    """Wherever it lies, and however small what precedes it is; small neighbors are one blob."""
    first = blobs_of(write_ptd(tmp_path / "x.ptd", KEYS))
    other = blobs_of(write_ptd(tmp_path / "y.ptd", {"a": KEYS["a"], "z": b"z" * 2000}))
    common = {b.sha256 for b in first} & {b.sha256 for b in other}
    assert [b.size for b in first if b.sha256 in common] == [5120], "with the padding after it"
    small = {str(number): bytes([number]) * 16 for number in range(200)}
    many = blobs_of(write_ptd(tmp_path / "z.ptd", small))
    assert len(many) < 200 * 128 // SMALLEST + 5


def test_other_files_are_one_blob(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("x" * 100_000)
    (blob,) = blobs_of(path)
    assert (blob.offset, blob.size) == (0, 100_000)
    files = {"words.txt": path, "x.ptd": write_ptd(tmp_path / "x.ptd", KEYS)}
    described = describe_files(files)
    assert list(describe_blobs(files, described)) == [described["x.ptd"]["sha256"]]


# Releases


def release(tmp_path: Path, name: str, keys: Mapping[str, bytes]) -> Path:
    """A manifest as EtRelease writes it, of files whose contents are known."""
    loose = {"data/x.ptd": write_ptd(tmp_path / f"{name}.ptd", keys)}
    same = tmp_path / "same.pte"
    same.write_text("same")
    loose["programs/same.pte"] = same
    if name == "older":
        loose["programs/old.pte"] = tmp_path / "old.pte"
        loose["programs/old.pte"].write_text("old")
    files = describe_files(loose)
    inside = {f"chat/{path}": digest for path, digest in files.items()}
    value = {
        "format": 1,
        "label": "//x:release",
        "version": {"older": "1.0", "newer": "1.1"}[name],
        "blobs": describe_blobs(loose, files),
        "files": {
            **files,
            "chat.tar.zst": {"size": 9, "sha256": "0" * 64, "contents": inside},
        },
    }
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(value))
    return path


def test_what_a_device_fetches(tmp_path: Path) -> None:
    older = release(tmp_path, "older", KEYS)
    newer = release(tmp_path, "newer", KEYS | {"b": b"B" * 3000})
    found = difference.of_releases(older, newer)
    assert found["previous"]["version"] == "1.0" and found["current"]["version"] == "1.1"
    assert found["current"]["sha256"] == sha256_of(Piece.of_file(newer))
    files = found["files"]
    (entry,) = files["fetch"]
    assert entry["file"] == "data/x.ptd"
    assert 3000 <= entry["bytes"] < 5000 < entry["size"], "the changed key, and not the other one"
    data = (tmp_path / "newer.ptd").read_bytes()
    assert data.index(b"B" * 3000) in [blob["offset"] for blob in entry["blobs"]]
    assert entry["bytes"] == sum(blob["size"] for blob in entry["blobs"])
    assert files["keep"] == ["programs/same.pte"] and files["remove"] == ["programs/old.pte"]
    assert files["bytes"] == entry["bytes"] and files["total"] == entry["size"] + 4
    (inner,) = found["archives"]["chat.tar.zst"]["fetch"]
    assert inner == entry | {"file": "chat/data/x.ptd"}
    text = difference.as_text(found)
    assert text.startswith("From //x:release 1.0 to //x:release 1.1, in bytes\n")
    assert f"  fetch   data/x.ptd: {entry['bytes']:,} of {entry['size']:,}\n" in text
    assert "  remove  programs/old.pte\n" in text


def test_an_archive_that_is_new_or_gone(tmp_path: Path) -> None:
    older = release(tmp_path, "older", KEYS)
    value = json.loads(older.read_text())
    value["files"]["new.zip"] = value["files"].pop("chat.tar.zst")
    newer = tmp_path / "other.json"
    newer.write_text(json.dumps(value))
    archives = difference.of_releases(older, newer)["archives"]
    assert archives["chat.tar.zst"]["fetch"] == [] and len(archives["chat.tar.zst"]["remove"]) == 3
    assert archives["new.zip"]["bytes"] == archives["new.zip"]["total"] > 8000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "got format 2, expected 1"),
        ({"files": []}, "is damaged: AttributeError"),
        ({"files": {"a": {"size": 1, "sha256": "../a"}}}, "is damaged: FormError"),
        ({"blobs": {"0": ["1"]}}, "is damaged: ValueError"),
    ],
)
def test_another_manifest(tmp_path: Path, change: Mapping[str, Any], message: str) -> None:
    newer = release(tmp_path, "newer", KEYS)
    older = tmp_path / "damaged.json"
    older.write_text(json.dumps(json.loads(newer.read_text()) | change))
    with pytest.raises(BuildError, match=message):
        difference.of_releases(older, newer)


def test_a_release_lists_its_difference(tmp_path: Path) -> None:
    """As files that SHA256SUMS has; the manifest cannot."""
    made = whole(tmp_path)
    assert made.make() == 0
    previous = tmp_path / "previous.json"
    manifest = made.json("manifest.json")
    gone = manifest["files"].pop("programs/update.pte")
    previous.write_text(json.dumps(manifest))
    assert made.make(previous=previous) == 0
    found = made.json("update.json")
    assert [entry["file"] for entry in found["files"]["fetch"]] == ["programs/update.pte"]
    assert found["files"]["bytes"] == gone["size"]
    assert all(archive["fetch"] == [] for archive in found["archives"].values())
    sums = (made.folder / "SHA256SUMS").read_text()
    assert "  update.json\n" in sums and "  update.txt\n" in sums
    assert "update.json" not in made.json("manifest.json")["files"]


# Update files


def version(tmp_path: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """A folder with a manifest."""
    path = tmp_path / name
    for file, data in files.items():
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_bytes(data)
    listed = describe_files({file: path / file for file in files})
    manifest = {"format": 1, "label": f"//x:{name}", "files": listed}
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


def arguments(older: Path, newer: Path, output: Path) -> list[str]:
    return [
        *("--label", "//x:update", "--output", str(output), "--listing", f"{output}.json"),
        *("--previous_folder", str(older), "--current_folder", str(newer)),
    ]


@pytest.fixture
def versions(tmp_path: Path) -> tuple[Path, Path]:
    data = [write_ptd(tmp_path / "x.ptd", keys).read_bytes() for keys in (KEYS, KEYS | {"c": b"c"})]
    return (
        version(tmp_path, "older", {"data/x.ptd": data[0], "same.txt": b"same", "gone.txt": b"1"}),
        version(tmp_path, "newer", {"data/y.ptd": data[1], "moved.txt": b"same", "new.txt": b"2"}),
    )


def applied(path: Path, older: Path) -> dict[str, bytes]:
    """What the header says of each file that the older version lacks."""
    read = update_file.read(path)
    assert update_file.blob_problems(read) == []
    at, blobs = read.blobs.offset, []
    for blob in read.header["blobs"]:
        blobs.append(path.read_bytes()[at : at + blob["size"]])
        at += blob["size"]
    files = {}
    for name, file in read.header["files"].items():
        data = b""
        for part in file["parts"]:
            if "blob" in part:
                data += blobs[part["blob"]]
            else:
                source = (older / part["file"]).read_bytes()
                data += source[part["offset"] :][: part["size"]]
        files[name] = data
    return files


def test_an_update_file(tmp_path: Path, versions: tuple[Path, Path]) -> None:
    older, newer = versions
    path = tmp_path / "x.update"
    assert update.main(arguments(older, newer, path)) == 0
    assert applied(path, older) == {
        name: (newer / name).read_bytes() for name in ("data/y.ptd", "new.txt")
    }
    read = update_file.read(path)
    assert read.manifest == (newer / "manifest.json").read_bytes() and read.signature == b""
    assert path.stat().st_size < 4000, "the weights are not in it"
    listing = json.loads(Path(f"{path}.json").read_text())
    assert listing["keep"] == ["moved.txt"]
    assert listing["remove"] == ["data/x.ptd", "gone.txt", "same.txt"]
    again = tmp_path / "again.update"
    assert update.main(arguments(older, newer, again)) == 0
    assert again.read_bytes() == path.read_bytes()


def test_updates_from_files(tmp_path: Path, versions: tuple[Path, Path]) -> None:
    """The same as from folders."""
    older, newer = versions
    from_folder, from_files = tmp_path / "1.update", tmp_path / "2.update"
    assert update.main(arguments(older, newer, from_folder)) == 0
    command = arguments(older, newer, from_files)[:-4]
    for option, root in (("--previous_file", older), ("--current_file", newer)):
        for path in sorted(root.rglob("*")):
            if path.is_file():
                command += [option, f"{path.relative_to(root)}={path}"]
    assert update.main(command) == 0
    assert from_files.read_bytes() == from_folder.read_bytes()


def test_updates_from_archives(tmp_path: Path) -> None:
    """As releases have them."""
    made = whole(tmp_path / "release")
    archive = made.folder / "chat-linux_x86_64.tar.zst"
    app = tmp_path / "release/apps/chat"
    unpacked = folder.of_archive(archive, "previous", tmp_path / "scratch")
    assert unpacked.manifest == (app / "manifest.json").read_bytes()
    assert unpacked.files.keys() == folder.of_folder(app, "previous").files.keys()
    damaged = tmp_path / "damaged.tar.zst"
    damaged.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(BuildError, match="previous: damaged.tar.zst is damaged"):
        folder.of_archive(damaged, "previous", tmp_path / "other")


def test_one_version(
    tmp_path: Path, versions: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.update"
    assert update.main(arguments(versions[0], versions[0], path)) == 1
    assert "//x:update: previous and current are the same version" in capsys.readouterr().err
    assert not path.exists()


def test_files_that_are_not_the_manifest_s(
    tmp_path: Path, versions: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    older, newer = versions
    path = tmp_path / "x.update"
    (older / "same.txt").write_text("Same")
    assert update.main(arguments(older, newer, path)) == 1
    assert "//x:update: previous: same.txt: sha256: got" in capsys.readouterr().err
    (older / "same.txt").unlink()
    assert update.main(arguments(older, newer, path)) == 1
    assert "previous: same.txt not found; its manifest.json lists it." in capsys.readouterr().err
    (older / "manifest.json").unlink()
    assert update.main(arguments(older, newer, path)) == 1
    assert "//x:update: previous: manifest.json not found." in capsys.readouterr().err


@pytest.mark.parametrize("cut", [3, 12, 200, -1])
def test_a_truncated_update(tmp_path: Path, versions: tuple[Path, Path], cut: int) -> None:
    path = tmp_path / "x.update"
    assert update.main(arguments(*versions, path)) == 0
    path.write_bytes(path.read_bytes()[:cut])
    if cut == -1:
        read = update_file.read(path)
        last = len(read.header["blobs"]) - 1
        assert update_file.blob_problems(read) == [f"blob {last} ends after the file."]
        return
    with pytest.raises(BuildError, match="is not an update|is damaged"):
        update_file.read(path)
