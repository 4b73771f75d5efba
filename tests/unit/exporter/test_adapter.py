"""An adapter's values apart from a lowering: stand-ins, what the model makes of both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from etbuild import BuildError
from etexport import adapter
from etlink import adapter_values
from etlink.data import Datum
from request_files import install, request
from safetensors.torch import load_file, save_file

_CODE = """
def adapter(ctx):
    return {"layer." + name: 2 * v for name, v in ctx.checkpoint("a.safetensors").items()}

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
    """An adapter's file, and its stand-in."""
    own, other = tmp_path / "a.safetensors", tmp_path / "stand_in"
    save_file({"a": torch.full((2, 3), 7.0), "b": torch.ones(2, dtype=torch.bfloat16)}, own)
    adapter.write_stand_in(request(command="stand_in", data={"_main/m/a": own}, output=other))
    return {"own": own, "other": other}


def values(tmp_path: Path, files: dict[str, Path], function: str = "adapter") -> Path:
    """What adapt writes."""
    install(tmp_path / "code", net=_CODE)
    output = tmp_path / "values"
    place = "_main/m/a.safetensors"
    adapter.write_values(
        request(
            command="adapt",
            entry_point=f"net:{function}",
            data={place: files["own"]},
            stand_ins={place: files["other"]},
            output=output,
        )
    )
    return output


def test_a_stand_in_depends_on_the_structure_alone(tmp_path: Path, files: dict[str, Path]) -> None:
    again, third = tmp_path / "b.safetensors", tmp_path / "third"
    save_file({"b": torch.zeros(2, dtype=torch.bfloat16), "a": torch.randn(2, 3)}, again)
    adapter.write_stand_in(request(command="stand_in", data={"_main/x": again}, output=third))
    assert third.read_bytes() == files["other"].read_bytes()
    made = load_file(third)
    assert {name: (t.dtype, tuple(t.shape)) for name, t in made.items()} == {
        "a": (torch.float32, (2, 3)),
        "b": (torch.bfloat16, (2,)),
    }
    assert len(made["a"].unique()) == 6


def test_values_are_what_the_model_makes_of_them(tmp_path: Path, files: dict[str, Path]) -> None:
    folder = values(tmp_path, files)
    first, second = adapter_values.read(folder)
    assert (first.name, first.dtype, first.shape, first.size) == ("layer.a", "float32", (2, 3), 24)
    assert (second.name, second.dtype, second.size) == ("layer.b", "bfloat16", 4)
    blob = (folder / "blobs" / first.blob).read_bytes()
    assert blob == torch.full((2, 3), 14.0).numpy().tobytes()


def test_values_take_the_places_of_stand_ins(tmp_path: Path, files: dict[str, Path]) -> None:
    tensors = adapter_values.read(values(tmp_path, files))
    data = [Datum(t.name, t.stand_in, t.size, 0, by_name=True) for t in tensors]
    other = Datum("layer.c", "0" * 64, 4, 0, by_name=True)
    made = adapter_values.exchanged("//m:p", [*data, other], tensors)
    assert [(d.key, d.blob, d.crc32) for d in made] == [
        *((t.name, t.blob, t.crc32) for t in tensors),
        ("layer.c", "0" * 64, 0),
    ]
    with pytest.raises(BuildError, match='"layer.b" is none of the 1 data of the program\'s own'):
        adapter_values.exchanged("//m:p", data[:1], tensors)
    changed = [data[0], Datum("layer.b", "1" * 64, 2, 0, dtype="qint8", shape=(2,), by_name=True)]
    wanted = re.escape('"layer.b": got qint8 [2], 2 bytes, wanted the bytes that adapter_entry')
    with pytest.raises(BuildError, match=wanted):
        adapter_values.exchanged("//m:p", changed, tensors)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("nothing", "got nothing, wanted a dict of qualified names to tensors"),
        ("numbers", "got 'a': a int, wanted a text and a tensor"),
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
    with pytest.raises(BuildError, match="expected a complete safetensors file; found"):
        adapter.write_stand_in(request(data={"_main/a": cut}, output=tmp_path / "out"))
    integers = tmp_path / "integers"
    save_file({"n": torch.arange(3)}, integers)
    with pytest.raises(BuildError, match='tensor "n" is stored as I64, wanted one of BF16'):
        adapter.write_stand_in(request(data={"_main/a": integers}, output=tmp_path / "out"))
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
    listed = folder / "adapter.json"
    listed.write_text(listed.read_text().replace('"stand_in": "', '"stand_in": "x'))
    with pytest.raises(BuildError, match="is damaged: it.tensors"):
        adapter_values.read(folder)
