"""The command beside a program, as `bazel run` starts it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

_HERE = Path("tests/divergence").absolute()


def divergence(program: str, folder: Path, *words: str) -> dict[str, Any]:
    saved, page = folder / "divergence.json", folder / "divergence.html"
    command = [_HERE / f"{program}.divergence", "--save", saved, "--html", page, *words]
    environment = {**os.environ, "BUILD_WORKING_DIRECTORY": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "<html" in page.read_text(encoding="utf-8")
    result: dict[str, Any] = json.loads(saved.read_text(encoding="utf-8"))["methods"]["forward"]
    return result


def test_clamp_is_named_and_reduced_and_compared(tmp_path: Path) -> None:
    photo = str(_HERE / "photo.png")
    divergence("detector_fp32", tmp_path, "--inputs", photo)
    before = (tmp_path / "divergence.json").rename(tmp_path / "before.json")
    words = ["--inputs", photo, "--reduce", "bug", "--against", str(before)]
    result = divergence("detector_faulty", tmp_path, *words)
    assert result["samples"] == 1
    build = (tmp_path / "bug/BUILD.bazel").read_text(encoding="utf-8")
    assert "# blocks.0.clamp of //tests/divergence:detector" in build
    assert 'recipe = "//tests/divergence:faulty"' in build
    assert {f.name for f in (tmp_path / "bug").iterdir()} == {
        *("BUILD.bazel", "inputs.npz", "model.py", "module.pt2")
    }
    first = result["first"]
    assert (first["stage"], first["module"]) == ("exported", "blocks.0.clamp")
    assert first["line"].startswith("detector.py:")
    whole = json.loads((tmp_path / "divergence.json").read_text(encoding="utf-8"))
    worse = whole["against"]["methods"]["forward"]["modules"]
    # Of a layer, its time alone may have changed, too.
    errors = [row for row in worse if "after_db" in row]
    assert "blocks.0.clamp" in {row["name"] for row in errors if row["after_db"] < row["before_db"]}


@pytest.mark.release
def test_none_is_named_and_the_target_has_inputs(tmp_path: Path) -> None:
    result = divergence("detector_fp32", tmp_path)
    assert result["samples"] == 2
    assert result["first"] is None
    assert result["outputs"]["program"]["sqnr_db"] > 80
