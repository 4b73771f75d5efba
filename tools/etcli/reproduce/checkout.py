"""A second checkout of a workspace, at another path."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_LOCAL_MODULE = re.compile(r"local_path_override\((?P<arguments>[^)]*)\)", re.DOTALL)
_ARGUMENT = re.compile(r'(?P<name>\w+)\s*=\s*"(?P<value>[^"]*)"')


def copy(workspace: Path, folder: Path) -> None:
    """Copies the files that git tracks or does not ignore.

    Outside of git: everything but Bazel's own links. Links keep their targets; those into the
    workspace point into the copy.

    Args:
      workspace: the folder of MODULE.bazel.
      folder: of the copy; created here.
    """
    for relative in _files(workspace):
        source, target = workspace / relative, folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            end = Path(os.path.normpath(source.parent / os.readlink(source)))
            inside = end.is_relative_to(workspace)
            target.symlink_to(folder / end.relative_to(workspace) if inside else end)
        elif source.is_file():
            shutil.copy2(source, target)


def module_flags(workspace: Path) -> list[str]:
    """Flags that keep relative `local_path_override`s of MODULE.bazel where they were."""
    flags = []
    for call in _LOCAL_MODULE.finditer((workspace / "MODULE.bazel").read_text(encoding="utf-8")):
        values = {m["name"]: m["value"] for m in _ARGUMENT.finditer(call["arguments"])}
        path = Path(values.get("path", ""))
        if path.is_absolute() or "module_name" not in values:
            continue
        module = Path(os.path.normpath(workspace / path))
        if not module.is_relative_to(workspace):
            flags.append(f"--override_module={values['module_name']}={module}")
    return flags


def _files(workspace: Path) -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=workspace,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = sorted(set(listed.stdout.decode().split("\0")) - {""})
        yield from (Path(name) for name in names)
        return
    for root, folders, files in os.walk(workspace):
        folder = Path(root).relative_to(workspace)
        links = [f for f in folders if (Path(root) / f).is_symlink()]
        folders[:] = sorted(f for f in folders if f not in links)
        yield from (
            folder / name
            for name in sorted(files + links)
            # Bazel's own: bazel-bin, bazel-out, …
            if not (name.startswith("bazel-") and (Path(root) / name).is_symlink())
        )
