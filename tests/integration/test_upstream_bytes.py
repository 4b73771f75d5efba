"""With embedded weights, a program has the bytes that upstream's API writes."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).absolute().parents[1] / "bench"
sys.path.insert(0, str(BENCH))

import plain  # noqa: E402
from eight_programs import EIGHT  # noqa: E402

# One of each kind of recipe; the rest is for `bazel test //tests:release`.
_OFTEN = (0, 1, 4, 6)
_NUMBERS = [
    pytest.param(number, marks=() if number in _OFTEN else pytest.mark.release)
    for number in range(len(EIGHT))
]


@pytest.mark.parametrize("number", _NUMBERS)
@pytest.mark.few(1)
def test_same_bytes(number: int, tmp_path: Path) -> None:
    """Each of the small programs against `executorch.export.export` in this process."""
    kind, width, recipe = EIGHT[number]
    output = tmp_path / "plain.pte"
    plain.export(kind, width, recipe, str(output))
    built = Path(os.path.realpath(BENCH / f"eight_{number}.pte"))
    assert _sha256(built) == _sha256(output)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
