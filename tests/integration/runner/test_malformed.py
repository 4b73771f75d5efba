"""Well-formed files with invalid contents, excessive sizes or endless work."""

from __future__ import annotations

import json
import resource
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from etlink import pte, schema

from tests.fuzz.structure import mutants, with_segments
from tests.integration.runner.runner_process import (
    PROGRAMS,
    RUNNER,
    Result,
    run_binary,
    write_manifest,
)

TOKENIZE = Path("tests/integration/runner/tokenize").absolute()
ROUNDS = 100
# Of any run: a program of these tests takes 35.
_MOST_MB = 600
DEEP = "[" * 1_000_000


def peak_mb() -> float:
    """The maximum memory of a run so far."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def bounded(binary: Path, *words: str | Path) -> Result:
    """Runs a program with a memory limit."""
    script = 'ulimit -v 2000000 && exec "$0" "$@"'
    return run_binary(Path("/bin/sh"), "-c", script, binary, *words)


def run(*words: str | Path) -> Result:
    """Runs the runner, and checks that it succeeds or ends with one sentence."""
    return bounded(RUNNER, *words)


@pytest.fixture(autouse=True)
def in_bounds() -> Iterator[None]:
    """Fails a test if a run takes a gigabyte; `run_binary` handles runs that hang."""
    before = peak_mb()
    yield
    assert peak_mb() < max(_MOST_MB, before + 1), "a run took too much memory"


@pytest.mark.parametrize("name", ["types", "portable", "xnnpack", "methods", "twins_int8_static"])
@pytest.mark.few(2)
def test_programs_of_senseless_tables(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.pte"
    data = PROGRAMS / f"{name}.ptd"
    words: list[str | Path] = ["--data", data] if data.exists() else []
    refused = 0
    for mutant in mutants(PROGRAMS / f"{name}.pte", ROUNDS, name):
        path.write_bytes(mutant)
        # `run` checks that it ends well, or with one sentence.
        refused += run("--program", path, *words).code
    assert refused > ROUNDS // 4


def test_a_program_that_runs_for_ever(tmp_path: Path) -> None:
    source = PROGRAMS / "types.pte"
    program = pte.read(source).program
    plan, classes = program.executionPlan[0], schema.program_class
    no = classes("EValueT")()
    no.valType, no.val = classes("KernelTypes").Bool, classes("BoolT")()
    plan.values.append(no)
    jump = classes("InstructionT")()
    jump.instrArgsType = classes("InstructionArguments").JumpFalseCall
    jump.instrArgs = classes("JumpFalseCallT")()
    jump.instrArgs.condValueIndex = len(plan.values) - 1
    plan.chains[0].instructions.insert(0, jump)
    path = tmp_path / "loop.pte"
    path.write_bytes(with_segments(schema.pack_program(program), source.read_bytes()))
    assert 'method "forward" failed: the program is damaged' in run("--program", path).error


def vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    """A vector of tables, some of which may be the same."""
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def table(builder: flatbuffers.Builder, **fields: Any) -> int:
    """A table with fields by "f<number>": offsets, or numbers of a type given with them."""
    builder.StartObject(1 + max(int(name[1:]) for name in fields))
    for name, value in fields.items():
        place = int(name[1:])
        if isinstance(value, tuple):
            getattr(builder, f"Prepend{value[0]}Slot")(place, value[1], 0)
        else:
            builder.PrependUOffsetTRelativeSlot(place, value, 0)
    return builder.EndObject()


def test_a_bundle_of_endless_cases(tmp_path: Path) -> None:
    builder = flatbuffers.Builder()
    many = 1000
    size = 1 << 16
    data = builder.CreateByteVector(bytes(size))
    builder.StartVector(4, 1, 4)
    builder.PrependInt32(size)
    sizes = builder.EndVector()
    # uint8
    tensor = table(builder, f0=("Int8", 0), f1=sizes, f2=data)
    value = table(builder, f0=("Uint8", 1), f1=tensor)
    case = table(builder, f0=vector(builder, [value] * many))
    name = builder.CreateString("forward")
    suite = table(builder, f0=name, f1=vector(builder, [case] * many))
    program = builder.CreateByteVector((PROGRAMS / "types.pte").read_bytes())
    root = table(builder, f1=vector(builder, [suite] * many), f2=program)
    builder.Finish(root, file_identifier=b"BP08")
    path = tmp_path / "endless.bpte"
    # 100 KB that would be 60 TB.
    path.write_bytes(builder.Output())
    said = run("--bundled", path).error
    assert f"{path} is damaged: its tables lead outside of it, or overlap" in said


def test_a_data_file_of_endless_shapes(tmp_path: Path) -> None:
    builder = flatbuffers.Builder()
    dimensions = 200_000
    sizes = builder.CreateNumpyVector(np.ones(dimensions, np.int32))
    order = builder.CreateByteVector(bytes(dimensions))
    layout = table(builder, f0=("Int8", 0), f1=sizes, f2=order)
    keys = [builder.CreateString(f"{number:04}") for number in range(5000)]
    items = [table(builder, f0=key, f1=("Uint32", 0), f2=layout) for key in keys]
    segment = table(builder, f1=("Uint64", 1))
    root = table(builder, f1=vector(builder, [segment]), f2=vector(builder, items))
    builder.Finish(root, file_identifier=b"FT01")
    tables = bytes(builder.Output())
    (first,) = struct.unpack_from("<I", tables)
    head = struct.pack("<4sIQQQQ", b"FH01", 40, 48, len(tables), 48 + len(tables), 1)
    path = tmp_path / "endless.ptd"
    whole = struct.pack("<I", first + 48) + tables[4:8] + head.ljust(48, b"\0") + tables[8:] + b"x"
    # 1 MB that would be 5 GB.
    path.write_bytes(whole)
    said = run("--program", PROGRAMS / "xnnpack.pte", "--data", path).error
    assert f"{path} is damaged" in said and "overlap" in said


def manifest(folder: Path) -> list[str | Path]:
    path = write_manifest(folder / "m.json", PROGRAMS / "types.pte")
    path.write_text(path.read_text().replace('"data": []', f'"data": {DEEP}'))
    return ["--program", PROGRAMS / "types.pte", "--manifest", path]


def app(folder: Path) -> list[str | Path]:
    (folder / "manifest.json").write_text(f'{{"format": 1, "label": "x", "programs": {DEEP}')
    return ["--app", folder]


def safetensors(folder: Path) -> list[str | Path]:
    header = f'{{"input_0": {DEEP}'.encode()
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return ["--program", PROGRAMS / "types.pte", "--input", folder / "x.safetensors"]


@pytest.mark.parametrize("words", [manifest, app, safetensors])
def test_json_that_is_nested_deeply(
    words: Callable[[Path], list[str | Path]], tmp_path: Path
) -> None:
    said = run(*words(tmp_path)).error
    assert "is nested too deeply" in said and str(tmp_path) in said


def npy(shape: str) -> bytes:
    """A .npy file without data."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(2147483647, 2147483647, 2147483647)", "expected more"),
        ("(2147483647,)", "expected 8589934588"),
        ("(99999999999,)", "its shape is too big"),
        ("(-1,)", "its shape is not a tuple of numbers"),
        ("(" + "2, " * 9000 + ")", "it has 9000 dimensions, expected at most 16"),
        ("(1, " * 9000, "its shape is not a tuple of numbers"),
    ],
)
def test_gigantic_arrays(shape: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy(shape))
    said = run("--program", PROGRAMS / "types.pte", *["--input", path] * 5).error
    assert f"{path} is not a .npy file that the runner reads: " in said and message in said


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shape": [1 << 40], "data_offsets": [0, 4]}, "of another size than its shape's"),
        ({"shape": [1 << 62, 1 << 62], "data_offsets": [0, 4]}, "of another size than its shape's"),
        ({"shape": [1], "data_offsets": [0, 1 << 62]}, "has data outside of the file"),
        ({"shape": [-1], "data_offsets": [0, 4]}, "lacks a shape of at most 16 dimensions"),
        ({"shape": [1.5], "data_offsets": [0, 4]}, "lacks a shape of at most 16 dimensions"),
        ({"shape": [1], "data_offsets": [4, 0]}, "has data outside of the file"),
    ],
)
def test_gigantic_safetensors(entry: dict[str, Any], message: str, tmp_path: Path) -> None:
    header = json.dumps({"input_0": {"dtype": "F32", **entry}}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    said = run("--program", PROGRAMS / "types.pte", "--input", path).error
    assert str(path) in said and message in said


MODEL = {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "a"}


def tokenized(folder: Path, tokenizer: str | dict[str, Any], text: bytes) -> str:
    """The tokenizer's error."""
    path = folder / "tokenizer.json"
    path.write_text(tokenizer if isinstance(tokenizer, str) else json.dumps(tokenizer))
    (folder / "text").write_bytes(text + b"\0")
    script = f"ulimit -v 2000000 && exec {TOKENIZE} {path} < {folder / 'text'}"
    done = run_binary(Path("/bin/sh"), "-c", script)
    assert done.code == 1
    return done.error


def sequence(kind: str, many: str, part: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer that repeats a step 60 times, each of which doubles the text."""
    return {kind: {"type": "Sequence", many: [part] * 60}, "model": MODEL}


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}


@pytest.mark.parametrize(
    "tokenizer",
    [
        sequence("normalizer", "normalizers", REPLACE),
        sequence("pre_tokenizer", "pretokenizers", BYTES),
    ],
)
def test_tokenizers_that_make_a_text_endless(tokenizer: dict[str, Any], tmp_path: Path) -> None:
    said = tokenized(tmp_path, tokenizer, "aé".encode() * 9)
    assert (
        "the tokenizer makes a text too long: got " in said
        and "bytes, expected at most 4194304" in said
    )


def split(pattern: str) -> dict[str, Any]:
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"pre_tokenizer": step, "model": MODEL}


def test_regular_expressions_that_take_for_ever(tmp_path: Path) -> None:
    began = time.monotonic()
    said = tokenized(tmp_path, split("(a+)+b|(a*)*c"), b"a" * 5000)
    assert "takes too long for a text" in said
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?:a+)+[bc]", "a" * 8800),
        ("(?:a+)+[bc]|a", "a" * 8800),
        (r"(?:a?){40}a{40}b", "a" * 40 + " "),
    ],
)
def test_regular_expressions_that_have_to_be_quick(pattern: str, text: str, tmp_path: Path) -> None:
    """These take exponential time with backtracking, but not with Oniguruma."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(split(pattern)))
    (tmp_path / "text").write_text(f"{text}\0")
    began = time.monotonic()
    done = run_binary(Path("/bin/sh"), "-c", f"exec {TOKENIZE} {path} < {tmp_path / 'text'}")
    assert done.code == 0
    assert json.loads(done.output.split("\n")[0]) == [0] * len(text)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("patterns", "text"),
    [(["x{40}\\C", r"[^\p{L}]"], "x" * 40 + "😀"), (["a\\C"], "aé")],
)
def test_bytes_in_regular_expressions(patterns: list[str], text: str, tmp_path: Path) -> None:
    """These would split characters."""
    steps = [split(pattern)["pre_tokenizer"] for pattern in patterns]
    tokenizer = {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "model": MODEL,
    }
    assert "is malformed: end pattern at control" in tokenized(tmp_path, tokenizer, text.encode())


def test_matches_outside_of_what_is_searched(tmp_path: Path) -> None:
    """Hugging Face's library panics on these."""
    said = tokenized(tmp_path, split(r"(?<=\Kb)a|b"), b"ba")
    assert "matches outside of what is searched" in said


def test_texts_that_are_not_utf8(tmp_path: Path) -> None:
    assert "a text is not UTF-8" in tokenized(tmp_path, {"model": MODEL}, b"a\xff")


def added(count: int, size: int) -> list[dict[str, Any]]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "special": False}
    return [
        {"id": 1 + i, "content": f"a{i:05}".ljust(size, "b"), "normalized": True, **flags}
        for i in range(count)
    ]


def test_many_added_tokens_that_become_long(tmp_path: Path) -> None:
    replace = {"type": "Replace", "pattern": {"String": "b"}, "content": "bb"}
    tokenizer = {
        "normalizer": {"type": "Sequence", "normalizers": [replace] * 16},
        "added_tokens": added(400, 30),
        "model": MODEL,
    }
    assert "reading it takes too long" in tokenized(tmp_path, tokenizer, b"a")


def test_many_added_tokens(tmp_path: Path) -> None:
    """Encoding takes time in proportion to the text, for any number of tokens."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"added_tokens": added(50_000, 12), "model": MODEL}))
    (tmp_path / "text").write_bytes(b"a00" * 100_000 + b"\0")
    began = time.monotonic()
    done = run_binary(Path("/bin/sh"), "-c", f"exec {TOKENIZE} {path} < {tmp_path / 'text'}")
    assert done.code == 0
    assert time.monotonic() - began < 10


def test_decoders_that_make_a_text_endless(tmp_path: Path) -> None:
    tokenizer = sequence("decoder", "decoders", REPLACE) | {"model": MODEL}
    said = tokenized(tmp_path, tokenizer, b"aaaaaaaaa")
    assert "the tokenizer makes a text too long" in said


def test_answers_of_many_tokens(tmp_path: Path) -> None:
    """Decoding takes time in proportion to the tokens."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": MODEL, "decoder": {"type": "Fuse"}}))
    (tmp_path / "text").write_bytes(b"a" * 500_000 + b"\0")
    began = time.monotonic()
    done = run_binary(Path("/bin/sh"), "-c", f"exec {TOKENIZE} {path} < {tmp_path / 'text'}")
    assert done.code == 0
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (f'{{"model": {DEEP}', "it is nested too deeply"),
        (
            {"model": {**MODEL, "vocab": {"a": 16_000_000}}},
            "has 1 tokens and numbers up to 16000000",
        ),
        ({"model": {**MODEL, "vocab": {"a": -1}}}, 'has a number for "a" that no token has'),
        ({"model": {**MODEL, "merges": {"a": 1}}}, '"merges" is missing or not of type list'),
        (
            {"model": MODEL, "added_tokens": [{"id": 1 << 40, "content": "x"}]},
            'added_tokens[0]: "id" is 1099511627776, expected at most 4294967295',
        ),
        ({"model": MODEL, "added_tokens": 7}, '"added_tokens" is missing or not of type list'),
    ],
)
def test_malformed_tokenizers(tokenizer: Any, message: str, tmp_path: Path) -> None:
    said = tokenized(tmp_path, tokenizer, b"a")
    assert message in said and "tokenizer.json" in said
