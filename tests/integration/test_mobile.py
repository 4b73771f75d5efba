"""The examples of mobile apps that have ExecuTorch's runtime already, with fakes of platforms' rules.

The fakes place files like the real rules and compile Java against upstream's signatures. They build
no apps and compile no Swift.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

_FAKES = {
    "android_app": ("rules_android", "rules_jvm_external"),
    "ios_app": ("rules_apple", "rules_swift", "rules_swift_package_manager"),
}
_REPOSITORIES = ("executorch_android_api", "executorch_jre", "smollm2")


def built(folder: Path, example: str, repositories: tuple[str, ...] = ()) -> Iterator[Workspace]:
    """The example with all its targets built."""
    workspace = Workspace(folder / "one", source=f"examples/{example}", repositories=repositories)
    fakes = Path(os.path.realpath("tests/integration/mobile/rules_android/MODULE.bazel")).parents[1]
    overrides = [f"--override_module={name}={fakes / name}" for name in _FAKES[example]]
    if example == "android_app":
        # Two layers of 30, to lower it in seconds. tests/integration/test_llm.py says why.
        workspace.replace("BUILD.bazel", "    memory_mb = 8000,\n", "    layers = 2,\n")
    workspace.overrides += overrides
    workspace.run("build", "//...")
    yield workspace
    workspace.close()


@pytest.fixture(scope="module")
def android(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    yield from built(tmp_path_factory.mktemp("android"), "android_app", _REPOSITORIES)


@pytest.fixture(scope="module")
def ios(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    yield from built(tmp_path_factory.mktemp("ios"), "ios_app")


def placed(workspace: Workspace, app: str, files: str) -> list[str]:
    """Paths in the app; the manifest lists the same ones."""
    output = workspace.folder / "bazel-bin"
    paths = (output / f"{app}.txt").read_text().splitlines()
    manifest = json.loads((output / files / "assets/manifest.json").read_text())
    assert sorted([*manifest["files"], "manifest.json"]) == paths
    return paths


def test_the_android_app_has_all_that_its_java_loads(android: Workspace) -> None:
    paths = placed(android, "chat", "chat_files")
    assert paths == [
        "assets/smollm2_tokenizer/chat_format.json",
        "assets/smollm2_tokenizer/tokenizer.json",
        "assets/smollm2_tokenizer/tokenizer_config.json",
        "data/smollm2_xnnpack_foundation.ptd",
        "manifest.json",
        "programs/net_xnnpack.manifest.json",
        "programs/net_xnnpack.pte",
        "programs/smollm2_xnnpack.manifest.json",
        "programs/smollm2_xnnpack.pte",
    ]
    java = (android.folder / "java/com/example/chat/ChatActivity.java").read_text()
    loaded = [path for path in paths if f'files.file("{path}")' in java]
    assert len(loaded) == java.count("files.file(") == 4


def test_the_java_compiles_against_upstreams_signatures(android: Workspace) -> None:
    with zipfile.ZipFile(android.folder / "bazel-bin/chat_lib.jar") as jar:
        names = jar.namelist()
    assert "com/example/chat/ChatActivity.class" in names
    assert "com/example/chat/AppAssets.class" in names


def test_a_call_that_upstream_does_not_have_fails(android: Workspace) -> None:
    """The fakes are compiled against, not ignored."""
    file = "java/com/example/chat/ChatActivity.java"
    android.replace(file, "Module.load(", "Module.open(")
    try:
        assert "The method open(String) is undefined" in android.failed("//:chat_lib")
    finally:
        android.replace(file, "Module.open(", "Module.load(")


def test_the_ios_app_has_all_that_its_swift_loads(ios: Workspace) -> None:
    paths = placed(ios, "tasks", "task_files")
    assert paths == [
        "assets/labels.txt",
        "data/foundation.ptd",
        "manifest.json",
        "programs/task_1.manifest.json",
        "programs/task_1.pte",
        "programs/task_2.manifest.json",
        "programs/task_2.pte",
    ]
    swift = "".join(path.read_text() for path in sorted((ios.folder / "Sources").iterdir()))
    for path in ("assets/labels.txt", "data/foundation.ptd", "programs/\\(name).pte"):
        assert f'"{path}"' in swift
    assert '["task_1", "task_2"]' in swift
