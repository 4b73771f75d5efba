"""Expected memory of a request."""

from __future__ import annotations

import os
from pathlib import Path

from etlower.admission import BASE_BYTES, COPIES, Admission


def test_weights_count(tmp_path: Path) -> None:
    """Files of weights in the sandbox, not code and not missing files."""
    for name in ("a.gguf", "b.safetensors", "c.py"):
        os.truncate(tmp_path / name, 1000) if (tmp_path / name).exists() else (
            (tmp_path / name).write_bytes(bytes(1000))
        )
    inputs = [{"path": n} for n in ("a.gguf", "b.safetensors", "c.py", "missing.pt2")]
    request = {"inputs": inputs, "sandboxDir": str(tmp_path)}
    assert Admission(1).need(request) == BASE_BYTES + COPIES * 2000


def test_fits() -> None:
    """Up to the total, and some total without one."""
    assert Admission(100).fits(40, 60)
    assert not Admission(100).fits(41, 60)
    assert Admission().fits(0, 1)
