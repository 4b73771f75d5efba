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
    """Copies what a checkout would have: what git tracks or doesn't ignore.

    Outside of git: everything but Bazel's own links. Links keep what they point to; those to places
    in the workspace lead to the copy's.

    Args:
      workspace: the folder of MODULE.bazel.
      folder: where to; made here.
    """
    for relative in _files(workspace):
        source, target = workspace / relative, folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            place = Path(os.path.normpath(source.parent / os.readlink(source)))
            inside = place.is_relative_to(workspace)
            target.symlink_to(folder / place.relative_to(workspace) if inside else place)
        elif source.is_file():
            shutil.copy2(source, target)


def module_flags(workspace: Path) -> list[str]:
    """Flags that keep relative `local_path_override`s of MODULE.bazel where they were."""
    flags = []
    for call in _LOCAL_MODULE.finditer((workspace / "MODULE.bazel").read_text(encoding="utf-8")):
        given = {m["name"]: m["value"] for m in _ARGUMENT.finditer(call["arguments"])}
        path = Path(given.get("path", ""))
        if path.is_absolute() or "module_name" not in given:
            continue
        place = Path(os.path.normpath(workspace / path))
        if not place.is_relative_to(workspace):
            flags.append(f"--override_module={given['module_name']}={place}")
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
        place = Path(root).relative_to(workspace)
        links = [f for f in folders if (Path(root) / f).is_symlink()]
        folders[:] = sorted(f for f in folders if f not in links)
        yield from (
            place / name
            for name in sorted(files + links)
            # Bazel's own: bazel-bin, bazel-out, …
            if not (name.startswith("bazel-") and (Path(root) / name).is_symlink())
        )
