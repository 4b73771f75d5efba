"""Shared data files that were built before: checked byte by byte before they are copied."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import ptd, share
from etlink.data_file import check_file, describe
from etlink.lowered import Lowered
from etlink.named_data import Layout
from synthetic import FLOAT32, contents, leftovers, named, program, sha256, shared_file

EMBEDDING = bytes(range(64))
HEAD = b"head" * 8
FIRST = b"first layer's weight" * 4
SECOND = b"second layer's weight..." * 4


@pytest.fixture
def one(tmp_path: Path) -> Lowered:
    """A program with a portable embedding and two delegated layers."""
    delegated = {"layers.0.weight": FIRST, "layers.1.weight": SECOND}
    return program(tmp_path / "one", "//m:one", {"embedding": EMBEDDING}, delegated)


def flipped(whole: bytes, generator: random.Random) -> bytes:
    """The same with one bit changed."""
    damaged = bytearray(whole)
    damaged[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
    return bytes(damaged)


def test_a_file_with_its_manifest_is_taken_as_it_is(tmp_path: Path, one: Lowered) -> None:
    made = shared_file(tmp_path / "s.ptd", "//m:s", one)
    adopted = share.adopt(
        tmp_path / "s.ptd", tmp_path / "s.manifest.json", tmp_path / "mine.ptd", "//m:mine"
    )
    assert (tmp_path / "mine.ptd").read_bytes() == (tmp_path / "s.ptd").read_bytes()
    assert (adopted.label, adopted.keys) == ("//m:mine", made.file.keys)


def test_a_file_without_a_manifest_is_described_by_its_keys(tmp_path: Path, one: Lowered) -> None:
    made = shared_file(tmp_path / "s.ptd", "//m:s", one).file.by_key()
    result = share.adopt(tmp_path / "s.ptd", None, tmp_path / "mine.ptd", "//m:mine").by_key()
    assert {k: (e.sha256, e.layout, e.by_name) for k, e in result.items()} == {
        k: (e.sha256, e.layout, e.by_name) for k, e in made.items()
    }
    assert result["embedding"].names == ("embedding",)
    assert result[sha256(FIRST)].names == ()


def test_a_flipped_bit_of_a_weight_is_found_by_its_key(tmp_path: Path, one: Lowered) -> None:
    path = tmp_path / "s.ptd"
    _, file = shared_file(path, "//m:s", one)
    damaged = bytearray(path.read_bytes())
    damaged[ptd.read(path)[sha256(FIRST)][0].offset] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(BuildError) as caught:
        describe(path, "//m:mine")
    assert caught.value.what.startswith(
        f'{path} is damaged: the key "{sha256(FIRST)}" says what its bytes are, but their sha256'
    )
    assert caught.value.hint.startswith("Rebuild the target that makes it; if it is checked in,")
    with pytest.raises(BuildError) as caught:
        check_file(path, file)
    assert caught.value.what.startswith(
        f"{path} is damaged, or not the file of its manifest (//m:s): the sha256 of "
        f'"{sha256(FIRST)}" (layers.0.weight) is '
    )
    assert caught.value.what.endswith(f", expected {sha256(FIRST)}.")


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout(9, (2,), (0,)), "type 9 [2], dimensions [0]"),
        (Layout(FLOAT32, (17,), (0,)), "type 6 [17], dimensions [0]"),
        (Layout(FLOAT32, (-16, -1), (0, 1)), "type 6 [-16, -1], dimensions [0, 1]"),
        (Layout(FLOAT32, (4, 4), (0, 0)), "type 6 [4, 4], dimensions [0, 0]"),
    ],
)
def test_a_tensor_that_its_bytes_cannot_hold(tmp_path: Path, layout: Layout, message: str) -> None:
    path = tmp_path / "s.ptd"
    with open(path, "wb") as out:
        ptd.write(out, [named("w", EMBEDDING, layout=layout)])
    with pytest.raises(BuildError) as caught:
        describe(path, "//m:mine")
    assert caught.value.what == (
        f'{path} is damaged: "w" has 64 bytes, and its layout is {message}.'
    )


def test_a_key_that_the_manifest_lacks_is_named(tmp_path: Path, one: Lowered) -> None:
    path = tmp_path / "s.ptd"
    _, file = shared_file(path, "//m:s", one)
    file = dataclasses.replace(file, keys=file.keys[1:])
    with pytest.raises(BuildError, match=r"\(//m:s\): the key \".*\" is not in the manifest"):
        check_file(path, file)


def test_a_file_of_another_manifest_is_named(tmp_path: Path, one: Lowered) -> None:
    two = program(tmp_path / "two", "//m:two", {"head": HEAD})
    shared_file(tmp_path / "one.ptd", "//m:one_s", one)
    _, file = shared_file(tmp_path / "two.ptd", "//m:two_s", one, two)
    with pytest.raises(BuildError) as caught:
        check_file(tmp_path / "one.ptd", file)
    assert caught.value.what == (
        f'{tmp_path / "one.ptd"} is not the file of its manifest (//m:two_s): the key "head" is '
        "missing."
    )


def test_another_layout_than_the_manifest_says_is_named(tmp_path: Path, one: Lowered) -> None:
    path = tmp_path / "s.ptd"
    _, file = shared_file(path, "//m:s", one)
    shapes = {"embedding": [4, 4]}
    other = program(tmp_path / "o", "//m:o", {"embedding": EMBEDDING}, shapes=shapes)
    shared_file(path, "//m:o_s", other, program(tmp_path / "d", "//m:d", {}, {"a": FIRST}))
    kept = tuple(e for e in file.keys if e.key in contents(path))
    file = dataclasses.replace(file, keys=kept)
    with pytest.raises(BuildError) as caught:
        check_file(path, file)
    assert caught.value.what == (
        f"{path} is damaged, or not the file of its manifest (//m:s): the layout of "
        '"embedding" is type 6 [4, 4], dimensions [0, 1], expected type 6 [16], dimensions [0].'
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"is not an ExecuTorch data file: bytes 4 to 8 are b''"),
        (b"PK\3\4" * 40, r"is not an ExecuTorch data file: bytes 4 to 8 are b'PK"),
        (b"\0\0\0\0FT01" + bytes(99), r"is damaged: its header has no b'FH01'"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.ptd"
    path.write_bytes(data)
    with pytest.raises(BuildError, match=message):
        share.adopt(path, None, tmp_path / "mine.ptd", "//m:mine")
    assert not (tmp_path / "mine.ptd").exists()
    with pytest.raises(BuildError, match=r"gone\.ptd is missing"):
        share.adopt(tmp_path / "gone.ptd", None, tmp_path / "mine.ptd", "//m:mine")


Contents = dict[str, tuple[bytes, Layout | None]]


def everything(path: Path) -> Contents:
    """Key to bytes and layout of a data file."""
    result = contents(path)
    return {key: (result[key], layout) for key, (_, layout) in ptd.read(path).items()}


def tried(path: Path, manifest: Path | None, out: Path) -> Contents | None:
    """Reads what the copy of a file holds, with layouts; None: it was refused with a message."""
    try:
        share.adopt(path, manifest, out, "//m:mine")
    except BuildError as error:
        assert str(path) in str(error)
        return None
    return everything(out)


@pytest.mark.parametrize("with_manifest", [True, False])
def test_flipped_bits_give_a_message_or_the_same_contents(
    tmp_path: Path, one: Lowered, with_manifest: bool
) -> None:
    # Only keys that say what their bytes are: a name without a manifest is trusted.
    lowered = (
        one if with_manifest else program(tmp_path / "d", "//m:d", {}, {"w": FIRST, "v": HEAD})
    )
    path, manifest = tmp_path / "s.ptd", tmp_path / "s.manifest.json"
    shared_file(path, "//m:s", lowered)
    whole, expected = path.read_bytes(), everything(path)
    tables = min(piece.offset for piece, _ in ptd.read(path).values())
    generator = random.Random(7)
    refused = 0
    for number in range(600):
        # Half of the flips hit the tables, where they do most.
        if number % 2:
            damaged = flipped(whole[:tables], generator) + whole[tables:]
        else:
            damaged = flipped(whole, generator)
        path.write_bytes(damaged)
        result = tried(path, manifest if with_manifest else None, tmp_path / "mine.ptd")
        if with_manifest:
            assert result is None or result == expected
        elif result is not None:
            assert {data for data, _ in result.values()} <= {data for data, _ in expected.values()}
        refused += result is None
    assert refused > 100
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("with_manifest", [True, False])
def test_truncated_files_give_a_message(tmp_path: Path, one: Lowered, with_manifest: bool) -> None:
    path, manifest = tmp_path / "s.ptd", tmp_path / "s.manifest.json"
    shared_file(path, "//m:s", one)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 13), len(whole) - 1]:
        path.write_bytes(whole[:length])
        result = tried(path, manifest if with_manifest else None, tmp_path / "mine.ptd")
        assert result is None, f"{length} of {len(whole)} bytes were accepted"
