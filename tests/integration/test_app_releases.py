"""Builds a user's release with real Bazel: contents, stamps, other folders."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing

sys.path.insert(0, os.path.dirname(__file__))
from nested import FOR_APPS, NOT_OPTIMIZED, Workspace

pytestmark = pytest.mark.release

_FILES = {
    "SHA256SUMS",
    "assets/labels/words.txt",
    "data/foundation.ptd",
    "manifest.json",
    "programs/task_3.pte",
    "sbom.cdx.json",
    "tasks-linux_x86_64.tar.zst",
    "tasks_own_runtime-own_linux.tar.zst",
}


@pytest.fixture(scope="module")
def workspace(apps: Workspace) -> Workspace:
    """With the release: tests of apps edit files and restore them."""
    apps.run("build", "//:release")
    return apps


def release(workspace: Workspace) -> Path:
    return workspace.folder / "bazel-bin/release"


def read(workspace: Workspace, name: str) -> dict[str, Any]:
    return json.loads((release(workspace) / name).read_text())


def digests(folder: Path) -> dict[str, str]:
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.rglob("*")
        if p.is_file()
    }


def check(folder: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "-c", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def test_what_is_in_it(workspace: Workspace) -> None:
    assert set(digests(release(workspace))) == _FILES
    check(release(workspace))


def test_the_manifest(workspace: Workspace) -> None:
    manifest = read(workspace, "manifest.json")
    assert manifest["version"] == "1.4.0"
    assert manifest["executorch"] == {"exporter": "1.5.1"}
    assert manifest["python_packages"]["python"]["python"].startswith("3.11.")
    assert manifest["python_packages"]["exporter"]["torch"].startswith("2.13.0")
    archives = [file for file in manifest["files"].values() if "contents" in file]
    runtimes = [(file["platforms"], file["runtime"]) for file in archives]
    assert sorted(runtimes) == [(["linux_x86_64"], "1.5.1"), (["own_linux"], "1.5.1")]
    assert manifest["files"]["data/foundation.ptd"]["label"] == "//:foundation"
    programs = manifest["programs"]
    sharing = [name for name, p in programs.items() if p.get("data") == ["data/foundation.ptd"]]
    assert sharing == ["task_1", "task_2", "task_3"]
    recipe = programs["task_1"]["built_from"]["recipe"]
    assert recipe["label"] == "@rules_executorch//backends/xnnpack:fp32"
    assert recipe["builder"] == "xnnpack_recipes:fp32"
    assert programs["task_1"]["methods"]["forward"]["backends"] == ["XnnpackBackend"]
    assert "source" not in manifest


def test_archives_hold_what_the_manifest_says(workspace: Workspace, tmp_path: Path) -> None:
    name = "tasks-linux_x86_64.tar.zst"
    archive = workspace.folder / "bazel-bin/tasks.tar.zst"
    assert (release(workspace) / name).read_bytes() == archive.read_bytes()
    contents = read(workspace, "manifest.json")["files"][name]["contents"]
    directory = digests(workspace.folder / "bazel-bin/tasks")
    assert {path: one["sha256"] for path, one in contents.items()} == {
        f"tasks/{path}": entry for path, entry in directory.items()
    }


def test_the_bill_of_materials(workspace: Workspace) -> None:
    text = (release(workspace) / "sbom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert "timestamp" not in bill["metadata"]
    component_by_ref = {one["bom-ref"]: one for one in bill["components"]}
    runtime = component_by_ref["pkg:pypi/executorch@1.5.1"]
    names = {part["name"] for part in runtime["components"]}
    assert {"lib/libexecutorch.so", "lib/libexecutorch_backend_xnnpack.so"} <= names
    assert component_by_ref["pkg:pypi/nlohmann-json@3.12.0"]["licenses"] == [{"expression": "MIT"}]
    assert component_by_ref["program://:task_1"]["type"] == "machine-learning-model"
    assert (
        component_by_ref["data://:foundation"]["hashes"][0]["content"]
        == (digests(release(workspace))["data/foundation.ptd"])
    )
    packages = {one["name"]: one for one in bill["metadata"]["tools"]["components"]}
    assert {"cpython", "executorch", "torch", "torchao", "numpy"} <= set(packages)
    for one in packages.values():
        for given in one.get("licenses", []):
            if "expression" in given:
                get_spdx_licensing().parse(given["expression"], validate=True)
    assert packages["executorch"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]


def test_the_versions_of_libraries(workspace: Workspace) -> None:
    """The bill agrees with the sources."""
    license = next(Path("..").glob("*executorch_oniguruma/license/COPYING"))
    header = (Path(os.path.realpath(license)).parents[1] / "include/oniguruma.h").read_text()
    version = ".".join(
        re.search(rf"#define ONIGURUMA_VERSION_{part}\s+(\d+)", header).group(1)
        for part in ("MAJOR", "MINOR", "TEENY")
    )
    refs = [one["bom-ref"] for one in read(workspace, "sbom.cdx.json")["components"]]
    assert f"pkg:github/kkos/oniguruma@v{version}" in refs
    header = next(Path("..").glob("*executorch_libunicode/license/libunicode.h"))
    quickjs = (Path(os.path.realpath(header)).parents[1] / "src/VERSION").read_text().strip()
    assert f"pkg:generic/quickjs@{quickjs}" in refs


def test_a_null_build(workspace: Workspace) -> None:
    assert workspace.build("//:release") == []


def test_a_stamped_release(workspace: Workspace, tmp_path: Path) -> None:
    """It names the source; a new revision only writes the lists again."""
    program = tmp_path / "status.sh"

    def build(revision: str) -> list[str]:
        program.write_text(
            f"#!/bin/sh\necho STABLE_GIT_COMMIT {revision}\necho BUILD_TIMESTAMP 7\n"
        )
        program.chmod(0o755)
        return workspace.build("//:release", "--stamp", f"--workspace_status_command={program}")

    before = digests(release(workspace))
    build("4f1c0de")
    source = read(workspace, "manifest.json")["source"]
    assert source["revisions"] == ["4f1c0de"]
    assert source["status"] == {"STABLE_GIT_COMMIT": "4f1c0de"}
    bill = read(workspace, "sbom.cdx.json")
    assert bill["metadata"]["component"]["pedigree"]["commits"] == [{"uid": "4f1c0de"}]
    assert bill["metadata"]["timestamp"] == "1970-01-01T00:00:07+00:00"
    check(release(workspace))
    assert build("5eed") == ["EtRelease //:release"]
    assert read(workspace, "manifest.json")["source"]["revisions"] == ["5eed"]
    assert workspace.build("//:release") == ["EtRelease //:release"]
    assert digests(release(workspace)) == before


def test_copying_it_out(workspace: Workspace, tmp_path: Path) -> None:
    # What an earlier version of the release left behind stays out.
    (release(workspace) / "left.behind").write_text("old")
    copy = tmp_path / "dist"
    try:
        workspace.run("run", "//:release", "--", str(copy))
    finally:
        (release(workspace) / "left.behind").unlink()
    assert digests(copy) == digests(release(workspace))
    assert not [path for path in copy.rglob("*") if path.is_symlink()]
    said = workspace.failed("//:release", "--", str(copy), command="run")
    assert f"error: {copy} is there already; name a folder that isn't, or that is empty." in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dist"]
    shutil.rmtree(copy)


def test_the_same_bytes_elsewhere(workspace: Workspace, tmp_path: Path) -> None:
    """In another folder and output base."""
    other = Workspace(
        tmp_path / "some/other", source="tests/e2e/apps", repositories=FOR_APPS, compiled_once=False
    )
    other.overrides.append(NOT_OPTIMIZED)
    try:
        other.run("build", "//:release")
        assert digests(release(other)) == digests(release(workspace))
    finally:
        other.close()
