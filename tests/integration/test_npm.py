"""Repositories of npm packages' files: contents and errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import EmptyWorkspace

_SHA256 = "7b75c1057198cf97696909a9bee176c9c5e9bcb5b03bf3ecef2f484defadd51e"

_MODULE = """
module(name = "npm_user")
bazel_dep(name = "rules_executorch", version = "0.1.0")
local_path_override(module_name = "rules_executorch", path = "{module}")
packages = use_extension("//:packages.bzl", "packages")
use_repo(packages, "good", "no_archive", "no_file", "no_npm", "no_version", "wrong_hash")
"""

_PACKAGES = """
load("@rules_executorch//toolchains/exporter:package_files.bzl", "package_files")

def _impl(_module_ctx):
    good = dict(
        build_file = "//:package.BUILD",
        files = {"code/number.js": "index.js", "LICENSE": "LICENSE"},
        kind = "npm",
        package = "is-number@7.0.0",
        sha256 = "%s",
    )
    package_files(name = "good", **good)
    package_files(name = "no_archive", **(good | {"archives": ["some.aar"]}))
    package_files(name = "no_file", **(good | {"files": {"x": "nothing/here"}}))
    package_files(name = "no_npm", **good)
    package_files(name = "no_version", **(good | {"package": "is-number@7.0.99"}))
    package_files(name = "wrong_hash", **(good | {"sha256": "0" * 64}))

packages = module_extension(implementation = _impl)
"""


class User:
    """A workspace with repositories of npm packages."""

    def __init__(self, empty: EmptyWorkspace) -> None:
        self.bazel = empty.run
        self.external = empty.base / "external"
        (empty.folder / "MODULE.bazel").write_text(_MODULE.format(module=empty.module))
        (empty.folder / "packages.bzl").write_text(_PACKAGES % _SHA256)
        (empty.folder / "package.BUILD").write_text('exports_files(glob(["**"]))\n')
        (empty.folder / "BUILD.bazel").touch()

    def repository(self, name: str) -> Path:
        (repository,) = self.external.glob(f"_main?packages?{name}")
        return repository


@pytest.fixture(scope="module")
def user(empty: EmptyWorkspace) -> User:
    empty.clear()
    return User(empty)


def test_files_have_their_places(user: User) -> None:
    done = user.bazel("build", "@good//:code/number.js")
    assert done.returncode == 0, done.stderr
    repository = user.repository("good")
    files = {str(path.relative_to(repository)) for path in repository.rglob("*") if path.is_file()}
    assert files >= {"code/number.js", "LICENSE", "BUILD.bazel"}
    assert not any("package" in file or file.endswith(".tgz") for file in files)


@pytest.mark.release
def test_a_machine_without_npm_gets_one(user: User, tmp_path: Path) -> None:
    """PATH has all programs of the machine except npm and Node.js."""
    for folder in os.environ["PATH"].split(":"):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else []:
            link = tmp_path / program.name
            if not program.name.startswith(("npm", "npx", "node")) and not link.is_symlink():
                link.symlink_to(program)
    done = user.bazel("build", f"--repo_env=PATH={tmp_path}", "@no_npm//:LICENSE")
    assert done.returncode == 0, done.stderr
    repository = user.repository("no_npm")
    assert repository.joinpath("code/number.js").is_file()
    assert not repository.joinpath("unpacked").exists()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_archive", 'the npm package is-number@7.0.0: archive "some.aar" not found'),
        ("no_file", 'the npm package is-number@7.0.0: "nothing/here" not found'),
        ("no_version", "the npm package is-number@7.0.99 cannot be fetched"),
        ("wrong_hash", f"another sha256: got {_SHA256}, expected {'0' * 64}.\n"),
    ],
)
def test_failures(name: str, words: str, user: User) -> None:
    done = user.bazel("build", f"@{name}//:all")
    assert done.returncode != 0
    assert words in done.stderr
