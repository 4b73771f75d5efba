"""Files that are missing, ambiguous, cut off or changed; outputs that can't be written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from exporter_process import PORTABLE, Exporter, flags


def _cut(contents: bytes) -> bytes:
    return contents[: len(contents) // 2]


def _one_bit_changed(contents: bytes) -> bytes:
    place = len(contents) // 2
    return contents[:place] + bytes([contents[place] ^ 1]) + contents[place + 1 :]


def test_ambiguous_and_unknown_file(exporter: Exporter, tmp_path: Path) -> None:
    """Two files of one name; a name that no file has."""
    (tmp_path / "weights.bin").write_bytes(b"")
    data = [f"--data=_main/{f}/weights.bin={tmp_path / 'weights.bin'}" for f in ("a", "b")]
    said = exporter.refuse(flags(tmp_path / "out", "faulty:ambiguous_file", PORTABLE, *data))
    assert '"weights.bin" is ambiguous: a/weights.bin, b/weights.bin' in said
    said = exporter.refuse(flags(tmp_path / "out", "faulty:missing_file", PORTABLE, *data))
    assert "Available: a/weights.bin, b/weights.bin" in said


def test_truncated_gguf(exporter: Exporter, tmp_path: Path) -> None:
    """A download that ended early, read by the models' own code: its name, expected and found."""
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", np.zeros((64, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.write_bytes(path.read_bytes()[:-1000])
    data = f"--data=_main/model.gguf={path}"
    said = exporter.refuse(flags(tmp_path / "out", "faulty:llama", PORTABLE, data))
    assert "model.gguf: the file is truncated: its tensors need" in said
    assert f"found {path.stat().st_size}" in said


@pytest.mark.parametrize("contents", [b"", b"PK\x03\x04", b"GGUF\x03\x00\x00\x00" + bytes(8)])
def test_no_gguf(exporter: Exporter, tmp_path: Path, contents: bytes) -> None:
    """A file of another kind, or one without a header."""
    (tmp_path / "model.gguf").write_bytes(contents)
    data = f"--data=_main/model.gguf={tmp_path / 'model.gguf'}"
    said = exporter.refuse(flags(tmp_path / "out", "faulty:llama", PORTABLE, data))
    assert "model.gguf: expected a " in said


class _Runs:
    """A value whose pickle makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return (open, (str(self._path), "w"))


def test_a_checkpoint_that_would_run_code(exporter: Exporter, tmp_path: Path) -> None:
    """A pickle is data: what it would call is named, and not called."""
    path, marker = tmp_path / "net.pt", tmp_path / "made_by_a_pickle"
    net = torch.nn.Linear(8, 4)
    data = f"--data=_main/net.pt={path}"
    torch.save(net.state_dict(), path)
    request = flags(tmp_path / "whole", "faulty:checkpoint", PORTABLE, data)
    assert exporter.ask(request)["exitCode"] == 0
    torch.save({**net.state_dict(), "more": _Runs(marker)}, path)
    said = exporter.refuse(flags(tmp_path / "out", "faulty:checkpoint", PORTABLE, data))
    assert "net.pt: a pickle that would run code: it names" in said
    assert "safetensors.torch.save_file" in said
    assert not marker.exists()


def test_an_endless_gguf(exporter: Exporter, tmp_path: Path) -> None:
    """An array that is said to have 2^60 elements."""
    key = b"general.name"
    array = struct.pack("<IIQ", 9, 0, 1 << 60)
    header = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, len(key)) + key + array
    (tmp_path / "model.gguf").write_bytes(header)
    data = f"--data=_main/model.gguf={tmp_path / 'model.gguf'}"
    said = exporter.refuse(flags(tmp_path / "out", "faulty:llama", PORTABLE, data))
    assert "it names 1152921504606846976 elements of an array at byte" in said


def test_unwritable_output(exporter: Exporter, tmp_path: Path) -> None:
    """An output below something that is no folder."""
    (tmp_path / "file").write_text("")
    said = exporter.refuse(flags(tmp_path / "file/out", "faulty:good", PORTABLE))
    assert f"Cannot write to {tmp_path / 'file'}" in said
    assert "Check the permissions" in said
