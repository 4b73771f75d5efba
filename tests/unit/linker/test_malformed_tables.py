"""Tables that no program wrote: offsets that lead elsewhere, sizes and indices of nothing."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError
from etlink import payload, ptd, pte, schema
from etlink.__main__ import main
from etlink.container import Piece, Segment
from etlink.flatbuffer import Buffer, DamagedError, Table, number, text_of
from etlink.lowered import Lowered
from etlink.ptd import Layout
from flatbuffers import number_types
from synthetic import SyntheticProgram, biggest_blob, named, relink

ROOT = struct.Struct("<I")


def test_a_vtable_before_the_buffer() -> None:
    # The table is at byte 4, its vtable 12 bytes before that: from the end, Python would say.
    data = Buffer(struct.pack("<IiHHI", 4, 12, 6, 4, 7))
    with pytest.raises(DamagedError, match="an offset leads to byte -8, but they end at 16"):
        number(Table(data, 4), 0, number_types.Uint32Flags)


def test_a_string_that_ends_after_the_buffer() -> None:
    data = Buffer(struct.pack("<IHHHHiII4s", 12, 0, 0, 6, 4, 4, 4, 5, b"abcd"))
    with pytest.raises(DamagedError, match="of 5 elements at byte 24 ends after them, at 28"):
        text_of(Table(data, 12), 0)
    whole = Buffer(bytes(data) + b"e\0")
    assert text_of(Table(whole, 12), 0) == "abcde"


def endless(count: int) -> bytes:
    """A program of `count` methods, all of which are the same one, with `count` equal values."""
    plan = bytearray()
    # A vtable with `values` (field 2), the plan, its vector; then the value and its vtable.
    plan += struct.pack("<HHHHHH", 10, 8, 0, 0, 4, 0)
    table = len(plan)
    plan += struct.pack("<iI", table, 4)
    vector = len(plan)
    value = vector + 4 + 4 * count + 8
    plan += struct.pack("<I", count)
    for n in range(count):
        plan += struct.pack("<I", value - (vector + 4 + 4 * n))
    plan += struct.pack("<HHHH", 4, 4, 0, 0)
    plan += struct.pack("<i", 8)
    head = struct.pack("<I4sHHHHHH", 20, b"ET12", 8, 8, 0, 4, 0, 0)
    head += struct.pack("<iI", 12, 4)
    start = len(head) + 4 + 4 * count
    head += struct.pack("<I", count)
    at = len(head)
    for n in range(count):
        head += struct.pack("<I", start + table - (at + 4 * n))
    return bytes(head + plan)


def test_vectors_that_lie_over_each_other(tmp_path: Path) -> None:
    path = tmp_path / "p.pte"
    path.write_bytes(endless(1))
    assert len(schema.unpack_program(endless(1)).executionPlan[0].values) == 1
    # 80 KB that would be 10^8 values.
    path.write_bytes(endless(10_000))
    start = time.monotonic()
    with pytest.raises(BuildError, match="its tables or vectors overlap") as caught:
        pte.read(path)
    assert time.monotonic() - start < 10
    assert caught.value.what.startswith(f"{path} is damaged: its tables cannot be read (")


def written(path: Path, change: Callable[[Any], None]) -> Path:
    """A program file whose tables were changed."""
    SyntheticProgram().write(path)
    read = pte.read(path)
    change(read.program)
    segments = [
        Segment((Piece.of(path.read_bytes()[at : at + size]),)) for at, size in read.segments
    ]
    with open(path, "wb") as out:
        pte.write(out, read.program, segments)
    return path


def tensor(program: Any) -> Any:
    """The first tensor of a program."""
    return program.executionPlan[0].values[0].val


def instruction(kind: str, **fields: int) -> Callable[[Any], None]:
    """A change that adds an instruction."""

    def change(program: Any) -> None:
        plan = program.executionPlan[0]
        chain = schema.program_class("ChainT")()
        one = schema.program_class("InstructionT")()
        one.instrArgsType = getattr(schema.program_class("InstructionArguments"), kind)
        one.instrArgs = schema.program_class(f"{kind}T")()
        for name, value in fields.items():
            setattr(one.instrArgs, name, value)
        operator = schema.program_class("OperatorT")()
        operator.name, operator.overload = "aten::add", "out"
        chain.instructions = [one]
        plan.chains, plan.operators = [chain], [operator]

    return change


def delegate(location: int, index: int) -> Callable[[Any], None]:
    """A change that adds a delegate."""

    def change(program: Any) -> None:
        one = schema.program_class("BackendDelegateT")()
        one.id = "XnnpackBackend"
        one.processed = schema.program_class("BackendDelegateDataReferenceT")()
        one.processed.location, one.processed.index = location, index
        program.executionPlan[0].delegates = [one]

    return change


def set_to(name: str, value: Any, of: Callable[[Any], Any]) -> Callable[[Any], None]:
    """A change of one field."""
    return lambda program: setattr(of(program), name, value)


def plan(program: Any) -> Any:
    return program.executionPlan[0]


CHANGES = {
    "negative size": (
        set_to("sizes", [-1], tensor),
        'method "forward", value 0 has the shape [-1]',
    ),
    "too many dimensions": (
        set_to("sizes", [1] * 17, tensor),
        'method "forward", value 0 has 17 dimensions, expected at most 16',
    ),
    "dimensions": (
        set_to("dimOrder", [1], tensor),
        'method "forward", value 0 has the shape [10] and the dimensions [1]',
    ),
    "gigantic": (
        set_to("sizes", [2**31 - 1], tensor),
        'method "forward", value 0 has the shape [2147483647], 8589934588 bytes, in 48',
    ),
    "type": (
        set_to("scalarType", 99, tensor),
        'method "forward", value 0 is a constant of the unknown type 99',
    ),
    "constant": (
        set_to("dataBufferIdx", 4, tensor),
        'method "forward", value 0: its constant is number 4 of 4',
    ),
    "input": (
        set_to("inputs", [3], plan),
        'method "forward": one of its inputs is number 3 of 3',
    ),
    "output": (
        set_to("outputs", [-1], plan),
        'method "forward": one of its outputs is number -1 of 3',
    ),
    "memory": (
        set_to("nonConstBufferSizes", [0, -8], plan),
        'method "forward" plans memory of -8 bytes',
    ),
    "operator": (
        instruction("KernelCall", opIndex=1, args=[]),
        'method "forward", instruction 0: its operator is number 1 of 1',
    ),
    "argument": (
        instruction("KernelCall", opIndex=0, args=[0, 3]),
        'method "forward", instruction 0: one of its arguments is number 3 of 3',
    ),
    "no delegate": (
        instruction("DelegateCall", delegateIndex=0, args=[]),
        'method "forward", instruction 0: its delegate is number 0 of 0',
    ),
    "payload": (
        delegate(1, 9),
        'method "forward": the payload of XnnpackBackend is number 9 of 4',
    ),
    "inline payload": (
        delegate(0, 0),
        'method "forward": the payload of XnnpackBackend is number 0 of 0',
    ),
    "missing": (delegate(7, 0), 'method "forward": the payload of XnnpackBackend is missing'),
    "named data": (
        lambda program: setattr(program.namedData[0], "segmentIndex", 4),
        'segment of "k2" is number 4 of 4',
    ),
    "key": (
        lambda program: setattr(program.namedData[1], "key", "k2"),
        'two named data are called "k2"',
    ),
    "name": (set_to("name", b"\xff", plan), "a method has a name that is not UTF-8: b'\\xff'"),
    "two methods": (
        lambda program: program.executionPlan.append(program.executionPlan[0]),
        'two methods are called "forward"',
    ),
    "constants": (
        lambda program: setattr(program.constantSegment, "offsets", [0, 64, 48]),
        "the constants begin at byte 64 of their segment and end at 48",
    ),
    "segment of constants": (
        lambda program: setattr(program.constantSegment, "segmentIndex", 4),
        "the segment of the constants is number 4 of 4",
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_refers_to_nothing_is_named(tmp_path: Path, kind: str) -> None:
    change, message = CHANGES[kind]
    path = written(tmp_path / "p.pte", change)
    with pytest.raises(BuildError) as caught:
        pte.read(path)
    assert caught.value.what == f"{path} is damaged: {message}."
    assert caught.value.hint.startswith("Rebuild the target that makes it")


def test_tables_larger_than_any(tmp_path: Path) -> None:
    path = tmp_path / "p.pte"
    SyntheticProgram().write(path)
    head = bytearray(path.read_bytes()[:40])
    head[16:24] = struct.pack("<Q", 3 << 30)
    with open(path, "wb") as out:
        out.write(head)
        out.truncate(3 << 30)
    with pytest.raises(BuildError, match="its tables have 3221225472 bytes, expected at most"):
        pte.read(path)


Key = tuple[str, int, Layout | None]


def data_file(path: Path, *keys: Key, segments: int = 1) -> Path:
    """A data file with these keys, segments and layouts; each segment has 16 bytes."""
    tables = ptd._pack([(0, 16)] * segments, keys)
    head = struct.pack("<4sIQQQQ", b"FH01", 40, 48, len(tables), 48 + len(tables), 16)
    (root,) = ROOT.unpack_from(tables)
    whole = ROOT.pack(root + 48) + tables[4:8] + head.ljust(48, b"\0") + tables[8:] + bytes(16)
    path.write_bytes(whole)
    return path


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([("k", 1, None)], "the data of 'k' are segment 1 of 1"),
        ([("k", 0, None), ("k", 0, None)], "two keys are 'k'"),
        (
            [("k", 0, Layout(6, (3,), (0,)))],
            '"k" has 16 bytes, and its layout is type 6 [3], dimensions [0]',
        ),
        (
            [("k", 0, Layout(6, (1,) * 17, tuple(range(17))))],
            '"k" has 16 bytes, and its layout is type 6 [1, 1, 1',
        ),
    ],
)
def test_keys_of_a_data_file(tmp_path: Path, keys: list[Key], message: str) -> None:
    path = data_file(tmp_path / "d.ptd", *keys)
    with pytest.raises(BuildError) as caught:
        ptd.read(path)
    assert message in caught.value.what and str(path) in caught.value.what
    data_file(path, ("k", 0, Layout(6, (2, 2), (0, 1))))
    assert ptd.read(path)["k"][0].size == 16


def test_a_key_that_is_not_utf8(tmp_path: Path) -> None:
    path = data_file(tmp_path / "d.ptd", ("key", 0, None))
    path.write_bytes(path.read_bytes().replace(b"key", b"k\xffy"))
    with pytest.raises(BuildError, match=r"d\.ptd is damaged: its tables cannot be read \('utf-8'"):
        ptd.read(path)


def test_a_payload_of_nonsense_is_left_alone() -> None:
    head = struct.pack("<4s4sHIIIQ", b"", b"XH00", 30, 30, 0, 0, 0)
    for tables in (b"", b"\xff" * 40, bytes(40), ROOT.pack(8) + struct.pack("<i", -8) * 9):
        data = struct.pack("<4s4sHIIIQ", b"", b"XH00", 30, 30, len(tables), 0, 0) + tables
        assert payload.read(data) in (None, payload.Payload())
    assert payload.read(head) is None


def index_with(folder: Path, change: Callable[[Any], None]) -> Path:
    """A lowered program whose index was changed; returns the index."""
    lowered = SyntheticProgram().lower(folder)
    path = lowered.folder / "index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
    return path


def entry(name: str, **fields: Any) -> Callable[[Any], None]:
    """A change of the first item of a list."""
    return lambda index: index[name][0].update(fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (entry("constants", sha256="../../../etc/passwd"), "it.constants[0].sha256 is"),
        (entry("named_data", sha256="/etc/passwd"), 'sha256 is "/etc/passwd", expected a sha256'),
        (entry("segments", kind="other"), 'it.segments[0].kind is "other", expected one of'),
        (entry("segments", size=-1), "it.segments[0].size is -1, expected a whole number from 0"),
        (entry("segments", size="1"), 'it.segments[0].size is "1", expected a whole number'),
        (entry("segments", size=True), "it.segments[0].size is true, expected a whole number"),
        (entry("named_data", alignment=0), "it.named_data[0].alignment is 0, expected from 1"),
        (entry("named_data", alignment=1 << 40), "alignment is 1099511627776, expected from 1"),
        (entry("named_data", more=1), 'it.named_data[0] has the unknown member "more"'),
        (entry("tensors", buffer=9), "it.tensors[0].buffer is 9, but no constant has that number"),
        (entry("tensors", layout={"scalar_type": 6}), 'it.tensors[0].layout has no "sizes"'),
        (lambda index: index.update(segment_alignment=0), "it.segment_alignment is 0"),
        (lambda index: index.update(constants=7), "it.constants is 7, expected a list"),
        (lambda index: index.update(versions=[]), "it.versions is a list, expected an object"),
        (
            lambda index: index.update(packings=[{"weight": "", "bias": "", "recipe": "[[["}]),
            "it.packings[0].recipe is not a JSON object",
        ),
    ],
)
def test_indexes_of_lowered_programs(
    tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    path = index_with(tmp_path / "lowered", change)
    with pytest.raises(BuildError) as caught:
        Lowered(path.parent)
    assert caught.value.what.startswith(f"{path} is not the index of a lowered program: ")
    assert message in caught.value.what


def test_an_index_of_another_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = index_with(tmp_path / "lowered", entry("tensors", value=99))
    assert main([f"--lowered={path.parent}", f"--program={tmp_path / 'p.pte'}"]) == 1
    said = capsys.readouterr().err
    assert "the index has a weight at value 99 of method 0, but the tables have none" in said
    assert not (tmp_path / "p.pte").exists()


def test_an_index_that_is_nested_deeply(tmp_path: Path) -> None:
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    (lowered.folder / "index.json").write_text('{"format":' + "[" * 200_000)
    with pytest.raises(
        BuildError, match="is not the index of a lowered program: it is nested too deeply"
    ):
        Lowered(lowered.folder)


@pytest.mark.parametrize("name", ["k2", "a.weight"])
def test_a_changed_blob_gives_no_data_file(tmp_path: Path, name: str) -> None:
    # The program's own bytes would still be right: nothing but the blob's name says what it was.
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    index = lowered.index
    blobs = {n.key: n.sha256 for n in index.named_data}
    blobs |= {
        t.name: next(c.sha256 for c in index.constants if c.buffer == t.buffer)
        for t in index.tensors
    }
    path = lowered.folder / "blobs" / blobs[name]
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out", separate=True)
    assert caught.value.what.startswith(f"{path} is damaged: its sha256 is ")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_payload_that_has_changed_is_not_given_other_names(tmp_path: Path) -> None:
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    blob = biggest_blob(lowered)
    blob.write_bytes(b"x" + blob.read_bytes()[1:])
    with pytest.raises(BuildError, match=r"is damaged: its sha256 is .*, expected "):
        lowered.blob(blob.name)
    blob.unlink()
    with pytest.raises(BuildError, match="cannot be read: No such file"):
        lowered.blob(blob.name)


def test_alignments_that_have_no_common_multiple_on_a_disk(tmp_path: Path) -> None:
    entries = [named("k", b"x", 999_983), named("l", b"x", 999_979)]
    with open(tmp_path / "d.ptd", "wb") as out, pytest.raises(BuildError) as caught:
        ptd.write(out, entries)
    assert "alignment of a segment is too large: got 127995136045696 bytes" in caught.value.what


def test_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"gone\.pte is missing"):
        pte.read(tmp_path / "gone.pte")
