"""Programs on one foundation in one process, with the manifests that the linker wrote."""

from __future__ import annotations

import json
import random
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.integration.runner.runner_process import run, sha256

TASKS = Path("models/tasks").absolute()
OWN = Path("tests/integration/runner").absolute()


def arguments(folder: Path, program: str, adapter: str = "") -> list[str | Path]:
    """A group of the command line: a program, its adapter and the foundation."""
    files: list[str | Path] = ["--program", folder / f"tiny_int4_{program}.pte"]
    if adapter:
        files += ["--data", folder / f"tiny_int4_{adapter}.ptd"]
    return [*files, "--data", folder / "tiny_int4_foundation.ptd"]


BASE = arguments(TASKS, "base")
ASSISTANT = arguments(TASKS, "assistant", "assistant")
# The same program with the other task's file.
SUMMARIZER = arguments(TASKS, "assistant", "summarizer")
# The other task's own program, with either file.
OTHERS = [arguments(TASKS, "summarizer", adapter) for adapter in ("summarizer", "assistant")]


def outputs(*groups: list[str | Path], flags: list[str], folder: Path) -> list[np.ndarray]:
    """First output of each program."""
    words: list[str | Path] = [*flags]
    for number, group in enumerate(groups):
        words += [*group, "--output", folder / str(number)]
    result = run(*words)
    assert result.code == 0, result.error
    return [np.load(folder / str(n) / "output_0.npy") for n in range(len(groups))]


def test_a_base_and_its_tasks(tmp_path: Path) -> None:
    base, assistant, summarizer = outputs(BASE, ASSISTANT, SUMMARIZER, flags=[], folder=tmp_path)
    assert base.any()
    for one, two in ((base, assistant), (base, summarizer), (assistant, summarizer)):
        assert not np.array_equal(one, two)


def test_the_weight_cache_shares_the_foundation(tmp_path: Path) -> None:
    plain = outputs(BASE, ASSISTANT, flags=["--no_weight_cache"], folder=tmp_path / "plain")
    cached = outputs(BASE, ASSISTANT, flags=["--weight_cache"], folder=tmp_path / "cached")
    for one, two in zip(plain, cached, strict=True):
        np.testing.assert_array_equal(one, two)
    added = []
    for flags in (["--no_weight_cache"], []):
        report = run("--json", *flags, *BASE, *ASSISTANT).report
        first, second = (p["memory_after_load"]["anonymous_bytes"] for p in report["programs"])
        added.append(second - first)
    # The foundation's 4-bit weights of two layers and the head.
    assert added[0] - added[1] > 15_000_000, added


@pytest.mark.parametrize("flags", [[], ["--weight_cache"]])
def test_adapters_of_one_name_share_the_foundation(flags: list[str], tmp_path: Path) -> None:
    groups = [BASE, ASSISTANT, SUMMARIZER, *OTHERS]
    plain = outputs(*groups, flags=["--no_weight_cache"], folder=tmp_path / "plain")
    cached = outputs(*groups, flags=flags, folder=tmp_path / "cached")
    for one, two in zip(plain, cached, strict=True):
        np.testing.assert_array_equal(one, two)
    _, assistant, summarizer, *others = cached
    np.testing.assert_array_equal(others, [summarizer, assistant])
    assert not np.array_equal(assistant, summarizer)
    report = run("--json", *flags, *[word for group in groups for word in group]).report
    assert report["weight_cache"] is True
    first, *_, last = (p["memory_after_load"]["anonymous_bytes"] for p in report["programs"])
    # Four tasks add less than one fifth of what packing the foundation once takes.
    assert last - first < first / 5


def test_a_damaged_payload_is_refused(tmp_path: Path) -> None:
    for source in TASKS.glob("tiny_int4_assistant.*"):
        shutil.copyfile(source, tmp_path / source.name)
    program, manifest = (tmp_path / f"tiny_int4_assistant.{s}" for s in ("pte", "manifest.json"))
    data = bytearray(program.read_bytes())
    # Size of the payload's tables, behind its magic, a length and an offset.
    struct.pack_into("<I", data, data.index(b"XH00") + 10, 0xFFFFFFF0)
    program.write_bytes(data)
    value = json.loads(manifest.read_text())
    # As of whoever writes a malformed file.
    value["files"][program.name].update(sha256=sha256(data), crc32=zlib.crc32(data))
    manifest.write_text(json.dumps(value))
    group = arguments(tmp_path, "assistant", "assistant")[:4]
    result = run(*group, *BASE[2:], *SUMMARIZER)
    assert result.code == 1
    assert "cannot be loaded: the program is damaged, or of another version" in result.error


@pytest.mark.parametrize("program", ["twins_int8_dynamic", "twins_int8_static"])
def test_the_cache_is_refused_for_equal_integers_with_other_scales(program: str) -> None:
    group = ["--program", OWN / f"{program}.pte"]
    assert run(*group).code == 0
    result = run("--weight_cache", *group)
    assert result.code == 1
    assert "first.weight and second.weight have equal bytes" in result.error


def test_another_foundation_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "tiny_int4_foundation.ptd"
    shutil.copyfile(TASKS / "tiny_fp32_foundation.ptd", other)
    result = run(*BASE[:3], other)
    assert result.code == 1
    assert "it has no key" in result.error


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_bit_of_the_foundation_is_refused(seed: int, tmp_path: Path) -> None:
    source = TASKS / "tiny_int4_foundation.ptd"
    other = tmp_path / source.name
    shutil.copyfile(source, other)
    # Behind the tables; padding between segments may hold anything.
    place = random.Random(seed).randrange(1 << 20, source.stat().st_size)
    with open(other, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1 << seed]))
    result = run(*BASE[:3], other)
    assert result.code == 1
    assert "has other bytes than when it was built" in result.error


def test_a_truncated_foundation_is_refused(tmp_path: Path) -> None:
    source = TASKS / "tiny_int4_foundation.ptd"
    other = tmp_path / source.name
    with open(source, "rb") as file:
        other.write_bytes(file.read(source.stat().st_size // 2))
    assert run(*BASE[:3], other).code == 1
