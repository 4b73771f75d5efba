"""What a cache holds, and what comes out of it."""

from __future__ import annotations

from pathlib import Path

from nested import Workspace

_PAIR = ["//:pair1_xnnpack", "//:pair2_xnnpack"]


def test_common_weights_once(workspace: Workspace, tmp_path: Path) -> None:
    """Two programs that differ in one layer, from nothing into an empty cache, and back."""
    cache = tmp_path / "cache"
    workspace.run("clean")
    workspace.build(f"--disk_cache={cache}", *_PAIR)
    stored = sum(p.stat().st_size for p in (cache / "cas").rglob("*") if p.is_file())
    common = 2 * 512 * 512 * 4
    program = (workspace.folder / "bazel-bin/pair1_xnnpack.pte").stat().st_size
    assert program > common
    assert common < stored < 1.3 * common
    outputs = workspace.outputs()

    workspace.run("clean")
    build = workspace.build(f"--disk_cache={cache}", *_PAIR)
    assert build.processes["disk cache hit"] >= 2
    assert "worker" not in build.processes
    assert workspace.outputs() == outputs


def test_another_workspace_takes_it_from_the_cache(workspace: Workspace, tmp_path: Path) -> None:
    """A cache that is filled in one folder serves a build in another one."""
    cache = tmp_path / "cache"
    workspace.run("clean")
    workspace.build(f"--disk_cache={cache}", *_PAIR)
    other = Workspace(tmp_path / "other")
    try:
        build = other.build(f"--disk_cache={cache}", *_PAIR)
        outputs = other.outputs()
    finally:
        other.close()
    assert build.processes["disk cache hit"] >= 2
    assert "worker" not in build.processes
    assert outputs == {name: workspace.outputs()[name] for name in outputs}
