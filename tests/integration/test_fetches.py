"""All files with a hash come through Bazel's downloader, with all of its settings.

One workspace and one server of files: a wheel, a layer's wheel, an npm package and a Debian
package. The index of pip's settings is on that server, too; it is asked for what has no URL.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import EmptyWorkspace

_MODULE = """
module(name = "fetcher")
bazel_dep(name = "rules_executorch", version = "0.1.0")
local_path_override(module_name = "rules_executorch", path = "{module}")
executorch = use_extension("@rules_executorch//toolchains:extensions.bzl", "executorch")
executorch.backend_packages(name = "layer", locks = ["//:layer.txt"])
executorch.backend_packages(name = "indexed", locks = ["//:indexed.txt"])
executorch.file_urls(lists = ["//:urls.txt"])
executorch.wheel(
    name = "weights",
    files = {{"model.bin": "weights/model.bin"}},
    requirement = "weights==1.0",
    sha256 = "{weights}",
    urls = ["{server}/private/{wheel}"],
)
executorch.wheel(
    name = "shelf",
    files = {{"model.bin": "on_shelf/model.bin"}},
    requirement = "on-shelf==1.0",
    sha256 = "{shelf}",
)
use_repo(executorch, "indexed", "layer", "shelf", "weights")
packages = use_extension("//:packages.bzl", "packages")
use_repo(packages, "deb", "moved", "npm")
"""
_PACKAGES = """
load("@rules_executorch//toolchains/debian:debian.bzl", "debian_packages")
load("@rules_executorch//toolchains/exporter:package_files.bzl", "package_files")

def _impl(_module_ctx):
    debian_packages(
        name = "deb",
        build_file = "//:package.BUILD",
        packages = {{"libx=1:1.0-1": "{deb}"}},
    )
    debian_packages(
        name = "moved",
        build_file = "//:package.BUILD",
        packages = {{"sed=0.1-1": "{unknown}"}},
    )
    package_files(
        name = "npm",
        build_file = "//:package.BUILD",
        files = {{"file": "file"}},
        kind = "npm",
        package = "example@1.0.0",
        sha256 = "{npm}",
    )

packages = module_extension(implementation = _impl)
"""
_WHEEL = "weights-1.0-py3-none-any.whl"
_LAYER = "example_layer-1.0-py3-none-any.whl"
_INDEXED = "indexed_layer-1.0-py3-none-any.whl"
_SHELF = "on_shelf-1.0-py3-none-any.whl"
_FILES = ["@deb//:file", "@layer//:environment.json", "@npm//:file", "@weights//:model.bin"]
_LOGIN = "Basic " + base64.b64encode(b"me:secret").decode()


class _Files(http.server.SimpleHTTPRequestHandler):
    """Serves files, some for a password only, and remembers what was asked for."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        private = self.path.startswith("/private/")
        if private and self.headers.get("Authorization") != _LOGIN:
            self.send_error(401)
            return
        super().do_GET()

    def guess_type(self, path: str) -> str:
        """The index answers in JSON."""
        return "application/json" if path.endswith(".html") else super().guess_type(path)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Fetcher:
    """A workspace whose repositories have URLs."""

    def __init__(self, empty: EmptyWorkspace, folder: Path) -> None:
        self.workspace = empty
        self.top = folder
        self.served = folder / "served"
        for new in (self.served / "private", self.served / "simple"):
            new.mkdir(parents=True)
        handler = functools.partial(_Files, directory=str(self.served))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        write_wheel(self.served / "private" / _WHEEL, "weights")
        write_wheel(self.served / _LAYER, "example_layer")
        write_wheel(self.served / "private" / _INDEXED, "indexed_layer")
        (self.served / "simple/indexed-layer").mkdir()
        (folder / "shelf").mkdir()
        write_wheel(folder / "shelf" / _SHELF, "on_shelf")
        write_tar(self.served / "example-1.0.0.tgz")
        write_deb(self.served / "libx_1.deb")
        self._write()

    def _write(self) -> None:
        """The workspace's files."""
        npm, deb = (sha256(self.served / name) for name in ("example-1.0.0.tgz", "libx_1.deb"))
        layer = sha256(self.served / _LAYER)
        weights = sha256(self.served / "private" / _WHEEL)
        indexed = sha256(self.served / "private" / _INDEXED)
        page = {"files": [{"url": f"/private/{_INDEXED}", "hashes": {"sha256": indexed}}]}
        (self.served / "simple/indexed-layer/index.html").write_text(json.dumps(page))
        texts = {
            "MODULE.bazel": _MODULE.format(
                module=self.workspace.module,
                server=self.address,
                shelf=sha256(self.top / "shelf" / _SHELF),
                weights=weights,
                wheel=_WHEEL,
            ),
            "BUILD.bazel": "",
            "package.BUILD": 'exports_files(["file"])\n',
            "packages.bzl": _PACKAGES.format(deb=deb, npm=npm, unknown="0" * 64),
            "layer.txt": f"example-layer==1.0 --hash=sha256:{layer}\n"
            f"# file: {self.address}/{_LAYER}#sha256={layer}\n",
            # Of several hashes: one is of another machine's file.
            "indexed.txt": f"indexed-layer==1.0 --hash=sha256:{'0' * 64} --hash=sha256:{indexed}\n",
            "urls.txt": "# The first host is a name of the server in downloader.cfg only.\n"
            f"http://mirror.invalid/example-1.0.0.tgz#sha256={npm}\n"
            f"{self.address}/libx_1.deb#sha256={deb}\n",
            "downloader.cfg": f"rewrite mirror.invalid/(.*) {self.address[7:]}/$1\n",
            "netrc": "machine 127.0.0.1 login me password secret\n",
        }
        for name, text in texts.items():
            (self.workspace.folder / name).write_text(text)

    def bazel(self, *words: str, cache: str = "cache") -> subprocess.CompletedProcess[str]:
        """Runs a command of Bazel with a repository cache, and with the server as pip's index."""
        flags = [
            f"--repository_cache={self.top / cache}",
            f"--repo_env=NETRC={self.workspace.folder}/netrc",
            f"--repo_env=XDG_CACHE_HOME={self.top}/home cache",
            f"--repo_env=PIP_INDEX_URL={self.address}/simple",
            f"--repo_env=PIP_FIND_LINKS={self.top}/shelf",
            f"--experimental_downloader_config={self.workspace.folder}/downloader.cfg",
        ]
        self.server.asked.clear()  # type: ignore[attr-defined]
        return self.workspace.run(words[0], *flags, *words[1:])

    @property
    def shared(self) -> Path:
        """Packages that workspaces of this user installed."""
        return self.top / "home cache/rules_executorch/environments"

    def fetch_again(self, *words: str, cache: str = "cache") -> subprocess.CompletedProcess[str]:
        """Fetches all repositories with URLs, whether Bazel has them or not."""
        repositories = [f"--repo={label.partition('//')[0]}" for label in _FILES]
        return self.bazel("fetch", "--force", *repositories, *words, cache=cache)

    @property
    def asked(self) -> list[str]:
        """Paths that the server was asked for by the last command."""
        return sorted(set(self.server.asked))  # type: ignore[attr-defined]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_wheel(path: Path, package: str) -> None:
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{package}/model.bin", "contents")
        metadata = f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: 1.0\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        kind = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", kind)
        wheel.writestr(f"{info}/RECORD", f"{package}/model.bin,,\n{info}/METADATA,,\n")


def write_tar(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("package/file")
        info.size = 8
        archive.addfile(info, io.BytesIO(b"contents"))


def write_deb(path: Path) -> None:
    source = path.parent / "libx"
    (source / "DEBIAN").mkdir(parents=True)
    fields = "Package: libx\nVersion: 1:1.0-1\nArchitecture: all\n"
    fields += "Maintainer: a <a@b.example>\nDescription: x\n"
    (source / "DEBIAN/control").write_text(fields)
    (source / "file").write_text("contents")
    subprocess.run(["dpkg-deb", "--build", source, path], check=True, capture_output=True)


@pytest.fixture(scope="module")
def fetcher(empty: EmptyWorkspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fetcher]:
    """Tests run in order: the first one fills the repository cache."""
    empty.clear()
    new_fetcher = Fetcher(empty, tmp_path_factory.mktemp("fetches"))
    yield new_fetcher
    new_fetcher.close()


def test_urls_of_tags_locks_and_lists(fetcher: Fetcher) -> None:
    """The netrc's password and a rewritten host are used; pip, npm and apt are not."""
    done = fetcher.bazel("build", *_FILES)
    assert done.returncode == 0, done.stderr
    expected = ["/example-1.0.0.tgz", f"/{_LAYER}", "/libx_1.deb", f"/private/{_WHEEL}"]
    assert fetcher.asked == sorted(expected)
    external = fetcher.workspace.base / "external"
    for path in ("*weights/model.bin", "*npm/file", "*deb/file"):
        (file,) = external.glob(path)
        assert file.read_text() == "contents"
    (layer,) = external.glob("*layer/environment.json")
    assert '"example-layer": "1.0"' in layer.read_text()
    assert not (layer.parent / "files").exists()


def test_files_without_urls(fetcher: Fetcher) -> None:
    """By the index's page and its hashes, with the netrc's password; or from a folder.

    Once fetched, they come from the repository cache: neither the index nor the folder is asked,
    and packages that another workspace installed need not be there.
    """
    repositories = ("--repo=@indexed", "--repo=@shelf")
    done = fetcher.bazel("fetch", *repositories)
    assert done.returncode == 0, done.stderr
    assert fetcher.asked == [f"/private/{_INDEXED}", "/simple/indexed-layer/"]
    shelf = fetcher.top / "shelf" / _SHELF
    shelf.rename(fetcher.top / "away")
    shared = fetcher.shared
    assert list(shared.iterdir())
    for _ in range(2):
        done = fetcher.bazel("fetch", "--force", *repositories, "--repository_disable_download")
        assert done.returncode == 0, done.stderr
        assert fetcher.asked == []
        shutil.rmtree(shared)
    external = fetcher.workspace.base / "external"
    (model,) = external.glob("*shelf/model.bin")
    assert model.read_text() == "contents"
    (layer,) = external.glob("*indexed/environment.json")
    assert '"indexed-layer": "1.0"' in layer.read_text()
    assert not (layer.parent / "files").exists()
    done = fetcher.bazel("fetch", "--force", *repositories, cache="none")
    assert "on-shelf==1.0: no wheel for this machine" in done.stderr, done.stderr
    (fetcher.top / "away").rename(shelf)


def test_packages_that_were_changed(fetcher: Fetcher) -> None:
    """Packages of another workspace are not linked then, but downloaded again."""
    assert fetcher.bazel("fetch", "--force", "--repo=@indexed").returncode == 0
    (entry,) = fetcher.shared.iterdir()
    (entry / "site-packages/indexed_layer/evil.py").touch()
    done = fetcher.bazel("fetch", "--force", "--repo=@indexed")
    assert done.returncode == 0, done.stderr
    (layer,) = (fetcher.workspace.base / "external").glob("*indexed/environment.json")
    assert not (layer.parent / "site-packages/indexed_layer/evil.py").exists()


def test_the_repository_cache(fetcher: Fetcher) -> None:
    """Anything that was downloaded once is fetched again without a network."""
    done = fetcher.fetch_again("--repository_disable_download")
    assert done.returncode == 0, done.stderr
    assert fetcher.asked == []


def test_urls_are_no_contents(fetcher: Fetcher) -> None:
    """Other lists of URLs fetch nothing again."""
    (layer,) = (fetcher.workspace.base / "external").glob("*layer")
    (layer / "still_there").touch()
    with (fetcher.workspace.folder / "urls.txt").open("a") as out:
        out.write(f"{fetcher.address}/more.whl#sha256={'1' * 64}\n")
    done = fetcher.bazel("build", *_FILES)
    assert done.returncode == 0, done.stderr
    assert (layer / "still_there").exists()


def test_no_download(fetcher: Fetcher) -> None:
    """With an empty cache the flag applies: no other way is tried."""
    done = fetcher.fetch_again("--repository_disable_download", cache="empty")
    assert done.returncode != 0
    assert "download is disabled" in done.stderr, done.stderr
    assert fetcher.asked == []


def test_a_folder_of_files(fetcher: Fetcher) -> None:
    folder = fetcher.top / "files"
    folder.mkdir()
    for file in fetcher.served.rglob("*.*"):
        if file.is_file():
            shutil.copyfile(file, folder / file.name)
    done = fetcher.fetch_again(f"--distdir={folder}", cache="empty")
    assert done.returncode == 0, done.stderr
    assert fetcher.asked == []


def test_another_file(fetcher: Fetcher) -> None:
    """A file with other contents ends the build, and pip is not asked for it."""
    wheel = fetcher.served / "private" / _WHEEL
    kept = wheel.read_bytes()
    wheel.write_bytes(kept[:-1] + b"x")
    try:
        done = fetcher.fetch_again(cache="other")
    finally:
        wheel.write_bytes(kept)
    assert done.returncode != 0
    assert "Checksum was" in done.stderr, done.stderr
    assert hashlib.sha256(kept).hexdigest() in done.stderr
    assert not [path for path in fetcher.asked if path.startswith("/simple")]


def test_a_package_that_moved_on(fetcher: Fetcher) -> None:
    """The error names versions and ways out, and only what needs the package fails."""
    done = fetcher.bazel("build", "@moved//:file")
    assert done.returncode != 0
    assert "bookworm: packages moved on:\n" in done.stderr, done.stderr
    assert "sed: version in the archive: got 4.9-1" in done.stderr
    assert "expected 0.1-1" in done.stderr
    assert "to a list of executorch.file_urls() in your MODULE.bazel" in done.stderr
    assert fetcher.bazel("build", "@weights//:model.bin").returncode == 0
