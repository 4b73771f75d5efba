"""A program with several methods holds each weight once."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from etlink import pte, tables  # noqa: E402
from etlink.pte import ProgramFile  # noqa: E402

FOLDER = ROOT / "models"


def program(name: str) -> ProgramFile:
    """A program that was built for this test."""
    return pte.read(Path(os.path.realpath(FOLDER / f"{name}.pte")))


def segment(file: ProgramFile, index: int) -> bytes:
    """The bytes of a segment."""
    offset, size = file.segments[index]
    return file.path.read_bytes()[offset : offset + size]


def named_data(file: ProgramFile) -> dict[str, str]:
    """sha256 of each weight of the backends by its key."""
    return {
        tables.text(entry.key): hashlib.sha256(segment(file, entry.segmentIndex)).hexdigest()
        for entry in file.program.namedData
    }


def constants(file: ProgramFile) -> list[str]:
    """sha256 of each constant of the portable kernels; the first one is a place holder."""
    part = file.program.constantSegment
    data = segment(file, part.segmentIndex)
    sizes, starts = tables.constant_sizes(file.program), [int(n) for n in part.offsets]
    return [
        hashlib.sha256(data[start : start + sizes[number]]).hexdigest()
        for number, start in enumerate(starts)
        if number
    ]


def methods(file: ProgramFile) -> dict[str, dict]:
    """The methods in the tables, without constant methods."""
    described = tables.describe_methods(file.program)
    return {method["name"]: method for method in described if method["delegates"]}


def test_each_weight_is_there_once() -> None:
    """Three methods with the same weights, each stored once."""
    one, several = program("llama_tiny_xnnpack"), program("llama_tiny_methods_xnnpack")
    assert set(methods(one)) == {"forward"}
    assert set(methods(several)) == {"decode", "prefill_32", "prefill_128"}
    weights = named_data(several)
    assert len(weights) > 20
    assert len(set(weights.values())) == len(weights)
    assert weights == named_data(one)
    assert len(set(constants(several))) == len(constants(several))
    sizes = [file.path.stat().st_size for file in (one, several)]
    assert sizes[0] < sizes[1] < 1.03 * sizes[0]


def test_all_methods_have_the_cache_in_memory_that_they_share() -> None:
    """Keys and values of 2 layers, 256 positions, 3 heads of 64 float32, in a third arena."""
    listed = methods(program("llama_tiny_methods_xnnpack")).values()
    assert [method["memory"][2] for method in listed] == [2 * 2 * 256 * 3 * 64 * 4] * 3
    alone = methods(program("llama_tiny_xnnpack"))["forward"]
    assert len(alone["memory"]) == 2
