"""The record of what older versions have is what their wheels have."""

from __future__ import annotations

import os
from pathlib import Path

from update_inventories import merged


def test_the_record_is_of_the_wheels() -> None:
    files = [Path(file) for file in os.environ["INVENTORIES"].split()]
    assert len(files) > 1
    assert Path("toolchains/older/inventories.json").read_text() == merged(files)
