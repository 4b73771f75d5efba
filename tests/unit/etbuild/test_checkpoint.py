"""Checkpoints: what is saved is loaded, and nothing in a file runs."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError, ModelContext, load_checkpoint
from safetensors.torch import save_file

TENSORS = {
    "float": torch.arange(6.0).reshape(2, 3),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "long": torch.tensor([1, -2]),
    "bfloat16": torch.ones(3, dtype=torch.bfloat16),
    "float8": torch.ones(3).to(torch.float8_e4m3fn),
    "bool": torch.tensor([True, False]),
    "empty": torch.zeros(0, 4),
    "scalar": torch.tensor(3.5),
}


class Runs:
    """A value whose pickle calls a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("import sys; sys.ran_from_a_file = True",))


@pytest.fixture(autouse=True)
def nothing_ran(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fails a test in which something out of a file has run."""
    monkeypatch.delattr(sys, "ran_from_a_file", raising=False)
    yield
    assert not hasattr(sys, "ran_from_a_file")


def same(one: Any, two: Any) -> bool:
    """Tells whether two tensors are the same, types that can't be compared included."""
    return (
        one.dtype == two.dtype
        and one.shape == two.shape
        and torch.equal(one.double(), two.double())
    )


@pytest.mark.parametrize("name", ["net.pt", "net.pth", "net.bin"])
@pytest.mark.parametrize("is_zip", [True, False])
def test_what_torch_saves(tmp_path: Path, name: str, is_zip: bool) -> None:
    # The format before torch 1.6 doesn't know the newest types.
    tensors = {n: t for n, t in TENSORS.items() if is_zip or n != "float8"}
    parameter = torch.nn.Parameter(TENSORS["float"])
    saved = {"model": tensors, "epoch": 3, "names": ["a", None], "p": parameter}
    torch.save(saved, tmp_path / name, _use_new_zipfile_serialization=is_zip)
    result = load_checkpoint(tmp_path / name)
    assert (result["epoch"], result["names"]) == (3, ["a", None])
    assert all(same(result["model"][n], t) for n, t in tensors.items())
    assert isinstance(result["p"], torch.nn.Parameter)


def test_safetensors(tmp_path: Path) -> None:
    tensors = {n: t.contiguous() for n, t in TENSORS.items()}
    save_file(tensors, tmp_path / "net.safetensors")
    result = ModelContext(files={"x/net.safetensors": tmp_path / "net.safetensors"}).checkpoint(
        "net.safetensors"
    )
    assert all(same(result[n], t) for n, t in tensors.items())


class Net(torch.nn.Module):
    """A module with modules inside, and a tensor that two share."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        self.register_buffer("view", torch.arange(12.0).reshape(3, 4).T[1:])
        self.tied = self.layers[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.layers(x[:, :3])) + self.view.sum()


def test_tensors_of_torchscript(tmp_path: Path) -> None:
    module = torch.jit.script(Net())
    module.save(tmp_path / "net.jit")
    result = load_checkpoint(tmp_path / "net.jit")
    expected = torch.jit.load(tmp_path / "net.jit").state_dict()
    assert expected.keys() <= result.keys()
    assert all(torch.equal(result[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_pickle_that_would_run_code(tmp_path: Path, is_zip: bool) -> None:
    path = tmp_path / "net.pt"
    torch.save({"w": TENSORS["float"], "x": Runs()}, path, _use_new_zipfile_serialization=is_zip)
    name = "builtins.exec" if is_zip else "exec"
    with pytest.raises(BuildError) as caught:
        ModelContext(files={"net.pt": path}, label="//m:net").checkpoint("net.pt")
    assert caught.value.what == (
        f'//m:net: {path}: a pickle that would run code: it names "{name}".'
    )
    assert "safetensors.torch.save_file" in caught.value.hint
    # The test would fail if nothing could run.
    torch.load(path, weights_only=False)
    assert hasattr(sys, "ran_from_a_file")
    del sys.ran_from_a_file


def test_a_whole_module_is_refused_by_the_name_of_its_class(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "net.pt")
    with pytest.raises(BuildError, match=r'it names "torch\.nn\.modules\.linear\.Linear"'):
        load_checkpoint(tmp_path / "net.pt")


def rewritten(path: Path, change: Callable[[str, bytes], bytes], **options: Any) -> None:
    """Writes an archive again, with other members."""
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)), **options)


def test_more_elements_than_there_are_bytes(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.save({"w": torch.zeros(300)}, path)
    # 300 as a pickle has it, to 65,000.
    rewritten(path, lambda name, data: data.replace(b"M\x2c\x01", b"M\xe8\xfd"))
    with pytest.raises(BuildError, match="has 1200 bytes, and its pickle says 65000 elements of 4"):
        load_checkpoint(path)


def test_a_tensor_that_is_larger_than_its_storage(tmp_path: Path) -> None:
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.zeros(1))

    path = tmp_path / "net.jit"
    torch.jit.script(Holder()).save(path)
    # Its shape, a tuple of one: (1,) to (2^31 - 1,).
    shape = b"K\x00(K\x01t"
    rewritten(path, lambda name, data: data.replace(shape, b"K\x00(J\xff\xff\xff\x7ft"))
    with pytest.raises(BuildError, match=r"has the shape \(2147483647,\)"):
        load_checkpoint(path)


def test_an_archive_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.save({"w": torch.zeros(300)}, path)
    rewritten(path, lambda name, data: data, compress_type=zipfile.ZIP_DEFLATED)
    with pytest.raises(BuildError, match=r'"net/data\.pkl" is compressed'):
        load_checkpoint(path)


def test_a_member_that_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.save({"w": torch.zeros(3)}, path)
    with pytest.warns(UserWarning), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("net/data.pkl", b"other")
    with pytest.raises(BuildError, match=r'it has "net/data\.pkl" twice'):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "not a checkpoint: it begins with b''"),
        (b"\x7fELF" + bytes(20), "not a checkpoint: it begins with b'.x7fELF"),
        (b"GGUF" + bytes(20), "a GGUF file, which load_checkpoint does not read"),
        (b"PK\3\4", "a damaged checkpoint: it is not a complete zip archive"),
        (b"\x80\2garbage", "a damaged checkpoint: "),
        (b"\x08\0\0\0\0\0\0\0{garbage", "a damaged safetensors file: "),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f{}", "a damaged safetensors file: "),
        (b'\x20\0\0\0\0\0\0\0{"a":{"dtype":"F32"' + b"[" * 99, "a damaged safetensors file: "),
    ],
)
def test_other_files(tmp_path: Path, contents: bytes | None, message: str) -> None:
    path = tmp_path / "net.pt"
    if contents is not None:
        path.write_bytes(contents)
    with pytest.raises(BuildError, match=message) as caught:
        load_checkpoint(path)
    assert caught.value.what.startswith(f"{path}: ")
    assert "\n" not in caught.value.what


@pytest.mark.parametrize("script", [False, True])
def test_every_truncation_is_noticed(tmp_path: Path, script: bool) -> None:
    path = tmp_path / "net.pt"
    if script:
        torch.jit.script(Net()).save(path)
    else:
        torch.save(Net().state_dict(), path)
    whole = path.read_bytes()
    for length in range(4, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(BuildError, match=r"net\.pt: "):
            load_checkpoint(path)
