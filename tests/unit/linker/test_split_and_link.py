"""Taking programs apart and putting them together, on made-up programs. Needs no torch."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import ptd, pte, schema
from etlink.container import Piece
from etlink.lowered import Lowered
from etlink.ptd import Layout
from etlink.split import Hints, split
from made_up import FLOAT32, VERSIONS, MadeUp, leftovers, relink, tree


def ptd_contents(path: Path) -> dict[str, bytes]:
    """Key to bytes of a data file."""
    whole = path.read_bytes()
    return {k: whole[p.offset : p.offset + p.size] for k, (p, _) in ptd.read(path).items()}


@pytest.mark.parametrize(
    "made_up",
    [
        MadeUp(),
        MadeUp(named={}),
        MadeUp(delegates=[]),
        MadeUp(methods={"forward": {}}),
        MadeUp(methods={"forward": {}}, delegates=[], named={}),
        MadeUp(methods={"forward": {"w": b"1234"}, "decode": {"w": b"1234", "v": b"5678" * 9}}),
        MadeUp(delegates=[b"", b"x"], named={"empty": b"", "k": b"y"}),
    ],
    ids=["all", "no_named", "no_delegates", "no_constants", "tables_only", "two_methods", "empty"],
)
def test_embedded_weights_give_the_same_bytes(made_up: MadeUp, tmp_path: Path) -> None:
    lowered = made_up.lower(tmp_path / "lowered")
    linked, program, data = relink(lowered, tmp_path / "out")
    whole = program.read_bytes()
    assert whole == (tmp_path / "lowered.pte").read_bytes()
    assert not data.exists()
    assert linked == dataclasses.replace(linked, program_bytes=len(whole), data_bytes=0)
    assert (linked.embedded, linked.separate) == (tuple(sorted(made_up.named)), ())
    assert leftovers(tmp_path) == []


def test_the_directory_holds_each_blob_once_by_its_hash(tmp_path: Path) -> None:
    made_up = MadeUp()
    lowered = made_up.lower(tmp_path / "lowered")
    blobs = {p.name: p.read_bytes() for p in (lowered.folder / "blobs").iterdir()}
    wanted = [*made_up.methods["forward"].values(), *made_up.delegates, *made_up.named.values()]
    assert sorted(blobs.values()) == sorted(set(wanted))
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())


def test_the_index_says_what_is_in_it(tmp_path: Path) -> None:
    lowered = MadeUp().lower(tmp_path / "lowered")
    index = lowered.index
    whole = (tmp_path / "lowered.pte").read_bytes()
    assert (index.label, index.versions) == ("//m:program", VERSIONS)
    assert (index.sha256, index.size) == (hashlib.sha256(whole).hexdigest(), len(whole))
    assert [s.kind for s in index.segments] == ["constants", "delegate"]
    assert [(c.buffer, c.size) for c in index.constants] == [(0, 0), (1, 40), (2, 4), (3, 12)]
    assert [(t.name, t.buffer, t.layout) for t in index.tensors] == [
        ("a.weight", 1, Layout(FLOAT32, (10,), (0,))),
        ("a.bias", 2, Layout(FLOAT32, (1,), (0,))),
        ("b.weight", 3, Layout(FLOAT32, (3,), (0,))),
    ]
    assert [(n.key, n.size) for n in index.named_data] == [("k2", 297), ("k1", 15), ("same", 297)]
    (method,) = index.methods
    assert (method["name"], method["outputs"][0]["dtype"]) == ("forward", "float32")


def test_two_splits_give_equal_trees(tmp_path: Path) -> None:
    first = MadeUp().lower(tmp_path / "lowered")
    (tmp_path / "another").mkdir()
    second = MadeUp().lower(tmp_path / "another" / "place")
    assert tree(first.folder) == tree(second.folder)
    assert len(tree(first.folder)) == 8
    for separate in (False, True):
        relink(first, tmp_path / f"a{separate}", separate)
        relink(second, tmp_path / f"b{separate}", separate)
        assert tree(tmp_path / f"a{separate}") == tree(tmp_path / f"b{separate}")


def test_separate_weights_leave_the_program(tmp_path: Path) -> None:
    made_up = MadeUp()
    lowered = made_up.lower(tmp_path / "lowered")
    linked, program, data = relink(lowered, tmp_path / "out", separate=True)
    wanted = {**made_up.methods["forward"], **made_up.named}
    assert ptd_contents(data) == wanted
    assert (linked.embedded, linked.separate) == ((), tuple(sorted(wanted)))
    assert (linked.program_bytes, linked.data_bytes) == (
        program.stat().st_size,
        data.stat().st_size,
    )
    read = pte.read(program)
    assert [size for _, size in read.segments] == [0, 210]
    assert read.program.namedData is None or read.program.namedData == []
    external = schema.program_class("TensorDataLocation").EXTERNAL
    for value in read.program.executionPlan[0].values:
        assert value.val.extraTensorInfo.location == external
    names = [v.val.extraTensorInfo.fullyQualifiedName for v in read.program.executionPlan[0].values]
    assert names == [b"a.weight", b"a.bias", b"b.weight"]


def test_constants_without_a_name_stay(tmp_path: Path) -> None:
    made_up = MadeUp()
    hints = Hints(tensors={(0, 0): "a.weight"})
    lowered = made_up.lower(tmp_path / "lowered", hints)
    _, program, data = relink(lowered, tmp_path / "out", separate=True)
    assert set(ptd_contents(data)) == {"a.weight", *made_up.named}
    read = pte.read(program)
    start, size = read.segments[0]
    assert program.read_bytes()[start : start + size] == b"bias" + bytes(12) + b"w" * 12
    assert [int(o) for o in read.program.constantSegment.offsets] == [0, 0, 16]
    values = read.program.executionPlan[0].values
    assert [v.val.dataBufferIdx for v in values[1:]] == [1, 2]
    assert values[1].val.extraTensorInfo is None


def test_a_constant_that_also_something_nameless_uses_stays(tmp_path: Path) -> None:
    same = MadeUp(methods={"forward": {"w": b"1234"}, "decode": {"w": b"1234"}})
    lowered = same.lower(tmp_path / "lowered", Hints(tensors={(0, 0): "w"}))
    _, program, data = relink(lowered, tmp_path / "out", separate=True)
    assert ptd_contents(data)["w"] == b"1234"
    assert b"1234" in program.read_bytes()


def test_alignments_and_layouts_of_the_exporter_are_kept(tmp_path: Path) -> None:
    made_up = MadeUp(methods={"forward": {}}, named={"a": b"x", "b": b"yyyy"})
    layout = Layout(FLOAT32, (1,), (0,))
    hints = Hints(alignments={"b": 512}, layouts={"b": layout}, names={"b": ["z", "a"]})
    lowered = made_up.lower(tmp_path / "lowered", hints)
    assert lowered.index.named_data[1].names == ("a", "z")
    _, _, data = relink(lowered, tmp_path / "out", separate=True)
    found = ptd.read(data)
    assert found["b"][1] == layout
    assert found["b"][0].offset - found["a"][0].offset == 512


def test_data_that_a_recipe_moved_out_needs_a_data_file(tmp_path: Path) -> None:
    layout = Layout(FLOAT32, (2,), (0,))
    external = {"w": ("tag", Piece.of(b"12345678"), 1, layout)}
    lowered = MadeUp().lower(tmp_path / "lowered", Hints(external=external))
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out")
    assert str(caught.value) == (
        '//m:program: its recipe moves 1 constants out of the program (e.g. "w"), but the program '
        'embeds its weights.\nSet weights = "separate" on the program.'
    )
    _, _, data = relink(lowered, tmp_path / "out", separate=True)
    assert ptd_contents(data)["w"] == b"12345678"
    assert ptd.read(data)["w"][1] == layout


def test_one_name_with_different_bytes_is_an_error(tmp_path: Path) -> None:
    made_up = MadeUp(methods={"prefill": {"w": b"1111"}, "decode": {"w": b"2222"}})
    lowered = made_up.lower(tmp_path / "lowered")
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out", separate=True)
    hashes = [hashlib.sha256(b).hexdigest() for b in (b"1111", b"2222")]
    assert str(caught.value) == (
        '//m:program: two data of the name "w" have different bytes: sha256 '
        f"{hashes[0]} and {hashes[1]}.\nRename one of the parameters, or embed the weights."
    )
    assert not (tmp_path / "out" / "p.ptd").exists()
    relink(lowered, tmp_path / "embedded")


def test_one_name_with_the_same_bytes_is_stored_once(tmp_path: Path) -> None:
    made_up = MadeUp(methods={"prefill": {"w": b"1111"}, "decode": {"w": b"1111"}})
    _, _, data = relink(made_up.lower(tmp_path / "lowered"), tmp_path / "out", separate=True)
    assert {"w"} == set(ptd_contents(data)) - set(made_up.named)


def test_an_unknown_order_of_segments_is_refused(tmp_path: Path) -> None:
    path = MadeUp().write(tmp_path / "p.pte")
    read = pte.read(path)
    # A payload behind named data.
    read.program.namedData[0].segmentIndex = 0
    with open(tmp_path / "q.pte", "wb") as out:
        segments = [pte.Segment((read.piece(n),)) for n in range(len(read.segments))]
        pte.write(out, read.program, segments)
    with pytest.raises(BuildError, match=r"q\.pte: segment 1 follows named data"):
        split(tmp_path / "q.pte", tmp_path / "lowered", "//m:p", VERSIONS)


def test_another_format_of_the_index_is_refused(tmp_path: Path) -> None:
    folder = MadeUp().lower(tmp_path / "lowered").folder
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**index, "format": 99, "new": 1}))
    with pytest.raises(BuildError) as caught:
        Lowered(folder)
    assert str(caught.value) == (
        f"{folder / 'index.json'}: got format 99, wanted 1.\n"
        "Lower it again with the rules_executorch that links it."
    )


@pytest.mark.parametrize("text", [None, "", "{"])
def test_a_folder_without_an_index_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "index.json").write_text(text)
    with pytest.raises(BuildError) as caught:
        Lowered(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path} is not a lowered program: ")
