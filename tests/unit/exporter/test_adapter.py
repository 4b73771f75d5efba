"""An adapter's values apart from a lowering: placeholders, what the model makes of both."""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError
from etlink import adapter_values
from etlink.named_data import NamedData
from etlower import adapter
from etlower.guard import Guard, declared
from request_files import install, request
from safetensors.torch import load_file, save_file

_CODE = """
def adapter(ctx):
    return {"layer." + name: 2 * v for name, v in ctx.checkpoint("a.safetensors").items()}

def partial(ctx):
    return {"layer.a": ctx.checkpoint("a.safetensors")["a"]}

def rotated(ctx):
    a, b = (ctx.checkpoint("a.safetensors")[n] for n in "ab")
    return {"layer.a": a.t(), "layer.sum": a.sum() + b.sum()}

def unused(ctx):
    return {**partial(ctx), "b": None}

def misnamed(ctx):
    return {**partial(ctx), "layer.b": None}

def nothing(ctx):
    return None

def numbers(ctx):
    return {"a": 1}

def moody(ctx):
    a = ctx.checkpoint("a.safetensors")["a"]
    return {"a": a if a.abs().max() > 1 else a.double()}
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """An adapter's file, and its placeholder."""
    own, other = tmp_path / "a.safetensors", tmp_path / "placeholder"
    save_file({"a": torch.full((2, 3), 7.0), "b": torch.ones(2, dtype=torch.bfloat16)}, own)
    adapter.write_placeholder(request(command="placeholder", data={"_main/m/a": own}, output=other))
    return {"own": own, "other": other}


def values(tmp_path: Path, files: dict[str, Path], function: str = "adapter") -> Path:
    """Runs adapt and returns its output."""
    install(tmp_path / "code", net=_CODE)
    output = tmp_path / "values"
    place = "_main/m/a.safetensors"
    adapting = request(
        command="adapt",
        entry_point=f"net:{function}",
        data={place: files["own"]},
        placeholders={place: files["other"]},
        output=output,
    )
    # As in an action: nothing but what is declared can be opened.
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(work))
        with Guard("//m:net", declared(adapting, work)).watching():
            adapter.write_values(adapting)
    return output


def test_a_placeholder_depends_on_the_structure_alone(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    again, third = tmp_path / "b.safetensors", tmp_path / "third"
    save_file({"b": torch.zeros(2, dtype=torch.bfloat16), "a": torch.randn(2, 3)}, again)
    adapter.write_placeholder(request(command="placeholder", data={"_main/x": again}, output=third))
    assert third.read_bytes() == files["other"].read_bytes()
    result = load_file(third)
    assert {name: (t.dtype, tuple(t.shape)) for name, t in result.items()} == {
        "a": (torch.float32, (2, 3)),
        "b": (torch.bfloat16, (2,)),
    }
    assert len(result["a"].unique()) == 6


def test_values_are_what_the_model_makes_of_them(tmp_path: Path, files: dict[str, Path]) -> None:
    folder = values(tmp_path, files)
    first, second = adapter_values.read(folder).tensors
    assert (first.name, first.dtype, first.shape, first.size) == ("layer.a", "float32", (2, 3), 24)
    assert (second.name, second.dtype, second.size) == ("layer.b", "bfloat16", 4)
    blob = (folder / "blobs" / first.sha256).read_bytes()
    assert blob == torch.full((2, 3), 14.0).numpy().tobytes()


def test_a_tensor_that_the_entry_point_leaves_out(tmp_path: Path, files: dict[str, Path]) -> None:
    with pytest.raises(BuildError) as caught:
        values(tmp_path, files, "partial")
    assert caught.value.what == (
        '//m:net: adapter_entry_point = "net:partial": nothing that it returns depends on 1 of 2 '
        'tensors of the adapter, e.g. "b" of _main/m/a.safetensors, so a program would keep the '
        "values that it was lowered with."
    )
    assert not (tmp_path / "values").exists()


def test_a_tensor_that_the_model_does_not_use(tmp_path: Path, files: dict[str, Path]) -> None:
    folder = values(tmp_path, files, "unused")
    assert [t.name for t in adapter_values.read(folder).tensors] == ["layer.a"]
    # Should the model use it after all, the program isn't linked.
    assert sha256(load_file(files["other"])["b"]) in adapter_values.read(folder).placeholders
    message = 'got None for "layer.b", expected the name of one of the 2 tensors in the adapter'
    with pytest.raises(BuildError, match=message):
        values(tmp_path, files, "misnamed")


def test_what_is_returned_as_it_is_needs_no_trial(tmp_path: Path) -> None:
    """Each trial runs the entry point again; twice it runs in any case."""
    code = """
RUNS = []

def f(ctx):
    RUNS.append(1)
    a = ctx.checkpoint("a.safetensors")
    return {f"layer.{n}": a[n] for n in "0123"} | REST(a)
"""
    own, other = tmp_path / "own", tmp_path / "other"
    tensors = {str(n): torch.ones(5, 8) for n in range(8)}
    save_file({**tensors, "3": tensors["3"].bfloat16()}, own)
    adapter.write_placeholder(request(data={"_main/a.safetensors": own}, output=other))
    for rest, runs, left_out in [
        ("{n: a[n] for n in '4567'}", 2, 0),
        # None of four changes anything: one trial.
        ("{}", 3, 4),
        # One for all, two for each bit of a number, one for the others.
        ("{'4': a['4'] + 1, '7': a['7'] + 1}", 3 + 4 + 1, 2),
        # So for what is scaled or moved, and nothing is left out.
        ("{n: -3 * a[n].t().reshape(2, 20) for n in '4567'}", 3 + 4, 0),
        ("{n: 0 * a[n].abs() for n in '4567'}", 3, 4),
    ]:
        install(tmp_path / str(len(rest)), net=code.replace("REST(a)", rest))
        given = request(
            command="adapt",
            entry_point="net:f",
            data={"_main/a.safetensors": own},
            placeholders={"_main/a.safetensors": other},
            output=tmp_path / "out",
        )
        if left_out:
            with pytest.raises(BuildError, match=f"depends on {left_out} of 8 tensors"):
                adapter.write_values(given)
        else:
            adapter.write_values(given)
        assert len(sys.modules["net"].RUNS) == runs, rest


def test_equal_names_in_two_files_are_told_apart(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    save_file({"a": torch.ones(9)}, own)
    adapter.write_placeholder(request(data={"_main/x.safetensors": own}, output=other))
    for number, factors in enumerate([(1, 2), (1, 0), (0, 3)]):
        code = (
            "def f(ctx):\n    x, y = (ctx.checkpoint(f'{n}.safetensors')['a'] for n in 'xy')\n"
            f"    return {{'a': x * {factors[0]} + y * {factors[1]}}}"
        )
        install(tmp_path / f"code{number}", net=code)
        given = request(
            command="adapt",
            entry_point="net:f",
            data={"_main/x.safetensors": own, "_main/y.safetensors": own},
            placeholders={"_main/x.safetensors": other, "_main/y.safetensors": other},
            output=tmp_path / "out",
        )
        if all(factors):
            adapter.write_values(given)
            continue
        place = "xy"[factors.index(0)]
        with pytest.raises(BuildError, match=f'1 of 2 .* e.g. "a" of _main/{place}.safetensors'):
            adapter.write_values(given)


def test_tensors_may_be_changed_and_joined(tmp_path: Path, files: dict[str, Path]) -> None:
    folder = values(tmp_path, files, "rotated")
    assert [t.name for t in adapter_values.read(folder).tensors] == ["layer.a", "layer.sum"]


def test_every_tensor_is_tried(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    names = [f"{n:02}" for n in range(13)]
    save_file({name: torch.ones(3) for name in names}, own)
    adapter.write_placeholder(request(data={"_main/a.safetensors": own}, output=other))
    for left_out in ([], ["00"], ["12"], ["03", "07", "08"]):
        code = (
            "def f(ctx):\n    a = ctx.checkpoint('a.safetensors')\n"
            f"    kept = [n for n in sorted(a) if n not in {left_out}]\n"
            "    return {n: 2 * a[n] for n in kept[2:]} | {'both': a[kept[0]] + a[kept[1]]}"
        )
        install(tmp_path / f"code{len(left_out)}{left_out[:1]}", net=code)
        given = request(
            command="adapt",
            entry_point="net:f",
            data={"_main/a.safetensors": own},
            placeholders={"_main/a.safetensors": other},
            output=tmp_path / "out",
        )
        if not left_out:
            adapter.write_values(given)
            continue
        message = f'depends on {len(left_out)} of 13 tensors of the adapter, e.g. "{left_out[0]}"'
        with pytest.raises(BuildError, match=message):
            adapter.write_values(given)


def test_placeholders_are_listed(tmp_path: Path, files: dict[str, Path]) -> None:
    placeholder = load_file(files["other"])["a"]
    listed = adapter_values.read(values(tmp_path, files)).placeholders
    assert sha256(placeholder) in listed and sha256(2 * placeholder) in listed
    assert sha256(torch.zeros(2, 3)) not in listed


def sha256(tensor: torch.Tensor) -> str:
    """The sha256 of a tensor's bytes, hex."""
    return hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def named(key: str, sha256: str, size: int, **fields: Any) -> NamedData:
    """A program's own weight, by name."""
    return NamedData(key=key, sha256=sha256, size=size, crc32=0, by_name=True, **fields)


def test_values_replace_placeholders(tmp_path: Path, files: dict[str, Path]) -> None:
    tensors = adapter_values.read(values(tmp_path, files)).tensors
    data = [named(t.name, t.placeholder, t.size) for t in tensors]
    other = named("layer.c", "0" * 64, 4)
    replaced = adapter_values.with_values("//m:p", [*data, other], tensors)
    assert [(d.key, d.sha256, d.crc32) for d in replaced] == [
        *((t.name, t.sha256, t.crc32) for t in tensors),
        ("layer.c", "0" * 64, 0),
    ]
    with pytest.raises(
        BuildError, match='"layer.b" is none of the 1 weights of the program\'s own'
    ):
        adapter_values.with_values("//m:p", data[:1], tensors)
    changed = [data[0], named("layer.b", "1" * 64, 2, dtype="qint8", shape=(2,))]
    message = re.escape('"layer.b": got qint8 [2], 2 bytes, expected the bytes that adapter_e')
    with pytest.raises(BuildError, match=message):
        adapter_values.with_values("//m:p", changed, tensors)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("nothing", "got nothing, expected a dict of qualified names to tensors"),
        ("numbers", "got 'a': a int, expected a string and a tensor"),
        ("moody", 'for files of the same structure it returns tensors of different ones, e.g. "a"'),
        ("missing", 'adapter_entry_point = "net:missing": the module net has no "missing"'),
    ],
)
def test_a_wrong_entry_point(
    tmp_path: Path, files: dict[str, Path], function: str, message: str
) -> None:
    with pytest.raises(BuildError, match=re.escape(message)):
        values(tmp_path, files, function)


def test_what_is_no_adapter(tmp_path: Path, files: dict[str, Path]) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(files["own"].read_bytes()[:-3])
    with pytest.raises(BuildError, match="expected a complete safetensors file; got"):
        adapter.write_placeholder(request(data={"_main/a": cut}, output=tmp_path / "out"))
    integers = tmp_path / "integers"
    save_file({"n": torch.arange(3)}, integers)
    with pytest.raises(BuildError, match='tensor "n" is stored as I64, expected one of F32'):
        adapter.write_placeholder(request(data={"_main/a": integers}, output=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_damaged_values(tmp_path: Path, files: dict[str, Path]) -> None:
    folder = values(tmp_path, files)
    blob = next((folder / "blobs").iterdir())
    blob.write_bytes(b"other")
    with pytest.raises(BuildError, match="is damaged: its sha256 is"):
        adapter_values.read(folder)
    blob.unlink()
    with pytest.raises(BuildError, match="is missing"):
        adapter_values.read(folder)
    folder = values(tmp_path / "again", files)
    listed = folder / "placeholders.txt"
    text = listed.read_text()
    listed.write_text("x" + text)
    with pytest.raises(BuildError, match="does not list placeholders: a line is"):
        adapter_values.read(folder)
    listed.write_text(text.replace(" layer.a\n", "\n"))
    with pytest.raises(BuildError, match='placeholder of "layer.a" not found'):
        adapter_values.read(folder)
    known = folder / "manifest.json"
    known.write_text(known.read_text().replace('"blobs/', '"blobs/0'))
    with pytest.raises(BuildError, match="has another name than hash"):
        adapter_values.read(folder)
