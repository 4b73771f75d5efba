"""Both readers of manifests make the same of the documents in cases.json, and refuse the same."""

from __future__ import annotations

import copy
import functools
import json
import operator
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError
from etlink import manifest
from etlink.declared_sizes import InputSizes
from etlink.manifest import File, Manifest, Program

READER = Path("tests/manifest/read_manifest").absolute()
CASES = json.loads(Path("tests/manifest/cases.json").read_text(encoding="utf-8"))

# What a document is read as, or the sentence that says why not.
Reader = Callable[[Path], "dict[str, Any] | str"]


def by_linker(path: Path) -> dict[str, Any] | str:
    """Reads with tools/etlink/manifest.py."""
    try:
        return described(manifest.read(path))
    except BuildError as error:
        return error.what


def by_runner(path: Path) -> dict[str, Any] | str:
    """Reads with tools/runner/files/manifest.cc."""
    done = subprocess.run([READER, path], capture_output=True, text=True, check=True)
    if done.stdout.startswith("error: "):
        return done.stdout.removeprefix("error: ")
    return json.loads(done.stdout)


def described(read: Manifest) -> dict[str, Any]:
    """A manifest as read_manifest.cc prints it."""
    return {
        "label": read.label,
        "files": {path: described_file(file) for path, file in read.files.items()},
        "programs": {
            name: described_program(program)
            for name, program in read.programs.items()
            if program.file in read.files
        },
        "variants": {
            name: [
                [v.program, [[c.fact, list(c.any_of), c.at_least, c.below] for c in v.conditions]]
                for v in variants
            ]
            for name, variants in read.variants.items()
        },
        "code": sorted(read.code()),
    }


def described_file(file: File) -> dict[str, Any]:
    """A file as read_manifest.cc prints it."""
    return {
        "label": file.label,
        "size": file.size,
        "sha256": file.sha256,
        "crc32": file.crc32,
        "keys": {d.key: [d.sha256, d.size, d.crc32, d.by_name] for d in file.keys},
    }


def described_program(program: Program) -> dict[str, Any]:
    """A program as read_manifest.cc prints it."""
    cache = program.weight_cache
    return {
        "label": program.label,
        "file": program.file,
        "data": list(program.data),
        "adapter": program.adapter,
        "interface": program.interface,
        "declared": {
            name: [described_sizes(given) for given in method.sizes]
            for name, method in program.methods.items()
            if method.sizes
        },
        "weight_cache": cache
        and {
            "reasons": list(cache.reasons),
            "packed": cache.packed,
            "of_adapter": {name: list(keys) for name, keys in cache.of_adapter.items()},
        },
    }


def described_sizes(given: InputSizes) -> dict[str, Any]:
    """Sizes of an input as read_manifest.cc prints them."""
    sizes = [[s.min, s.max, s.symbol, s.times, s.plus] for s in given.sizes]
    return {"input": given.input, "name": given.name, "sizes": sizes}


def names(cases: list[dict[str, Any]]) -> list[str]:
    """Names of cases, for pytest."""
    return [case["name"] for case in cases]


@pytest.mark.parametrize("reader", [by_linker, by_runner])
@pytest.mark.parametrize("case", CASES["good"], ids=names(CASES["good"]))
def test_good(case: dict[str, Any], reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(case["manifest"]))
    assert reader(path) == {"variants": {}, **case["expected"]}


def changed(case: dict[str, Any]) -> str:
    """The document of a bad case: the base with another value, or without one."""
    if "text" in case:
        return case["text"]
    document = copy.deepcopy(CASES["base"])
    *parents, last = case["at"]
    inner = functools.reduce(operator.getitem, parents, document)
    if "value" in case:
        inner[last] = case["value"]
    else:
        del inner[last]
    return json.dumps(document)


@pytest.mark.parametrize("reader", [by_linker, by_runner])
@pytest.mark.parametrize("case", CASES["bad"], ids=names(CASES["bad"]))
def test_bad(case: dict[str, Any], reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(CASES["base"]))
    assert not isinstance(reader(path), str), "without the change it is good"
    path.write_text(changed(case))
    result = reader(path)
    assert isinstance(result, str), "the document is taken"
    assert str(path) in result and case["word"] in result


@pytest.mark.parametrize("reader", [by_linker, by_runner])
def test_a_document_that_is_nested_deeply(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text('{"format": 1, "label": "x", "files": {}, "y": ' + "[" * 200_000)
    assert "nested too deeply" in str(reader(path))


def test_a_manifest_that_is_written_is_read_the_same(tmp_path: Path) -> None:
    for document in [CASES["base"], *(case["manifest"] for case in CASES["good"])]:
        (tmp_path / "one.json").write_text(json.dumps(document))
        read = manifest.read(tmp_path / "one.json")
        manifest.write(tmp_path / "two.json", read)
        assert manifest.read(tmp_path / "two.json") == read
        assert by_runner(tmp_path / "two.json") == by_runner(tmp_path / "one.json")
