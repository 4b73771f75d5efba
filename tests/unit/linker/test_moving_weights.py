"""Weights that leave a program for a data file, on synthetic programs. Needs no torch."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import ptd, pte, schema
from etlink.container import Piece, Segment
from etlink.named_data import Layout
from etlink.split import Hints, Weight, split
from synthetic import FLOAT32, VERSIONS, SyntheticProgram, relink, tree


def contents(path: Path) -> dict[str, bytes]:
    """Key to bytes of a data file."""
    whole = path.read_bytes()
    return {k: whole[p.offset : p.offset + p.size] for k, (p, _) in ptd.read(path).items()}


@pytest.mark.parametrize(
    "synthetic",
    [
        SyntheticProgram(),
        SyntheticProgram(methods={"forward": {}}, delegates=[], named={}),
        SyntheticProgram(
            methods={"forward": {"w": b"1234"}, "decode": {"w": b"1234", "v": b"5678" * 9}}
        ),
        SyntheticProgram(delegates=[b"", b"x"], named={"empty": b"", "k": b"y"}),
    ],
    ids=["all", "tables_only", "two_methods", "empty_blobs"],
)
def test_embedded_weights_give_the_same_bytes(synthetic: SyntheticProgram, tmp_path: Path) -> None:
    lowered = synthetic.lower(tmp_path / "lowered")
    linked, program, data = relink(lowered, tmp_path / "out")
    assert program.read_bytes() == (tmp_path / "lowered.pte").read_bytes()
    assert (linked.embedded, linked.separate) == (tuple(sorted(synthetic.named)), ())
    assert not data.exists()
    blobs = {p.name: p.read_bytes() for p in (lowered.folder / "blobs").glob("*")}
    assert all(hashlib.sha256(blob).hexdigest() == name for name, blob in blobs.items())


def test_weights_and_delegates_data_leave_the_program(tmp_path: Path) -> None:
    synthetic = SyntheticProgram()
    linked, program, data = relink(synthetic.lower(tmp_path / "l"), tmp_path / "out", separate=True)
    expected = {**synthetic.methods["forward"], **synthetic.named}
    assert contents(data) == expected
    assert (linked.embedded, linked.separate) == ((), tuple(sorted(expected)))
    read = pte.read(program)
    assert [size for _, size in read.segments] == [0, 210]
    assert not read.program.namedData
    external = schema.program_class("TensorDataLocation").EXTERNAL
    infos = [value.val.extraTensorInfo for value in read.program.executionPlan[0].values]
    assert [i.location for i in infos] == [external] * 3
    assert [i.fullyQualifiedName for i in infos] == [b"a.weight", b"a.bias", b"b.weight"]
    assert ptd.read(data)["a.weight"][1] == Layout(FLOAT32, (10,), (0,))


def test_constants_without_a_name_stay_and_are_counted_anew(tmp_path: Path) -> None:
    synthetic = SyntheticProgram()
    lowered = synthetic.lower(tmp_path / "lowered", Hints(tensors={(0, 0): "a.weight"}))
    _, program, data = relink(lowered, tmp_path / "out", separate=True)
    assert set(contents(data)) == {"a.weight", *synthetic.named}
    read = pte.read(program)
    start, size = read.segments[0]
    assert program.read_bytes()[start : start + size] == b"bias" + bytes(12) + b"w" * 12
    assert [int(offset) for offset in read.program.constantSegment.offsets] == [0, 0, 16]
    values = read.program.executionPlan[0].values
    assert [value.val.dataBufferIdx for value in values[1:]] == [1, 2]
    assert values[1].val.extraTensorInfo is None


def test_a_constant_that_something_nameless_uses_too_is_in_both(tmp_path: Path) -> None:
    same = SyntheticProgram(methods={"forward": {"w": b"1234"}, "decode": {"w": b"1234"}})
    lowered = same.lower(tmp_path / "lowered", Hints(tensors={(0, 0): "w"}))
    _, program, data = relink(lowered, tmp_path / "out", separate=True)
    assert contents(data)["w"] == b"1234"
    assert b"1234" in program.read_bytes()


def test_alignments_layouts_and_names_of_the_exporter_are_kept(tmp_path: Path) -> None:
    named = {"a": b"x", "b": b"yyyy"}
    synthetic = SyntheticProgram(methods={"forward": {}}, named=named, alignments={"b": 512})
    layout = Layout(FLOAT32, (1,), (0,))
    weights = {hashlib.sha256(b"yyyy").hexdigest(): [Weight(n, "float32", (1,)) for n in "za"]}
    hints = Hints(alignments={"b": 512}, layouts={"b": layout}, weights=lambda sizes: weights)
    lowered = synthetic.lower(tmp_path / "lowered", hints)
    result = lowered.index.named_data[1]
    assert (result.names, result.dtype, result.shape) == (("a", "z"), "float32", (1,))
    _, _, data = relink(lowered, tmp_path / "out", separate=True)
    result = ptd.read(data)
    assert result["b"][1] == layout
    assert result["b"][0].offset - result["a"][0].offset == 512


def test_data_that_a_recipe_moved_out_need_a_data_file(tmp_path: Path) -> None:
    external = {"w": ("tag", Piece.of(b"12345678"), 1, Layout(FLOAT32, (2,), (0,)))}
    lowered = SyntheticProgram().lower(tmp_path / "lowered", Hints(external=external))
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out")
    assert str(caught.value) == (
        '//m:program: its recipe moves 1 constants out of the program (e.g. "w"), but the program '
        'embeds its weights.\nSet weights = "separate" on the program.'
    )
    _, _, data = relink(lowered, tmp_path / "out", separate=True)
    assert contents(data)["w"] == b"12345678"


def test_one_name_with_different_bytes_is_an_error(tmp_path: Path) -> None:
    synthetic = SyntheticProgram(methods={"prefill": {"w": b"1111"}, "decode": {"w": b"2222"}})
    lowered = synthetic.lower(tmp_path / "lowered")
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out", separate=True)
    hashes = [hashlib.sha256(data).hexdigest() for data in (b"1111", b"2222")]
    assert str(caught.value) == (
        '//m:program: two weights named "w" have different bytes: sha256 '
        f"{hashes[0]} (float32 [1], 4 bytes) and {hashes[1]} (float32 [1], 4 bytes).\n"
        "Rename one of the parameters, or embed the weights."
    )
    assert not (tmp_path / "out" / "p.ptd").exists()
    relink(lowered, tmp_path / "embedded")


def test_an_unknown_order_of_segments_is_refused(tmp_path: Path) -> None:
    read = pte.read(SyntheticProgram().write(tmp_path / "p.pte"))
    # A payload behind named data.
    read.program.namedData[0].segmentIndex = 0
    with open(tmp_path / "q.pte", "wb") as out:
        pieces = [Segment((read.piece(n),)) for n in range(len(read.segments))]
        pte.write(out, read.program, pieces)
    with pytest.raises(BuildError, match=r"q\.pte: unknown layout: segment 1 follows named data"):
        split(tmp_path / "q.pte", tmp_path / "lowered", "//m:p", VERSIONS)


def test_where_it_is_built_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "another").mkdir()
    folders = [tmp_path / "lowered", tmp_path / "another" / "place"]
    lowered = [SyntheticProgram().lower(target) for target in folders]
    assert tree(folders[0]) == tree(folders[1])
    outputs = [relink(one, tmp_path / f"out{n}", separate=True) for n, one in enumerate(lowered)]
    assert outputs[0][0] == outputs[1][0]
    assert tree(tmp_path / "out0") == tree(tmp_path / "out1")
