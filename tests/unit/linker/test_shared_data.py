"""Shared data files: what they hold, their manifests, and files that were built before."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import manifest, ptd, share
from etlink.data_file import check_file
from etlink.lowered import Lowered
from etlink.manifest import Manifest
from etlink.named_data import Layout, NamedData
from synthetic import FLOAT32, SyntheticProgram, contents, program, sha256, shared_file

EMBEDDING = bytes(range(64))
HEAD = b"head" * 8
FIRST = b"first layer's weight" * 4
SECOND = b"second layer's weight..." * 4


@pytest.fixture
def one(tmp_path: Path) -> Lowered:
    """A program with a portable embedding and two delegated layers."""
    delegated = {"layers.0.weight": FIRST, "layers.1.weight": SECOND}
    return program(tmp_path / "one", "//m:one", {"embedding": EMBEDDING}, delegated)


@pytest.fixture
def two(tmp_path: Path) -> Lowered:
    """One that has the embedding and the first layer, and a head."""
    weights = {"head": HEAD, "embedding": EMBEDDING}
    return program(tmp_path / "two", "//m:two", weights, {"layers.0.weight": FIRST})


def test_a_file_holds_the_union_sorted_by_key(tmp_path: Path, one: Lowered, two: Lowered) -> None:
    path = tmp_path / "s.ptd"
    index = shared_file(path, "//m:s", one, two)
    expected = {
        sha256(FIRST): FIRST,
        sha256(SECOND): SECOND,
        "embedding": EMBEDDING,
        "head": HEAD,
    }
    assert contents(path) == expected
    assert [e.key for e in index.file.keys] == sorted(expected) == list(ptd.read(path))
    # What both programs have is in it once.
    assert path.read_bytes().count(FIRST) == 1


def test_a_manifest_says_what_is_in_its_file(tmp_path: Path, one: Lowered, two: Lowered) -> None:
    path = tmp_path / "s.ptd"
    name, file = shared_file(path, "//m:s", one, two)
    assert manifest.read(tmp_path / "s.manifest.json") == Manifest(
        label="//m:s", files={name: file}
    )
    assert (file.label, name, file.size) == ("//m:s", "s.ptd", path.stat().st_size)
    entries = file.by_key()
    assert entries["head"] == NamedData(
        key="head",
        sha256=sha256(HEAD),
        size=32,
        crc32=zlib.crc32(HEAD),
        alignment=16,
        dtype="float32",
        shape=(8,),
        names=("head",),
        by_name=True,
        layout=Layout(FLOAT32, (8,), (0,)),
    )
    first = entries[sha256(FIRST)]
    assert (first.names, first.by_name, first.layout) == (("layers.0.weight",), False, None)
    assert (first.dtype, first.shape) == ("float32", (len(FIRST),))
    check_file(path, file)


def test_names_of_equal_bytes_are_listed_together(tmp_path: Path, one: Lowered) -> None:
    other = program(tmp_path / "o", "//m:other", {}, {"another.name": FIRST})
    entry = shared_file(tmp_path / "s.ptd", "//m:s", one, other).file.by_key()[sha256(FIRST)]
    assert entry.names == ("another.name", "layers.0.weight")


def test_the_same_sources_give_the_same_bytes(tmp_path: Path, one: Lowered, two: Lowered) -> None:
    def bytes_of(folder: str, *sources: Lowered) -> tuple[bytes, bytes]:
        (tmp_path / folder).mkdir()
        shared_file(tmp_path / folder / "s.ptd", "//m:s", *sources)
        result = (tmp_path / folder / n for n in ("s.ptd", "s.manifest.json"))
        first, second = (path.read_bytes() for path in result)
        return first, second

    assert bytes_of("a", one, two) == bytes_of("b", one, two)
    # The order of sources changes who is named in the manifest, and not one byte of the data.
    assert bytes_of("c", one, two)[0] == bytes_of("d", two, one)[0]


def test_the_largest_alignment_of_all_programs_counts(tmp_path: Path) -> None:
    key = sha256(FIRST)
    small = program(tmp_path / "a", "//m:a", {}, {"w": FIRST}, alignments={key: 16})
    large = program(tmp_path / "b", "//m:b", {}, {"w": FIRST, "v": HEAD}, alignments={key: 1024})
    for number, sources in enumerate([(small, large), (large, small)]):
        path = tmp_path / f"{number}.ptd"
        assert shared_file(path, "//m:s", *sources).file.by_key()[key].alignment == 1024
        assert ptd.read(path)[key][0].offset % 128 == 0


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        (["layers.0.weight"], {sha256(SECOND), "embedding"}),
        (["layers.*"], {"embedding"}),
        (["layers.?.weight"], {"embedding"}),
        (["embedding", "layers.1.weight"], {sha256(FIRST)}),
    ],
)
def test_excluded_weights_are_left_out(
    tmp_path: Path, one: Lowered, exclude: list[str], left: set[str]
) -> None:
    index = shared_file(tmp_path / "s.ptd", "//m:s", one, exclude=exclude)
    assert set(contents(tmp_path / "s.ptd")) == left == {e.key for e in index.file.keys}


def test_bytes_of_a_weight_that_is_not_excluded_stay(tmp_path: Path) -> None:
    source = SyntheticProgram(
        methods={"forward": {}}, named={"k": FIRST}, weights={"k": ("a", "float32")}
    )
    lowered = source.lower(tmp_path / "l")
    tied = SyntheticProgram(
        methods={"forward": {}}, named={"k": FIRST}, weights={"k": ("b", "float32")}
    )
    both = [lowered, tied.lower(tmp_path / "t")]
    assert contents_of(tmp_path, both, ["a"]) == {"k": FIRST}
    with pytest.raises(BuildError, match="there is nothing to share"):
        shared_file(tmp_path / "n.ptd", "//m:s", *both, exclude=["a", "b"])


def contents_of(folder: Path, sources: list[Lowered], exclude: list[str]) -> dict[str, bytes]:
    """Returns the contents of a file of these sources."""
    shared_file(folder / "some.ptd", "//m:s", *sources, exclude=exclude)
    return contents(folder / "some.ptd")


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path: Path, one: Lowered) -> None:
    with pytest.raises(BuildError) as caught:
        shared_file(tmp_path / "s.ptd", "//m:s", one, exclude=["embedding", "layer.*"])
    assert caught.value.what == '//m:s: exclude = "layer.*" matches no weight.'
    assert caught.value.hint == ("The weights are embedding, layers.0.weight, layers.1.weight.")
    assert not (tmp_path / "s.ptd").exists()


def test_one_name_with_different_bytes_names_both_sources(tmp_path: Path, one: Lowered) -> None:
    other = program(tmp_path / "o", "//m:other", {"embedding": HEAD})
    with pytest.raises(BuildError) as caught:
        shared_file(tmp_path / "s.ptd", "//m:s", one, other)
    assert caught.value.what == (
        '//m:s: "embedding" has different bytes in //m:one and //m:other: sha256 '
        f"{sha256(EMBEDDING)} (float32 [16], 64 bytes) and {sha256(HEAD)} (float32 [8], 32 bytes)."
    )
    assert 'exclude = ["embedding"]' in caught.value.hint
    # What the hint says is what helps.
    shared_file(tmp_path / "s.ptd", "//m:s", one, other, exclude=["embedding"])


def test_one_name_with_another_shape_is_a_conflict(tmp_path: Path, one: Lowered) -> None:
    shapes = {"embedding": [4, 4]}
    other = program(tmp_path / "o", "//m:other", {"embedding": EMBEDDING}, shapes=shapes)
    with pytest.raises(BuildError, match=r"float32 \[16\], 64 bytes\) and .*float32 \[4, 4\], 64"):
        shared_file(tmp_path / "s.ptd", "//m:s", one, other)


def test_what_a_file_beside_it_holds_is_left_out(
    tmp_path: Path, one: Lowered, two: Lowered
) -> None:
    base = shared_file(tmp_path / "base.ptd", "//m:base", one)
    shared_file(tmp_path / "more.ptd", "//m:more", one, two, beside=[base.file])
    assert contents(tmp_path / "more.ptd") == {"head": HEAD}
    with pytest.raises(BuildError) as caught:
        shared_file(tmp_path / "none.ptd", "//m:none", one, beside=[base.file])
    assert caught.value.what.startswith("//m:none: there is nothing to share: ")


def test_a_file_beside_it_with_other_bytes_is_an_error(tmp_path: Path, one: Lowered) -> None:
    other = program(tmp_path / "o", "//m:other", {"embedding": HEAD})
    base = shared_file(tmp_path / "base.ptd", "//m:base", one)
    with pytest.raises(BuildError) as caught:
        shared_file(tmp_path / "s.ptd", "//m:s", other, beside=[base.file])
    assert '"embedding" has different bytes in //m:other and //m:base: ' in caught.value.what


def test_programs_without_data_give_no_file(tmp_path: Path) -> None:
    empty = program(tmp_path / "e", "//m:empty", {}, {"zero": b""})
    with pytest.raises(BuildError) as caught:
        shared_file(tmp_path / "s.ptd", "//m:s", empty)
    assert caught.value.what == (
        "//m:s: there is nothing to share: its lowered programs have no data that can lie "
        "outside of them."
    )
    assert caught.value.hint.startswith("Backends that put weights into their payload (TOSA")


def test_the_command_line(tmp_path: Path, one: Lowered, capsys: pytest.CaptureFixture[str]) -> None:
    out = [
        "--label",
        "//m:s",
        "--data",
        tmp_path / "s.ptd",
        "--manifest",
        tmp_path / "s.manifest.json",
    ]
    words = [*out, "--lowered", one.folder, "--exclude", "layers.1.*"]
    assert share.main([str(w) for w in words]) == 0
    raw = json.loads((tmp_path / "s.manifest.json").read_text())
    assert {e["key"]: e["names"] for e in raw["files"]["s.ptd"]["keys"]} == {
        sha256(FIRST): ["layers.0.weight"],
        "embedding": ["embedding"],
    }
    assert share.main([str(w) for w in [*words, "--exclude", "nothing"]]) == 1
    assert capsys.readouterr().err.startswith('ERROR: //m:s: exclude = "nothing" matches no')
