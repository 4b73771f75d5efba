"""The weight cache saves memory, and is refused if it would give wrong results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.integration.runner.runner_process import (
    PROGRAMS,
    contents,
    program_in,
    rewrite_data,
    run,
    write_adapter_manifest,
    write_manifest,
)

Copied = Callable[[str], Path]


def with_manifest(
    program: Path, packed: Mapping[str, str] | None = None, unsafe: str = ""
) -> list[str | Path]:
    data = program.with_suffix(".ptd")
    manifest = program.with_suffix(".manifest.json")
    write_manifest(manifest, program, [data] if data.exists() else [], by_name=False, unsafe=unsafe)
    value = json.loads(manifest.read_text())
    if packed is not None:
        program_in(value)["weight_cache"]["packed"] = packed
    elif not unsafe:
        del program_in(value)["weight_cache"]
    manifest.write_text(json.dumps(value))
    return ["--program", program, "--manifest", manifest]


def without_manifest(program: Path) -> list[str | Path]:
    data = program.with_suffix(".ptd")
    return ["--program", program, *(["--data", data] if data.exists() else [])]


def test_unsafe_cache_is_refused(copied: Copied) -> None:
    reason = "layers a and b have equal weights and different scales"
    program = with_manifest(copied("xnnpack"), unsafe=reason)
    assert run(*program).code == 0
    result = run(*program, "--weight_cache")
    assert result.code == 1
    assert f"--weight_cache is unsafe for //example:xnnpack: {reason}" in result.error


def test_safe_cache(copied: Copied) -> None:
    result = run(*with_manifest(copied("xnnpack"), {}), "--weight_cache", "--json")
    assert result.code == 0, result.error
    assert result.report["weight_cache"] is True


def test_without_a_manifest_nobody_knows(copied: Copied) -> None:
    program = copied("scaled_2")
    result = run(*without_manifest(program), "--weight_cache")
    assert result.code == 1
    expected = (
        f"--weight_cache may be unsafe for {program}: no manifest says how its weights are packed"
    )
    assert expected in result.error
    assert run(*without_manifest(program)).code == 0


@pytest.mark.parametrize("other", ["scaled_4", "scaled_4_embedded"])
def test_equal_integers_with_other_scales(other: str, copied: Copied, tmp_path: Path) -> None:
    programs = [without_manifest(copied("scaled_2")), without_manifest(copied(other))]
    outputs = [tmp_path / "a", tmp_path / "b"]
    both = [*programs[0], "--output", outputs[0], *programs[1], "--output", outputs[1]]
    assert run(*both).code == 0
    first, second = (np.load(folder / "output_0.npy") for folder in outputs)
    assert first.any()
    np.testing.assert_allclose(2 * first, second, rtol=1e-5)
    linked = [["--program", PROGRAMS / f"{name}.pte"] for name in ("scaled_2", other)]
    result = run(*linked[0], *linked[1], "--weight_cache")
    assert result.code == 1
    assert "together: they pack " in result.error


def test_on_where_manifests_prove_it_safe(copied: Copied) -> None:
    paths = [copied("scaled_2"), copied("scaled_4")]

    def is_on(*packed: Mapping[str, str] | None, flags: Sequence[str] = ()) -> bool:
        listed = zip(paths, packed, strict=True)
        programs = [part for path, of in listed for part in with_manifest(path, of)]
        result = run(*programs, *flags, "--json")
        assert result.code == 0, result.error
        return result.report["weight_cache"]

    assert is_on({"w": "1"}, {"v": "2"})
    assert not is_on({"w": "1"}, {"v": "2"}, flags=["--no_weight_cache"])
    # In different ways; nobody knows how.
    assert not is_on({"w": "1"}, {"w": "2"})
    assert not is_on({"w": "1"}, None)


def test_off_where_a_program_alone_is_unsafe_or_unknown(copied: Copied) -> None:
    unsafe = with_manifest(copied("xnnpack"), packed={}, unsafe="a and b have equal weights")
    assert run(*unsafe, "--json").report["weight_cache"] is False
    unknown = without_manifest(copied("scaled_2"))
    assert run(*unknown, "--json").report["weight_cache"] is False


def test_both_flags() -> None:
    result = run("--weight_cache", "--no_weight_cache", "--list")
    assert result.code == 1
    assert "--weight_cache and --no_weight_cache exclude each other" in result.error


def test_equal_programs_share() -> None:
    program = ["--program", PROGRAMS / "scaled_2.pte"]
    assert run(*program, *program, "--weight_cache").code == 0


def test_manifests_that_list_what_is_packed_decide(copied: Copied) -> None:
    paths = [copied("scaled_2"), copied("scaled_4")]
    unequal = [*with_manifest(paths[0], {"w": "1"}), *with_manifest(paths[1], {"w": "2"})]
    result = run(*unequal, "--weight_cache")
    assert result.code == 1
    assert 'they pack "w" in different ways' in result.error
    # Synthetic: real manifests of these two would be unequal.
    equal = [*with_manifest(paths[0], {"w": "1"}), *with_manifest(paths[1], {"v": "2"})]
    assert run(*equal, "--weight_cache").code == 0


@pytest.mark.parametrize("contains_it", [True, False])
def test_what_is_packed_of_another_adapter(
    contains_it: bool, copied: Copied, tmp_path: Path
) -> None:
    """An adapter's bias or scale is packed, too, with the same name as another adapter's."""
    program = copied("portable")
    data = program.with_suffix(".ptd")
    manifest = tmp_path / "p.manifest.json"
    write_manifest(manifest, program, [data], adapter=True)
    key = sorted(contents(data))[0]
    value = json.loads(manifest.read_text())
    cache = program_in(value)["weight_cache"]
    cache["packed"] = {"base": "1"}
    if contains_it:
        cache["of_adapter"] = {"base": [key]}
    manifest.write_text(json.dumps(value))
    other = tmp_path / "other.ptd"
    zeros = {k: bytes(len(v)) for k, v in contents(data).items()}
    rewrite_data(data, other, zeros)
    write_adapter_manifest(other)
    one = ["--program", program, "--manifest", manifest]
    result = run(*one, *one, "--data", other, "--weight_cache")
    if not contains_it:
        assert result.code == 0, result.error
    else:
        assert 'they pack "base" in different ways' in result.error
