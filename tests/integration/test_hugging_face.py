"""Models of the hub in a build, fetched from a fake hub, which refuses or lies at first.

The tests run in their order: each fetches what the one before could not.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_hub import FakeHub

sys.path.insert(0, os.path.dirname(__file__))
from nested import EmptyWorkspace

_MODULE = """
module(name = "downloader")
bazel_dep(name = "rules_executorch", version = "0.1.0")
local_path_override(module_name = "rules_executorch", path = "{module}")
executorch = use_extension("@rules_executorch//toolchains:extensions.bzl", "executorch")
executorch.hugging_face(
    name = "{name}",
    files = {{
{files}    }},
    license = "MIT",
    repo = "org/net",
    revision = "{revision}",
)
use_repo(executorch, "{name}")
"""
_FILES = {
    "1_Pooling/config.json": b'{"pooling": "mean"}',
    "README.md": b"# A model\n",
    "chat_template.jinja": b"{{ messages }}",
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": bytes(range(256)) * 400,
    "tokenizer.json": b"{}",
}


class Fetcher:
    """A workspace with a model of the hub."""

    def __init__(self, empty: EmptyWorkspace, caches: Path) -> None:
        self._workspace = empty
        self._caches = caches
        self._external = empty.base / "external"
        (empty.folder / "BUILD.bazel").touch()
        self.hub = FakeHub()
        self.commit = self.hub.add("org/net", _FILES, license="mit")
        self.choose("net", self.commit)

    def choose(self, name: str, revision: str) -> None:
        """Writes the module's file."""
        hashes = {path: hashlib.sha256(data).hexdigest() for path, data in _FILES.items()}
        files = "".join(f'        "{path}": "{sha256}",\n' for path, sha256 in hashes.items())
        module = self._workspace.module
        (self._workspace.folder / "MODULE.bazel").write_text(
            _MODULE.format(module=module, name=name, revision=revision, files=files)
        )

    def run(
        self, *words: str, token: str = "", netrc: str = "", cache: str = "first"
    ) -> subprocess.CompletedProcess[str]:
        """Runs Bazel with the fake hub; the cache is the name of a repository cache."""
        command, *rest = words
        environment = {
            **os.environ,
            "HF_ENDPOINT": self.hub.endpoint,
            "HF_TOKEN": token,
            "NETRC": netrc,
        }
        return self._workspace.run(
            command,
            f"--repository_cache={self._caches / cache}",
            *rest,
            environment={name: text for name, text in environment.items() if text},
        )

    def fetched(self, name: str) -> dict[str, bytes]:
        """Contents of the files of a repository."""
        (folder,) = self._external.glob(f"*executorch[~+]{name}")
        paths = [p for p in folder.rglob("*") if p.is_file()]
        every = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
        return {path: data for path, data in every.items() if path in _FILES}

    def recorded(self) -> str:
        """Bazel's notes on the repositories that it fetched."""
        return "".join(p.read_text() for p in self._external.glob("@*.marker"))


@pytest.fixture(scope="module")
def fetcher(empty: EmptyWorkspace, tmp_path_factory: pytest.TempPathFactory) -> Fetcher:
    empty.clear()
    return Fetcher(empty, tmp_path_factory.mktemp("caches"))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("gated", "GET returned 401"),
        ("missing", "GET returned 404"),
        ("busy", "GET returned 429"),
        ("changed", "Checksum was "),
        ("truncated", ""),
    ],
)
def test_a_hub_that_refuses_or_lies(fetcher: Fetcher, fault: str, reason: str) -> None:
    fetcher.hub.fault, fetcher.hub.busy = fault, 10_000
    # Bazel itself waits longer and longer between 8 attempts at a busy hub.
    done = fetcher.run("build", "--http_connector_attempts=2", "@net//:files")
    assert done.returncode != 0
    assert reason in done.stderr, done.stderr
    assert "files cannot be downloaded, such as" in done.stderr
    assert f"accept the license at {fetcher.hub.endpoint}/org/net and set HF_TOKEN" in done.stderr


def test_a_gated_model_with_a_token(fetcher: Fetcher) -> None:
    """The token goes to the hub alone, and into no record."""
    fetcher.hub.fault = "gated"
    fetcher.hub.requests.clear()
    done = fetcher.run("build", "@net//:files", token=fetcher.hub.token)
    assert done.returncode == 0, done.stderr
    assert fetcher.fetched("net") == _FILES
    tokens = {server: token for server, _, token in fetcher.hub.requests}
    assert tokens == {"hub": f"Bearer {fetcher.hub.token}", "files": ""}
    assert fetcher.hub.token not in fetcher.recorded() != ""


def test_another_token_fetches_nothing(fetcher: Fetcher) -> None:
    fetcher.hub.requests.clear()
    assert fetcher.run("build", "@net//:files", token="hf_other").returncode == 0
    assert fetcher.hub.requests == []


def test_the_targets(fetcher: Fetcher) -> None:
    def files_of(target: str) -> list[str]:
        done = fetcher.run("query", f"labels(srcs, @net//:{target})")
        assert done.returncode == 0, done.stderr
        return sorted(line.partition("//:")[2] for line in done.stdout.splitlines())

    assert files_of("checkpoint") == ["1_Pooling/config.json", "config.json", "model.safetensors"]
    assert files_of("tokenizer") == ["chat_template.jinja", "tokenizer.json"]


def test_a_gated_model_with_netrc(fetcher: Fetcher, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {fetcher.hub.token}\n")
    fetcher.choose("by_netrc", fetcher.commit)
    fetcher.hub.requests.clear()
    done = fetcher.run("build", "@by_netrc//:config.json", netrc=str(netrc), cache="second")
    assert done.returncode == 0, done.stderr
    assert fetcher.fetched("by_netrc") == _FILES
    tokens = {server: token for server, _, token in fetcher.hub.requests}
    assert tokens == {"hub": f"Bearer {fetcher.hub.token}", "files": ""}


def test_the_hub_is_away(fetcher: Fetcher) -> None:
    """A repository of another name has its files from Bazel's repository cache."""
    fetcher.hub.close()
    fetcher.choose("again", fetcher.commit)
    done = fetcher.run("build", "@again//:files")
    assert done.returncode == 0, done.stderr
    assert fetcher.fetched("again") == _FILES


def test_a_branch(fetcher: Fetcher) -> None:
    fetcher.choose("branch", "main")
    done = fetcher.run("build", "@branch//:files")
    assert done.returncode != 0
    assert 'revision: got "main", expected a commit of 40 hex digits.' in done.stderr
