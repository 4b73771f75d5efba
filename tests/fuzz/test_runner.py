"""The runner's readers, built with sanitizers: known hostile files, and generated ones."""

from __future__ import annotations

import random
import resource
import struct
from pathlib import Path

import pytest

from tests.fuzz import runner_files
from tests.fuzz.runner import fuzz, read

# A seed stands for 50 files, or for one tokenizer: the same ones each time.
_SEEDS = 10
_TOKENIZERS = 80
_MOST_MB = 2048


@pytest.mark.parametrize("kind", [*runner_files.KINDS, "payload"])
def test_known_cases(kind: str, tmp_path: Path) -> None:
    known = [*runner_files.cases(), *runner_files.payloads()]
    chosen = [case for case in known if case.kind == kind]
    paths = [tmp_path / case.name for case in chosen]
    for path, case in zip(paths, chosen, strict=True):
        path.write_bytes(case.data)
    reading = read(kind, paths)
    assert not reading.problem
    refused = 0
    for case, line in zip(chosen, reading.lines, strict=True):
        # Some are found later, when the files are compared with each other.
        assert case.expected in line or line == "good", (case.name, line[:500])
        refused += line != "good"
    assert refused >= len(chosen) / 2
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024 < _MOST_MB


def test_generated(tmp_path: Path) -> None:
    said, failed = fuzz(runner_files.KINDS, 1, 0, tmp_path, _SEEDS)
    assert not failed
    tokenizers, failed = fuzz(["tokenizer"], 1, 0, tmp_path, _TOKENIZERS)
    assert not failed
    # Generators that only make files of one sort would find nothing.
    few = {
        kind: sentences for kind, sentences in (said | tokenizers).items() if len(sentences) <= 3
    }
    assert not few


def test_changed_payloads(tmp_path: Path) -> None:
    numbers = random.Random(1)
    paths = [tmp_path / f"payload-{number}" for number in range(1000)]
    for path in paths:
        data = bytearray(runner_files.payload(["", "a.weight", "b", "a.weight"]))
        for _ in range(numbers.choice([1, 1, 2, 5])):
            struct.pack_into(
                "<i", data, numbers.randrange(len(data) - 3), numbers.randrange(-64, 64)
            )
        path.write_bytes(data)
    reading = read("payload", paths)
    assert not reading.problem
    assert {line == "good" for line in reading.lines} == {True, False}


def test_a_failure_is_seen(tmp_path: Path) -> None:
    """A driver that ends before its last line."""
    assert "exit code 2: error: expected a kind" in read("nothing", [tmp_path]).problem
