"""Interrupted and corrupted downloads give a message, and the next build succeeds."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import EmptyWorkspace

_MODULE = """
module(name = "downloader")
bazel_dep(name = "rules_executorch", version = "0.1.0")
local_path_override(module_name = "rules_executorch", path = "{module}")
executorch = use_extension("@rules_executorch//toolchains:extensions.bzl", "executorch")
executorch.exporter({python})
executorch.wheel(
    name = "weights",
    files = {{"model.bin": "example_weights/model.bin"}},
    requirement = "example-weights==1.0",
    sha256 = "{sha256}",
)
use_repo(executorch, "weights")
"""
_WEIGHTS = bytes(range(256)) * 4096
_WHEEL = "example_weights-1.0-py3-none-any.whl"
_BY_BAZEL = f"/{_WHEEL}: Bazel could not download it; its warning above has the reason"


class _Index(http.server.SimpleHTTPRequestHandler):
    """A package index of one wheel, broken as the server's attribute says."""

    def do_GET(self) -> None:
        if not self.path.endswith(_WHEEL):
            told = self.server.told and f"#sha256={self.server.told}"  # type: ignore[attr-defined]
            return self._send(f'<a href="/{_WHEEL}{told}">{_WHEEL}</a>'.encode(), "text/html")
        data = (Path(self.directory) / _WHEEL).read_bytes()
        fault = self.server.fault  # type: ignore[attr-defined]
        if fault == "other":
            data = data[: len(data) // 2] + bytes(len(data) - len(data) // 2)
        sent = data[: len(data) // 3] if fault == "truncated" else data
        return self._send(sent, "application/zip", len(data))

    def _send(self, data: bytes, kind: str, length: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length or len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Downloader:
    """A workspace whose weights are in a wheel of a private index."""

    def __init__(self, empty: EmptyWorkspace, served: Path) -> None:
        self._workspace = empty
        with zipfile.ZipFile(served / _WHEEL, "w") as wheel:
            wheel.writestr("example_weights/model.bin", _WEIGHTS)
            wheel.writestr(
                "example_weights-1.0.dist-info/METADATA",
                "Metadata-Version: 2.1\nName: example-weights\nVersion: 1.0\n",
            )
            wheel.writestr(
                "example_weights-1.0.dist-info/WHEEL",
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
        self.sha256 = hashlib.sha256((served / _WHEEL).read_bytes()).hexdigest()
        self.choose()
        (empty.folder / "BUILD.bazel").touch()
        handler = functools.partial(_Index, directory=str(served))
        self.index = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.index.serve_forever, daemon=True).start()

    def choose(self, python: str = "") -> None:
        """Writes the module's file, with an interpreter for all that is fetched."""
        text = _MODULE.format(module=self._workspace.module, python=python, sha256=self.sha256)
        (self._workspace.folder / "MODULE.bazel").write_text(text)

    def build(self, fault: str) -> subprocess.CompletedProcess[str]:
        """Builds the weights while the index is broken in this way; "": not broken."""
        self.index.fault = fault  # type: ignore[attr-defined]
        address = f"http://127.0.0.1:{self.index.server_address[1]}/simple"
        words = ["build", "@weights//:model.bin", f"--repo_env=PIP_INDEX_URL={address}"]
        words.append("--repo_env=PIP_RETRIES=0")
        return self._workspace.run(*words)

    def placed(self) -> list[Path]:
        """Path of the weights in Bazel's output base."""
        return list((self._workspace.base / "external").glob("*weights*/model.bin"))

    def close(self) -> None:
        self.index.shutdown()
        self.index.server_close()


@pytest.fixture(scope="module")
def downloader(
    empty: EmptyWorkspace, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Downloader]:
    empty.clear()
    new_downloader = Downloader(empty, tmp_path_factory.mktemp("served"))
    yield new_downloader
    new_downloader.close()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("fault", "tells_hashes", "problem", "reason"),
    [
        ("truncated", False, "no wheel for this machine could be fetched", "got 349712 of 1049138"),
        ("other", False, "the file is not the one in the lock", f"got {_WHEEL} (sha256 "),
        ("truncated", True, "no wheel for this machine could be fetched", _BY_BAZEL),
        ("other", True, "no wheel for this machine could be fetched", _BY_BAZEL),
    ],
)
def test_weights_that_arrive_wrong(
    downloader: Downloader, fault: str, tells_hashes: bool, problem: str, reason: str
) -> None:
    """An index that tells hashes leaves the check to Bazel; else the file is read to know it."""
    downloader.index.told = downloader.sha256 if tells_hashes else ""  # type: ignore[attr-defined]
    done = downloader.build(fault)
    assert done.returncode != 0
    assert f"weights: example-weights==1.0: {problem}" in done.stderr, done.stderr
    assert reason in done.stderr
    assert f"expected sha256 {downloader.sha256}" in done.stderr
    assert ("Checksum was" in done.stderr) == (tells_hashes and fault == "other")
    assert downloader.placed() == []


def test_the_next_download(downloader: Downloader) -> None:
    """Runs after the failed downloads."""
    done = downloader.build("")
    assert done.returncode == 0, done.stderr
    (weights,) = downloader.placed()
    assert weights.read_bytes() == _WEIGHTS


def test_the_interpreter_of_all_downloads(downloader: Downloader, tmp_path: Path) -> None:
    """The interpreter that fetches a wheel is the one that executorch.exporter names."""
    downloader.choose('python = "/no/python"')
    done = downloader.build("")
    assert done.returncode != 0
    problem = "no usable interpreter: got /no/python: not found, expected CPython 3.11. Do one of"
    assert problem in done.stderr, done.stderr
    for remedy in ("--repo_env=RULES_EXECUTORCH_PYTHON=", '"@python_3_11_host//:python"'):
        assert remedy in done.stderr
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho PyPy 3.11\necho $0\n")
    other.chmod(0o755)
    downloader.choose(f'python = "{other}"')
    assert f"got {other}: PyPy 3.11, expected CPython 3.11" in downloader.build("").stderr
    host = shutil.which("python3.11") or shutil.which("python3")
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {host} "$@"\n')
    python.chmod(0o755)
    downloader.choose(f'python = "{python}"')
    done = downloader.build("")
    assert done.returncode == 0, done.stderr
    assert log.read_text().startswith("-I -c ")
