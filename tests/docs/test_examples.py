"""Examples that need other modules, with fakes of these.

The fakes in tests/integration/fakes place files like the real rules, and compile Java against the
real classes. They build no apps and no images, and compile no Swift.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from nested import fakes
from player import Player


def flags(player: Player, example: str) -> str:
    """Flags that replace the other modules."""
    return shlex.join(fakes(player.module, f"examples/{example}"))


@pytest.fixture
def android(player: Player) -> str:
    """Lays the Android app; returns Bazel's flags."""
    player.lay("examples/android_app/README.md")
    return flags(player, "android_app")


def placed(folder: Path, app: str) -> list[str]:
    """Paths in the app."""
    return (folder / f"bazel-bin/{app}.txt").read_text().splitlines()


@pytest.mark.release
def test_the_android_app(player: Player, android: str) -> None:
    """All targets can be analyzed, and the Java is compiled against the AAR's classes. The app's
    language model is not lowered for this: it is that of the example llm."""
    player.run(f"bazel build {android} --nobuild //...")
    player.run(f"bazel build {android} //:chat_lib")
    with zipfile.ZipFile(player.folder / "bazel-bin/chat_lib.jar") as jar:
        assert "com/example/chat/ChatActivity.class" in jar.namelist()


@pytest.mark.release
def test_a_call_that_the_classes_do_not_have_fails(player: Player, android: str) -> None:
    activity = player.folder / "java/com/example/chat/ChatActivity.java"
    activity.write_text(activity.read_text().replace("Programs.open(", "Programs.unpack("))
    printed = player.run(f"bazel build {android} //:chat_lib", fails=True)
    assert re.search(r"The method unpack\(.*\) is undefined for the type Programs", printed), (
        printed
    )


@pytest.mark.release
def test_the_ios_app_has_all_that_its_swift_loads(player: Player) -> None:
    player.lay("examples/ios_app/README.md")
    player.run(f"bazel build {flags(player, 'ios_app')} //...")
    paths = placed(player.folder, "tasks")
    assert paths == [
        "assets/labels.txt",
        "data/foundation.ptd",
        "manifest.json",
        "programs/task_1.pte",
        "programs/task_2.pte",
    ]
    manifest = player.folder / "bazel-bin/task_files/assets/manifest.json"
    assert sorted([*json.loads(manifest.read_text())["files"], "manifest.json"]) == paths
    swift = "".join(path.read_text() for path in sorted((player.folder / "Sources").iterdir()))
    for path in ("assets/labels.txt", "data/foundation.ptd", "programs/\\(name).pte"):
        assert f'"{path}"' in swift
    assert '["task_1", "task_2"]' in swift


@pytest.mark.release
def test_the_container(player: Player, tmp_path: Path) -> None:
    """The layer runs from where the image has it."""
    player.lay("examples/container/README.md")
    player.run(f"bazel build {flags(player, 'container')} //:image")
    image = json.loads((player.folder / "bazel-bin/image.json").read_text())
    assert image["base"].endswith("/image")
    for layer in image["layers"]:
        data = (player.folder / "bazel-bin" / layer).read_bytes()
        contents = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        with tarfile.open(fileobj=io.BytesIO(contents)) as archive:
            archive.extractall(tmp_path)
    (program,) = image["entrypoint"]
    done = subprocess.run(
        [tmp_path / program.lstrip("/"), "--list"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0 and "net_xnnpack" in done.stdout, (done.stdout, done.stderr)
