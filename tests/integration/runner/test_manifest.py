"""Manifests: differences are reported before anything is loaded."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from etlink import ptd

from tests.integration.runner.runner_process import (
    contents,
    rewrite_data,
    run,
    sha256,
    write_adapter_manifest,
    write_manifest,
)

Copied = Callable[[str], Path]


def manifest_of(program: Path, **options: Any) -> Path:
    data = [program.with_suffix(".ptd")]
    return write_manifest(program.with_suffix(".manifest.json"), program, data, **options)


def changed(value: bytes) -> bytes:
    """Replaces weights with other finite floats."""
    return (np.frombuffer(value, np.float32) + 1).astype(np.float32).tobytes()


def some_key(path: Path) -> str:
    return sorted(contents(path))[0]


def edit(manifest: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(manifest.read_text())
    change(value)
    manifest.write_text(json.dumps(value))


@pytest.mark.parametrize("verify", [[], ["--verify"]])
@pytest.mark.parametrize("name", ["xnnpack", "portable"])
def test_data_is_found_beside_the_program(name: str, verify: list[str], copied: Copied) -> None:
    program = copied(name)
    manifest = manifest_of(program, by_name=name == "portable")
    result = run("--program", program, "--manifest", manifest, *verify, "--json")
    assert result.code == 0, result.error
    assert result.report["programs"][0]["data"] == [str(program.with_suffix(".ptd"))]


def test_data_is_matched_by_keys(copied: Copied, tmp_path: Path) -> None:
    program = copied("portable")
    manifest = manifest_of(program)
    other = tmp_path / "renamed.ptd"
    program.with_suffix(".ptd").rename(other)
    missing = run("--program", program, "--manifest", manifest)
    assert "portable.ptd is missing: //example:portable needs" in missing.error
    result = run("--program", program, "--manifest", manifest, "--data", other)
    assert result.code == 0, result.error


def test_data_of_another_program_is_refused(copied: Copied) -> None:
    program = copied("portable")
    other = copied("xnnpack").with_suffix(".ptd")
    result = run("--program", program, "--manifest", manifest_of(program), "--data", other)
    assert "is not a data file of //example:portable (portable.ptd)" in result.error


def test_wrong_bytes_under_a_name_are_refused(copied: Copied) -> None:
    program = copied("portable")
    manifest = manifest_of(program)
    data = program.with_suffix(".ptd")
    key = some_key(data)
    other = changed(contents(data)[key])
    rewrite_data(data, data, {key: other})
    result = run("--program", program, "--manifest", manifest)
    assert f'its key "{key}" has other bytes than when it was built' in result.error
    manifest.unlink()
    assert run("--program", program, "--data", data).code == 0, "the runtime notices nothing"


def test_verify_hashes_keys_that_are_hashes(copied: Copied) -> None:
    program = copied("xnnpack")
    manifest = manifest_of(program, by_name=False)
    data = program.with_suffix(".ptd")
    key = some_key(data)
    other = changed(contents(data)[key])
    rewrite_data(data, data, {key: other})
    result = run("--program", program, "--manifest", manifest)
    assert f'its key "{key}" has other bytes than when it was built' in result.error

    def forge(m: Any) -> None:
        keys = m["files"][data.name]["keys"]
        next(k for k in keys if k["key"] == key)["crc32"] = zlib.crc32(other)

    edit(manifest, forge)
    assert run("--program", program, "--manifest", manifest).code == 0
    result = run("--program", program, "--manifest", manifest, "--verify")
    assert f'its key "{key}" has sha256 ' in result.error


def test_missing_key_and_wrong_size(copied: Copied) -> None:
    program = copied("xnnpack")
    manifest = manifest_of(program, by_name=False)
    data = program.with_suffix(".ptd")
    good = data.read_bytes()
    key = some_key(data)
    rewrite_data(data, data, {}, drop=[key])
    assert f'it has no key "{key}"' in run("--program", program, "--manifest", manifest).error
    data.write_bytes(good)
    rewrite_data(data, data, {key: contents(data)[key] + b"more"})
    result = run("--program", program, "--manifest", manifest)
    assert f'its key "{key}" has ' in result.error and " bytes, expected " in result.error


def test_program_of_another_build(copied: Copied) -> None:
    program = copied("embedded")
    manifest = write_manifest(program.with_suffix(".manifest.json"), program)
    assert run("--program", program, "--manifest", manifest, "--verify").code == 0
    edit(manifest, lambda m: m["files"][program.name].update(sha256="0" * 64))
    assert run("--program", program, "--manifest", manifest).code == 0
    hashed = run("--program", program, "--manifest", manifest, "--verify")
    assert f"has sha256 {sha256(program.read_bytes())}, " in hashed.error
    edit(manifest, lambda m: m["files"][program.name].update(size=7))
    result = run("--program", program, "--manifest", manifest)
    assert (
        f"has {program.stat().st_size} bytes" in result.error and ", expected 7 (" in result.error
    )


@pytest.fixture
def adapter(copied: Copied) -> tuple[list[str | Path], Path]:
    """Arguments of a program whose data is an adapter, and another adapter for it."""
    program = copied("portable")
    data = program.with_suffix(".ptd")
    manifest = manifest_of(program, adapter=True)
    other = program.with_name("other.ptd")
    rewrite_data(data, other, {key: changed(value) for key, value in contents(data).items()})
    return ["--program", program, "--manifest", manifest], other


def outputs(arguments: list[str | Path], folder: Path, *more: str | Path) -> np.ndarray:
    result = run(*arguments, "--output", folder, *more)
    assert result.code == 0, result.error
    return np.load(folder / "output_0.npy")


def test_other_adapter_stands_in(adapter: tuple[list[str | Path], Path], tmp_path: Path) -> None:
    arguments, other = adapter
    write_adapter_manifest(other)
    first = outputs(arguments, tmp_path / "first")
    second = outputs(arguments, tmp_path / "second", "--data", other)
    assert not np.allclose(first, second)
    again = outputs(arguments, tmp_path / "third", "--data", other, "--verify")
    np.testing.assert_array_equal(second, again)


def test_adapter_without_manifest(adapter: tuple[list[str | Path], Path]) -> None:
    arguments, other = adapter
    result = run(*arguments, "--data", other)
    assert "is not the adapter that //example:portable was built with" in result.error
    assert "other.manifest.json, which is missing" in result.error


def test_adapter_of_another_interface(adapter: tuple[list[str | Path], Path]) -> None:
    arguments, other = adapter
    write_adapter_manifest(other, "f" * 64)
    result = run(*arguments, "--data", other)
    assert "does not fit //example:portable: its program has other base weights" in result.error
    assert "other.manifest.json has another interface than that program" in result.error


def test_adapter_that_lacks_a_key(adapter: tuple[list[str | Path], Path]) -> None:
    arguments, other = adapter
    key = some_key(other)
    write_adapter_manifest(other, leave_out=[key])
    assert f'its manifest has no key "{key}"' in run(*arguments, "--data", other).error
    rewrite_data(other, other, {}, drop=[key])
    write_adapter_manifest(other)
    assert f'its manifest has no key "{key}"' in run(*arguments, "--data", other).error


def test_adapter_that_differs_from_its_manifest(adapter: tuple[list[str | Path], Path]) -> None:
    arguments, other = adapter
    write_adapter_manifest(other)
    key = some_key(other)
    rewrite_data(other, other, {key: changed(contents(other)[key])})
    result = run(*arguments, "--data", other)
    assert (
        f"is damaged, or not the adapter of {other.with_suffix('.manifest.json')}" in result.error
    )
    other.with_suffix(".manifest.json").write_text("[]")
    assert "is not a manifest" in run(*arguments, "--data", other).error


def test_another_adapter_of_the_same_name(
    adapter: tuple[list[str | Path], Path], tmp_path: Path
) -> None:
    arguments, other = adapter
    same = tmp_path / "other" / "portable.ptd"
    same.parent.mkdir()
    other.rename(same)
    its = write_adapter_manifest(same, label="//example:other")
    assert run(*arguments, "--data", same, "--verify").code == 0
    # Its manifest says what it should hold, even where it has the bytes of the program's own.
    own = Path(arguments[1]).with_suffix(".ptd")
    same.write_bytes(own.read_bytes())
    result = run(*arguments, "--data", same, "--verify")
    assert f"is damaged, or not the adapter of {its}" in result.error


def test_two_files_of_one_name_in_any_order(copied: Copied, tmp_path: Path) -> None:
    program = copied("xnnpack")
    data = program.with_suffix(".ptd")
    keys = sorted(ptd.read(data))
    parts = [tmp_path / folder / "task.ptd" for folder in "ab"]
    for part, left_out in zip(parts, (keys[:2], keys[2:]), strict=True):
        part.parent.mkdir()
        rewrite_data(data, part, {}, drop=left_out)
    manifest = write_manifest(program.with_suffix(".manifest.json"), program, parts)
    for first, second in (parts, parts[::-1]):
        given = ["--data", first, "--data", second]
        result = run("--program", program, "--manifest", manifest, *given, "--json")
        assert result.code == 0, result.error
        assert result.report["programs"][0]["data"] == [str(part) for part in parts]


def test_only_adapters_can_be_replaced(copied: Copied) -> None:
    program = copied("portable")
    data = program.with_suffix(".ptd")
    manifest = manifest_of(program)
    other = program.with_name("other.ptd")
    rewrite_data(data, other, {key: changed(value) for key, value in contents(data).items()})
    write_adapter_manifest(other)
    result = run("--program", program, "--manifest", manifest, "--data", other)
    assert "is damaged, or not the data that //example:portable was built with" in result.error


def test_weights_in_two_files(copied: Copied, tmp_path: Path) -> None:
    program = copied("xnnpack")
    data = program.with_suffix(".ptd")
    expected = outputs(["--program", program, "--data", data], tmp_path / "wanted")
    keys = sorted(ptd.read(data))
    parts = [tmp_path / "a.ptd", tmp_path / "b.ptd"]
    for part, left_out in zip(parts, (keys[:2], keys[2:]), strict=True):
        rewrite_data(data, part, {}, drop=left_out)
    data.unlink()
    manifest = write_manifest(program.with_suffix(".manifest.json"), program, parts)
    got = outputs(["--program", program, "--manifest", manifest, "--verify"], tmp_path / "got")
    np.testing.assert_array_equal(got, expected)
    parts[1].unlink()
    assert "b.ptd is missing" in run("--program", program, "--manifest", manifest).error


def test_a_wrong_manifest(copied: Copied) -> None:
    """tests/manifest has all kinds."""
    program = copied("xnnpack")
    manifest = manifest_of(program)
    edit(manifest, lambda m: m["files"][program.name].update(size="7"))
    result = run("--program", program, "--manifest", manifest)
    assert (result.code, '"size" is missing or not of type number' in result.error) == (1, True)


def test_a_manifest_of_several_programs(copied: Copied) -> None:
    """The program is the one with the file's name."""
    program = copied("xnnpack")
    manifest = manifest_of(program)

    def add(m: Any) -> None:
        m["files"]["other.pte"] = {"size": 1}
        m["programs"]["a"] = {"label": "//example:a", "file": "other.pte"}

    edit(manifest, add)
    assert run("--program", program, "--manifest", manifest).code == 0
    renamed = program.rename(program.with_name("renamed.pte"))
    error = run("--program", renamed, "--manifest", manifest).error
    assert f"{manifest} has no program renamed.pte" in error


def test_a_manifest_before_the_program(copied: Copied) -> None:
    program = copied("xnnpack")
    result = run("--manifest", manifest_of(program), "--program", program)
    assert "--manifest stands before the first --program, which it must follow" in result.error


def test_a_programs_manifest_as_an_app(copied: Copied) -> None:
    program = copied("portable")
    result = run("--app", manifest_of(program), "--json")
    assert result.code == 0, result.error
    assert [p["name"] for p in result.report["programs"]] == ["portable"]


def test_verify_needs_a_manifest(copied: Copied) -> None:
    program = copied("embedded")
    assert "--verify needs a --manifest" in run("--program", program, "--verify").error


def test_missing_manifest(copied: Copied) -> None:
    program = copied("embedded")
    result = run("--program", program, "--manifest", program.with_name("none.json"))
    assert "none.json cannot be opened" in result.error
