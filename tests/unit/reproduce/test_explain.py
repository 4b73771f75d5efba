"""Differences between two files are named."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch
from etcli.files.explain import MOST, explain
from etcli.reproduce.build import Output
from etcli.reproduce.command import compare
from etfast import path as fast_path
from etlink import ptd
from etlink.container import Piece, sha256_of
from etlink.data_file import describe_key
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower


def pair(folder: Path, name: str, one: bytes, other: bytes) -> tuple[Path, Path]:
    """Two files of one name."""
    paths = folder / "1" / name, folder / "2" / name
    for path, data in zip(paths, (one, other), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return paths


def zipped(*members: tuple[str, bytes], minute: int = 0) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, minute, 0)), data)
    return out.getvalue()


def tarred(*members: tuple[str, bytes], time: int = 0) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), time
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue(), mtime=0)


def data_file(path: Path, **values: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    with open(path, "wb") as out:
        pieces = {k: Piece.of(v) for k, v in values.items()}
        ptd.write(out, [(describe_key(k, piece, None), piece) for k, piece in pieces.items()])
    return path


def program(path: Path, delegated: bool, weight: float, cut: float = 6.0) -> Path:
    """A linear layer and a clamp."""
    torch.manual_seed(0)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.clamp(self.linear(x), 0.0, cut)

    net = Net().eval()
    with torch.no_grad():
        net.linear.weight[1, 2] = weight
    exported = torch.export.export(net, (torch.zeros(3, 4),))
    partitioners = [XnnpackPartitioner()] if delegated else []
    with fast_path.chosen("fast"):
        edge = to_edge_transform_and_lower(exported, partitioner=partitioners)
        manager = edge.to_executorch()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(manager.buffer)
    return path


@pytest.mark.parametrize(
    ("name", "one", "other", "expected"),
    [
        ("a.bin", b"\0abcdef", b"\0abcxef", ["from byte 4 on: 64 65 66 and 78 65 66"]),
        ("a.bin", b"\0abc", b"\0abcd", ["4 bytes and 5 bytes"]),
        ("a.txt", b"x\ny\n", b"x\nz\n", ["line 2: 'y' and 'z'"]),
        ("a.txt", b"x\n", b"x\ny\n", ["1 lines and 2 lines"]),
        (
            "a.json",
            b'{"a": [1, 2]}',
            b'{"a": [1, 3], "b": 0}',
            ["$.a[1]: 2 and 3", "$.b: only the"],
        ),
        ("a.json", b'{"a": 1}', b'{"a":  1}', ["the values are equal; white space"]),
        ("a.zip", zipped(("m", b"1")), zipped(("m", b"1"), minute=2), ["m: modification time is"]),
        (
            "a.zip",
            zipped(("m", b"\0"), ("n", b"")),
            zipped(("n", b""), ("m", b"\0")),
            ["the members are the same in another order: m where the second has n"],
        ),
        (
            "a.tar.gz",
            tarred(("in.zip", zipped(("deep", b"\0a")))),
            tarred(("in.zip", zipped(("deep", b"\0b")))),
            ["in.zip: deep: from byte 1 on: 61 and 62"],
        ),
        (
            "a.zip",
            zipped(("..", b"\0a")),
            zipped(("..", b"\0b")),
            ["..: from byte 1 on: 61 and 62"],
        ),
        (
            "a.zip",
            zipped(("x" * 300, b"\0a")),
            zipped(("x" * 300, b"\0b")),
            ["x" * 300 + ": from byte 1 on: 61 and 62"],
        ),
        (
            "a.tar.gz",
            tarred(("m", b"1")),
            tarred(("m", b"1"), time=9),
            ["m: modification time is 0"],
        ),
        ("a.zip", b"PK\3\4 no zip", b"PK\3\4 no zap", ["it cannot be read as the zip file that"]),
    ],
)
def test_what_differs(
    name: str, one: bytes, other: bytes, expected: list[str], tmp_path: Path
) -> None:
    lines = explain(*pair(tmp_path, name, one, other))
    assert len(lines) >= len(expected)
    for line, start in zip(lines, expected, strict=False):
        assert line.startswith(start)


def test_not_more_than_one_reads(tmp_path: Path) -> None:
    one, other = ({str(n): n + more for n in range(99)} for more in (0, 1))
    lines = explain(*pair(tmp_path, "a.json", json.dumps(one).encode(), json.dumps(other).encode()))
    assert len(lines) == MOST + 1
    assert lines[-1] == "… and more"


def test_data_files(tmp_path: Path) -> None:
    one = data_file(tmp_path / "1" / "a.ptd", w=b"1234", v=b"same")
    other = data_file(tmp_path / "2" / "a.ptd", w=b"1294", v=b"same", x=b"new")
    lines = explain(one, other)
    assert lines[0] == "data 'w': from byte 2 on: 33 34 and 39 34"
    assert lines[1] == "data 'x': only the second has it"


def test_weights_of_portable_kernels(tmp_path: Path) -> None:
    one = program(tmp_path / "1" / "a.pte", False, 0.25)
    other = program(tmp_path / "2" / "a.pte", False, 0.5)
    (line,) = explain(one, other)
    assert line.startswith("constant ")
    assert "float32 [2, 4], value" in line
    assert "of the method 'forward'): from byte 26 on" in line


def test_weights_of_delegates(tmp_path: Path) -> None:
    one = program(tmp_path / "1" / "a.pte", True, 0.25)
    other = program(tmp_path / "2" / "a.pte", True, 0.5)
    lines = explain(one, other)
    # Delegated weights are keyed by their hash.
    assert lines[0].startswith("data '")
    assert "only the" in lines[0]
    assert any("XnnpackBackend 0: its payload" in line for line in lines)


def test_fields(tmp_path: Path) -> None:
    one = program(tmp_path / "1" / "a.pte", False, 0.25)
    other = program(tmp_path / "2" / "a.pte", False, 0.25, cut=7.0)
    (line,) = explain(one, other)
    assert line.startswith("program.executionPlan[0].values[")
    assert line.endswith("doubleVal: 6.0 and 7.0")


def test_folders(tmp_path: Path) -> None:
    pair(tmp_path, "same", b"1", b"1")
    one, other = pair(tmp_path, "changed", b"\0a", b"\0b")
    assert explain(one.parent, other.parent) == ["changed: from byte 1 on: 61 and 62"]
    other.write_bytes(b"\0a")
    assert sha256_of(one.parent) == sha256_of(other.parent)
    other.chmod(0o755)
    assert sha256_of(one.parent) != sha256_of(other.parent)
    assert explain(one.parent, other.parent) == ["changed: mode is plain and executable"]


def test_outputs_that_one_build_has(tmp_path: Path) -> None:
    one, other = pair(tmp_path, "a", b"1", b"1")
    first = {"bin/a": Output("//:a", one), "bin/b": Output("//:b", one)}
    (difference,) = compare(first, {"bin/a": Output("//:a", other)})
    assert (difference.label, difference.reasons) == ("//:b", ("only the first build has it",))
