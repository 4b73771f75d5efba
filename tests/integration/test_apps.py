"""Builds a user's apps with real Bazel: contents, output, errors."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def workspace(apps: Workspace) -> Workspace:
    return apps


def files(app: Path) -> list[str]:
    return sorted(p.relative_to(app).as_posix() for p in app.rglob("*") if p.is_file())


def app_of(workspace: Workspace, name: str) -> tuple[Path, dict[str, Any]]:
    folder = workspace.folder / "bazel-bin" / name
    return folder, json.loads((folder / "manifest.json").read_text())


def run(*command: Path | str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_programs_on_one_foundation(workspace: Workspace) -> None:
    app, manifest = app_of(workspace, "tasks")
    there = files(app)
    assert [f for f in there if f.endswith(".ptd")] == ["data/foundation.ptd"]
    assert [p["data"] for p in manifest["programs"].values()] == [["data/foundation.ptd"]] * 3
    assert "assets/labels/words.txt" in there
    whole = sum((app / f).stat().st_size for f in there)
    assert whole < 20e6
    assert set(there) == {*manifest["files"], "manifest.json"}
    for path, entry in manifest["files"].items():
        data = (app / path).read_bytes()
        assert entry["size"] == len(data), path
        assert entry["sha256"] == hashlib.sha256(data).hexdigest(), path


def test_only_libraries_that_programs_need(workspace: Workspace) -> None:
    _, delegated = app_of(workspace, "tasks")
    assert delegated["libraries"] == [
        "lib/libexecutorch.so",
        "lib/libexecutorch_backend_xnnpack.so",
        "lib/libexecutorch_threadpool.so",
    ]
    _, portable = app_of(workspace, "scaled_app")
    assert portable["libraries"] == [
        "lib/libexecutorch.so",
        "lib/libexecutorch_kernels_optimized.so",
        "lib/libexecutorch_threadpool.so",
    ]


@pytest.mark.parametrize("name", ["custom_main", "custom_main_library"])
def test_a_custom_main_and_a_custom_operator(workspace: Workspace, name: str) -> None:
    app, _ = app_of(workspace, name)
    # 1 * 0.5 + 1.
    assert run(app / "runner", app / "programs/scaled_portable.pte") == "custom main: 1.5\n"


def test_an_app_moves_as_a_whole(workspace: Workspace, tmp_path: Path) -> None:
    archive = workspace.folder / "bazel-bin/custom_main.tar.zst"
    assert archive.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    app, _ = app_of(workspace, "custom_main")
    moved = tmp_path / "elsewhere"
    subprocess.run(["cp", "-rL", app, moved], check=True)
    assert run(moved / "runner", moved / "programs/scaled_portable.pte") == "custom main: 1.5\n"


# An app on the user's own runtime: with a small main, and with the runner.
own_runtime_app = pytest.mark.parametrize(
    "name",
    ["scaled_own_runtime", pytest.param("scaled_own_runtime_runner", marks=pytest.mark.release)],
)


@own_runtime_app
def test_an_own_runtime_with_a_static_library(workspace: Workspace, name: str) -> None:
    workspace.build(f"//:{name}")
    app, manifest = app_of(workspace, name)
    assert manifest["platforms"] == ["own_linux"]
    assert b"mine::scale.out\0" in (app / "runner").read_bytes()
    fit = json.loads((workspace.folder / f"bazel-bin/{name}.fit.json").read_text())
    assert ["mine::scale.out"] in [one["operators"] for one in fit["libraries"]]


def test_an_app_that_records_events(workspace: Workspace, tmp_path: Path) -> None:
    app, manifest = app_of(workspace, "task_recorded")
    assert "lib/libexecutorch_etdump.so" in manifest["libraries"]
    recorded = tmp_path / "task.etdp"
    run(app / "runner", "--program", "task_1", "--etdump", recorded)
    # The identifier of the flatbuffer that the Inspector reads.
    assert recorded.read_bytes()[8:12] == b"ED00"


def test_platforms_share_programs(workspace: Workspace) -> None:
    """An app for another platform reads no library, and lowers and links no program again."""
    build = workspace.folder / "BUILD.bazel"
    before = build.read_text()
    build.write_text(
        before + 'et_runner_app(name = "again", srcs = ["main.cc"], '
        'platform = "//runtime:own_linux", programs = [":task_1", ":task_2"])\n'
    )
    try:
        ran = workspace.build("//:again")
    finally:
        build.write_text(before)
    assert {one.split()[0] for one in ran} == {"EtFit", "EtApp", "EtPackage"}


def test_a_changed_asset_links_nothing(workspace: Workspace) -> None:
    workspace.replace("labels/words.txt", "yes", "indeed")
    try:
        ran = workspace.build("//:tasks")
    finally:
        workspace.replace("labels/words.txt", "indeed", "yes")
    assert ran == ["EtApp //:tasks", "EtPackage //:tasks"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "//:missing_operator",
            '//:missing_operator: //:scaled_portable calls the operator "mine::scale.out" in its '
            'method "forward", but no library of the runtime',
        ),
        (
            "//:operator_twice",
            "//kernels:scale and //kernels:scale_again both register mine::scale.out",
        ),
    ],
)
def test_what_is_refused(workspace: Workspace, target: str, message: str) -> None:
    printed = workspace.failed(target)
    assert message in printed
    assert "Traceback" not in printed
