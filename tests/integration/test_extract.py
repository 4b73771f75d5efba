"""Archives that Bazel would unpack outside of the target folder."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import EmptyWorkspace

_MODULE = """
module(name = "archive_user")
bazel_dep(name = "rules_executorch", version = "0.1.0")
local_path_override(module_name = "rules_executorch", path = "{module}")
archives = use_extension("//:archives.bzl", "archives")
use_repo(archives, {names})
"""

_ARCHIVES = """
load("@rules_executorch//toolchains/exporter:extract.bzl", "extract")

def _repository(rctx):
    rctx.file("BUILD.bazel", 'exports_files(["file"])')
    name = rctx.attr.archive.name
    rctx.symlink(rctx.attr.archive, name)
    if rctx.attr.is_checked:
        extract(rctx, name, "unpacked", "the archive " + name)
    else:
        rctx.extract(name, output = "unpacked")
    rctx.file("file")

repository = repository_rule(
    _repository,
    attrs = {{"archive": attr.label(), "is_checked": attr.bool()}},
)

def _archives(module_ctx):
    for name in [{names}]:
        is_checked = name.startswith("checked")
        archive = "//:" + name.split("__")[1].replace("_", ".")
        repository(name = name, archive = archive, is_checked = is_checked)

archives = module_extension(_archives)
"""

FILE, LINK, HARD = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
# Name to members: name, kind, contents or target. {out} is a folder outside, {up} leads to it.
TARS = {
    "good.tar.gz": [("a/b", FILE, "b"), ("a/c", LINK, "b"), ("a/d", HARD, "a/b")],
    "dotdot.tar.gz": [("{up}/evil", FILE, "evil")],
    "through.tar.gz": [("a", LINK, "{out}"), ("a/evil", FILE, "evil")],
    "hard.tar.gz": [("a", HARD, "{up}/precious"), ("a", FILE, "evil")],
}
ZIPS = {
    "good.zip": [("a/b", 0o100644, "b")],
    "dotdot.zip": [("{up}/evil", 0o100644, "evil")],
    "through.zip": [("a", 0o120777, "{out}"), ("a/evil", 0o100644, "evil")],
}


class User:
    """A workspace with repositories that unpack archives, and a folder outside of them."""

    def __init__(self, empty: EmptyWorkspace) -> None:
        self._workspace = empty
        self.outside = empty.top / "outside"
        self.outside.mkdir()
        (self.outside / "precious").write_text("precious")
        # From base/external/<repository>/unpacked.
        paths = {"out": str(self.outside), "up": "../../../../outside"}
        for name, members in TARS.items():
            self._write_tar(
                name, [(n.format(**paths), k, t.format(**paths)) for n, k, t in members]
            )
        for name, files in ZIPS.items():
            self._write_zip(name, [(n.format(**paths), m, t.format(**paths)) for n, m, t in files])
        kinds = [name.replace(".", "_") for name in [*TARS, *ZIPS]]
        names = [f'"{how}__{kind}"' for how in ("checked", "plain") for kind in kinds]
        listed = ", ".join(names)
        module = _MODULE.format(module=empty.module, names=listed)
        (empty.folder / "MODULE.bazel").write_text(module)
        (empty.folder / "archives.bzl").write_text(_ARCHIVES.format(names=listed))
        (empty.folder / "BUILD.bazel").touch()

    def _write_tar(self, name: str, members: list[tuple[str, bytes, str]]) -> None:
        with tarfile.open(self._workspace.folder / name, "w:gz") as archive:
            for member, kind, contents in members:
                info = tarfile.TarInfo(member)
                info.type = kind
                if kind == FILE:
                    info.size = len(contents)
                else:
                    info.linkname = contents
                archive.addfile(info, io.BytesIO(contents.encode()) if kind == FILE else None)

    def _write_zip(self, name: str, members: list[tuple[str, int, str]]) -> None:
        with zipfile.ZipFile(self._workspace.folder / name, "w") as archive:
            for member, mode, contents in members:
                info = zipfile.ZipInfo(member)
                info.external_attr = mode << 16
                archive.writestr(info, contents)

    def fetch(self, name: str) -> subprocess.CompletedProcess[str]:
        """Fetches a repository with Bazel."""
        return self._workspace.run("build", f"@{name}//:file")

    def is_outside_intact(self) -> bool:
        """Tells whether nothing was written outside of the repositories; cleans up what was."""
        intact = [p.name for p in self.outside.iterdir()] == ["precious"]
        intact = intact and (self.outside / "precious").read_text() == "precious"
        (self.outside / "evil").unlink(missing_ok=True)
        (self.outside / "precious").unlink()
        (self.outside / "precious").write_text("precious")
        return intact


@pytest.fixture(scope="module")
def user(empty: EmptyWorkspace) -> User:
    empty.clear()
    return User(empty)


@pytest.mark.parametrize("kind", ["good_tar_gz", "good_zip"])
def test_archives_that_stay_in_their_place(kind: str, user: User) -> None:
    done = user.fetch(f"checked__{kind}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("dotdot_tar_gz", 'outside/evil" is a path that leads out of it.'),
        ("through_tar_gz", '"a" is a link to "/'),
        ("hard_tar_gz", '"a" is a path that leads out of it.'),
        ("dotdot_zip", 'outside/evil" is a path that leads out of it.'),
        ("through_zip", '"a" is a link to "/'),
    ],
)
def test_archives_that_would_write_elsewhere(kind: str, words: str, user: User) -> None:
    done = user.fetch(f"checked__{kind}")
    assert done.returncode != 0
    archive = kind.replace("_", ".")
    assert f"checked__{kind}: the archive {archive} is refused: " in done.stderr
    assert words in done.stderr
    assert user.is_outside_intact()


def test_what_bazel_does_itself(user: User) -> None:
    """The check is still needed: once this fails, Bazel is safer, and the check can be removed."""
    written = set()
    for kind in ("dotdot_tar_gz", "through_tar_gz", "hard_tar_gz", "dotdot_zip", "through_zip"):
        user.fetch(f"plain__{kind}")
        if not user.is_outside_intact():
            written.add(kind)
    assert written == {"dotdot_tar_gz", "hard_tar_gz", "dotdot_zip"}
