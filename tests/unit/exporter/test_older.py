"""The table of older runtimes, and where their libraries look for others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from etlower import older
from etlower.arrays import of_torch
from etlower.outputs import largest_difference
from etlower.runs import Measured


def test_one_table() -> None:
    rows = [("1.5.1", Measured(2.0, 4_000_000, 1e-7)), ("1.4.1", Measured(largest=math.inf))]
    assert older.table(rows).splitlines() == [
        "ExecuTorch  largest difference  load ms  peak MB",
        "1.5.1                    1e-07      2.0      4.0",
        "1.4.1                      inf        -        -",
    ]


def test_python_names_come_before_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site/torch/lib").mkdir(parents=True)
    monkeypatch.setenv("ET_RUNTIME_ROOTS", f"{tmp_path / 'light'}:{tmp_path / 'site'}")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/given")
    here = Path.cwd()
    folders = [here / "lib", here / "python_names", tmp_path / "site/torch/lib", "/given"]
    environment = older.environment(["lib/libcore.so", "python_names/libpython.so"])
    assert environment == {"LD_LIBRARY_PATH": ":".join(map(str, folders))}


@pytest.mark.parametrize(
    ("got", "wanted", "largest"),
    [
        (torch.tensor([1.0, 4.0]), torch.tensor([1.5, 2.0]), 2.0),
        (torch.zeros(0), torch.zeros(0), 0.0),
        (torch.zeros(2), torch.zeros(3), math.inf),
        (3, 1.0, 2.0),
        (torch.tensor(3), 1, 2.0),
    ],
)
def test_largest_difference(got: Any, wanted: Any, largest: float) -> None:
    values = [of_torch(v) if isinstance(v, torch.Tensor) else v for v in (got, wanted)]
    assert largest_difference(*values) == largest
