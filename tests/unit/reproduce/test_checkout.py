"""Copies of a checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

from etcli.reproduce import checkout


def example(folder: Path) -> Path:
    workspace = folder / "workspace"
    (workspace / "package").mkdir(parents=True)
    (workspace / "MODULE.bazel").write_text(
        'module(name = "m")\n'
        'local_path_override(module_name = "inner", path = "package")\n'
        'local_path_override(\n    module_name = "outer",\n    path = "../outer",\n)\n'
    )
    (workspace / "package" / "tool").write_text("#!/bin/sh\n")
    (workspace / "package" / "tool").chmod(0o755)
    (workspace / "link").symlink_to("package/tool")
    (workspace / "abroad").symlink_to("/etc/hosts")
    (workspace / "bazel-out").symlink_to("/nonexistent")
    return workspace


def copied(source: Path, target: Path) -> set[str]:
    checkout.copy(source, target)
    return {p.relative_to(target).as_posix() for p in target.rglob("*") if not p.is_dir()}


def test_without_git(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    names = copied(example(tmp_path), target)
    assert names == {"MODULE.bazel", "package/tool", "link", "abroad"}
    assert (target / "package/tool").stat().st_mode & 0o111
    assert (target / "link").resolve() == (target / "package/tool").resolve()
    assert (target / "abroad").readlink() == Path("/etc/hosts")


def test_with_git(tmp_path: Path) -> None:
    """Files that aren't ignored belong to it, added or not."""
    source = example(tmp_path)
    (source / ".gitignore").write_text("/bazel-*\n/secret\n")
    (source / "secret").write_text("x")
    subprocess.run(["git", "init", "-q"], cwd=source, check=True)
    subprocess.run(["git", "add", "MODULE.bazel"], cwd=source, check=True)
    names = copied(source, tmp_path / "copy")
    assert names == {".gitignore", "MODULE.bazel", "package/tool", "link", "abroad"}


def test_modules_beside_the_workspace(tmp_path: Path) -> None:
    flags = checkout.module_flags(example(tmp_path))
    assert flags == [f"--override_module=outer={tmp_path / 'outer'}"]
