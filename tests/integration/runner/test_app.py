"""The runner as part of an app: the app's files, and errors for a broken app."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.integration.runner.runner_process import PROGRAMS, Result, run, run_binary

ALL = {"methods", "portable", "types", "xnnpack"}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app that a test may edit."""
    folder = tmp_path / "app"
    shutil.copytree(PROGRAMS / "app", folder, copy_function=shutil.copy)
    for path in folder.rglob("*"):
        path.chmod(0o755)
    return folder


def start(app: Path, *arguments: str | Path) -> Result:
    return run_binary(app / "runner", *arguments, folder=Path("/"))


def edit(app: Path, change: Callable[[Any], None]) -> None:
    path = app / "manifest.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def without_methods(app: Path) -> None:
    """Omits the program without a method "forward"."""
    edit(app, lambda m: m["programs"].pop("methods"))


def test_all_programs_run(app: Path, tmp_path: Path) -> None:
    without_methods(app)
    report = start(app, "--json", "--output", tmp_path / "out").report
    ran = {p["name"]: p for p in report["programs"]}
    assert set(ran) == ALL - {"methods"}
    assert ran["xnnpack"]["data"] == [str(app / "data/xnnpack.ptd")]
    assert ran["types"]["data"] == []
    for name in ran:
        alone = tmp_path / "alone" / name
        data = PROGRAMS / f"{name}.ptd"
        words = [
            "--program",
            PROGRAMS / f"{name}.pte",
            *(["--data", data] if data.exists() else []),
        ]
        assert run(*words, "--output", alone).code == 0
        for expected in alone.iterdir():
            got = np.load(tmp_path / "out" / name / expected.name)
            np.testing.assert_array_equal(got, np.load(expected))


def test_programs_by_name_and_by_path(app: Path) -> None:
    other = PROGRAMS / "embedded.pte"
    report = start(app, "--program", "types", "--program", other, "--json").report
    assert [p["name"] for p in report["programs"]] == ["types", ""]
    method = start(app, "--program", "methods", "--method", "batch", "--json").report
    assert method["programs"][0]["method"] == "batch"


def test_a_file_by_path_needs_nothing_of_the_app(app: Path) -> None:
    (app / "manifest.json").write_text("{")
    shutil.rmtree(app / "data")
    assert start(app, "--program", PROGRAMS / "embedded.pte").code == 0


@pytest.mark.parametrize("verify", [[], ["--verify"]])
def test_another_runner_takes_the_app(app: Path, verify: list[str]) -> None:
    for option in (["--app", app], ["--app", app / "manifest.json"]):
        result = run(*option, "--program", "portable", *verify, "--json")
        assert result.code == 0, result.error
        assert result.report["programs"][0]["name"] == "portable"


def test_listing(app: Path) -> None:
    text = start(app, "--list").output
    assert (
        "types\n  forward(float32 (3), float64 (2, 2), int32 (4), int64 (1, 5), bool (3)) -> "
        in text
    )
    assert "methods\n  batch(float32 (4, 16)) -> float32 (4, 8)\n  one(" in text
    listed = {p["name"]: p for p in start(app, "--list", "--json").report["programs"]}
    assert set(listed) == ALL
    assert listed["xnnpack"]["methods"] == [
        {
            "name": "forward",
            "inputs": [{"name": "input_0", "kind": "tensor", "dtype": "float32", "shape": [2, 16]}],
            "outputs": [
                {"name": "output_0", "kind": "tensor", "dtype": "float32", "shape": [2, 8]}
            ],
        }
    ]
    assert start(app, "--list", "--program", "portable").output.startswith("portable\n  forward(")


def test_runtime_info(app: Path) -> None:
    info = start(app, "--runtime_info").report
    assert (
        info["version"] == json.loads((app / "manifest.json").read_text())["executorch"]["runtime"]
    )
    assert info["backends"] == ["XnnpackBackend"]
    assert "aten::logical_not.out" in info["operators"]
    assert {"OpenvinoBackend", "XnnpackBackend"} <= set(run("--runtime_info").report["backends"])


def test_unknown_names(app: Path) -> None:
    result = start(app, "--program", "typos")
    assert (
        'app has no program "typos"; its programs are: methods, portable, types, x' in result.error
    )
    assert '"types" is neither a file nor a program of an app' in run("--program", "types").error


def test_options_for_one_program(app: Path) -> None:
    result = start(app, "--input", "x.npy")
    assert "--input is for one program, and " in result.error
    edit(app, lambda m: m.update(programs={"methods": m["programs"]["methods"]}))
    report = start(app, "--method", "one", "--json").report
    assert report["programs"][0]["method"] == "one"


FILES = [
    "data/xnnpack.ptd",
    "manifest.json",
    "programs/xnnpack.pte",
]


@pytest.mark.parametrize("file", FILES)
def test_missing_and_truncated_files(app: Path, file: str) -> None:
    victim = app / file
    good = victim.read_bytes()
    for size in [0, 1, 40, len(good) // 2, len(good) - 2]:
        victim.write_bytes(good[:size])
        assert start(app, "--program", "xnnpack").code == 1, size
    victim.unlink()
    result = start(app, "--program", "xnnpack")
    assert result.code == 1
    if file != "manifest.json":
        assert f"{victim} is missing: it is part of the app " in result.error


@pytest.mark.parametrize("kind", ["programs/{}.pte", "data/{}.ptd"])
def test_swapped_files(app: Path, kind: str) -> None:
    one, two = (app / kind.format(name) for name in ("portable", "xnnpack"))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)

    # As if both had been rebuilt: sizes are right, and what is in them is not.
    def swap(manifest: Any) -> None:
        files = manifest["files"]
        names = [kind.format(name) for name in ("portable", "xnnpack")]
        files[names[0]], files[names[1]] = files[names[1]], files[names[0]]

    assert start(app, "--program", "xnnpack").code == 1
    edit(app, swap)
    assert start(app, "--program", "xnnpack").code == 1


@pytest.mark.parametrize("file", ["data/xnnpack.ptd", "programs/xnnpack.pte"])
def test_flipped_bits_are_found(app: Path, file: str) -> None:
    victim = app / file
    good = victim.read_bytes()
    generator = random.Random(file)
    codes = []
    for _ in range(40):
        changed = bytearray(good)
        changed[generator.randrange(len(good))] ^= 1 << generator.randrange(8)
        victim.write_bytes(changed)
        codes.append(start(app, "--program", "xnnpack").code)
        assert start(app, "--program", "xnnpack", "--verify").code == 1
    # Padding between a data file's weights may hold anything.
    assert all(codes) if file.endswith(".pte") else any(codes)


def test_verify_hashes_all_files(app: Path) -> None:
    asset = app / "assets/words.txt"
    assert start(app, "--program", "types", "--verify").code == 0
    asset.write_bytes(asset.read_bytes()[::-1])
    assert start(app, "--program", "types").code == 0
    result = start(app, "--program", "types", "--verify")
    assert f"{asset} has sha256 " in result.error


def test_flipped_app_manifests_never_crash(app: Path) -> None:
    manifest = app / "manifest.json"
    good = manifest.read_bytes()
    generator = random.Random("app")
    for _ in range(150):
        changed = bytearray(good)
        changed[generator.randrange(len(good))] ^= 1 << generator.randrange(8)
        manifest.write_bytes(changed)
        start(app, "--program", "xnnpack")


def test_an_app_without_programs(app: Path) -> None:
    """tests/manifest has malformed manifests."""
    edit(app, lambda m: m.update(programs={}))
    assert "has no programs; name a .pte file" in start(app).error


def test_an_app_of_too_many_programs(app: Path) -> None:
    types = json.loads((app / "manifest.json").read_text())["programs"]["types"]
    edit(app, lambda m: m.update(programs={f"p{number}": types for number in range(1001)}))
    assert "has 1001 programs, expected at most 1000" in start(app).error
    assert start(app, "--program", "p7").code == 0


def test_a_manifest_for_a_program_of_an_app(app: Path) -> None:
    result = start(app, "--program", "types", "--manifest", app / "manifest.json")
    assert '--manifest is for a .pte file, and "types" is a program of' in result.error


def test_an_app_moves_and_is_linked_to(app: Path, tmp_path: Path) -> None:
    moved = tmp_path / "else where"
    app.rename(moved)
    link = tmp_path / "run"
    os.symlink(moved / "runner", link)
    assert run_binary(link, "--program", "types").code == 0


def test_an_app_that_is_none(tmp_path: Path) -> None:
    assert "manifest.json cannot be opened" in run("--app", tmp_path).error
    (tmp_path / "manifest.json").write_text("{}")
    assert '"format" is missing' in run("--app", tmp_path).error
