"""Why Bazel could not download a file, as the repository rule says it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ethub import diagnosis
from fake_hub import FakeHub

WEIGHTS = bytes(range(256)) * 40
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()
CHANGED = hashlib.sha256(bytes(len(WEIGHTS))).hexdigest()


def said(hub: FakeHub, commit: str, path: str = "model.safetensors", sha256: str = SHA256) -> str:
    """What the program prints, started as the repository rule starts it."""
    program = Path(diagnosis.__file__)
    done = subprocess.run(
        [sys.executable, "-I", "-B", program, "org/net", commit, path, sha256],
        env={"HF_ENDPOINT": hub.endpoint, "PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def commit(hub: FakeHub) -> str:
    return hub.add("org/net", {"model.safetensors": WEIGHTS, "config.json": b"{}"})


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("", "the download was interrupted: the hub has the expected file now. Build again."),
        ("busy", "too many requests: got status 429 from 127.0.0.1:"),
        (
            "changed",
            f"the file is not the pinned one: got sha256 {CHANGED}",
        ),
        ("gated", "the model is gated: got status 401, and no token is set. Accept the license"),
        ("loop", "got a loop of redirects"),
        ("missing", "not found: got status 404 EntryNotFound."),
        ("truncated", "arrived truncated or changed: got 3413 bytes, expected 10240 bytes."),
    ],
)
def test_why(hub: FakeHub, commit: str, fault: str, message: str) -> None:
    hub.fault, hub.busy, hub.retry_after = fault, 99, "33"
    text = said(hub, commit)
    assert text.startswith(f"model.safetensors of org/net at {commit}: ")
    assert message in text


@pytest.mark.parametrize("path", ["model.safetensors", "config.json"])
def test_a_wrong_hash(hub: FakeHub, commit: str, path: str) -> None:
    """Of a file in LFS the hub says the hash, others are read."""
    text = said(hub, commit, path, "0" * 64)
    assert "the file is not the pinned one: got sha256 " in text
    assert f"expected {'0' * 64}. Correct the hash with" in text
    assert "files" not in {server for server, *_ in hub.requests} or path == "model.safetensors"


def test_the_hub_is_down(hub: FakeHub, commit: str) -> None:
    hub.close()
    assert "cannot be reached" in said(hub, commit)
