"""The network: whether a host answers, found out within seconds, and Bazelisk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from debian.command import ActionableError, last_line, run

from bootstrap.cache import Cache, exclusive, new_directory
from bootstrap.console import progress

# A name server that drops requests outlasts any time limit of a connection, so this one is ours.
TIME_LIMIT_SECONDS = 3.0

_BAZEL_HOSTS = ("https://releases.bazel.build/", "https://github.com/")
_BAZELISK_RELEASES = "https://github.com/bazelbuild/bazelisk/releases/latest/download"
_NPM_PACKAGE = "@bazel/bazelisk"
_DOWNLOAD_SECONDS = 120


def _ask(url: str) -> str:
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=TIME_LIMIT_SECONDS):
            return ""
    except urllib.error.HTTPError as error:
        # A missing page is an answer, too; a proxy's refusal or a broken gateway is not.
        refused = error.code in (403, 407, 451) or error.code >= 500
        return f"HTTP status {error.code}" if refused else ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return str(getattr(reason, "strerror", None) or reason)


def why_unreachable(url: str, ask: Callable[[str], str] = _ask) -> str:
    """Says why a host does not answer, with its name, or "" if it does."""
    if urlsplit(url).scheme == "file":
        return ""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(ask(url)), daemon=True)
    thread.start()
    thread.join(TIME_LIMIT_SECONDS + 0.5)
    answer = answers[0] if answers else f"no answer within {TIME_LIMIT_SECONDS:.0f} s"
    return f"{urlsplit(url).netloc or url}: {answer}" if answer else ""


def why_no_download() -> str:
    """Says why Bazelisk could not download a Bazel, or "" if it could."""
    mirror = os.environ.get("BAZELISK_BASE_URL", "")
    reasons = [why_unreachable(url) for url in ((mirror,) if mirror else _BAZEL_HOSTS)]
    return "" if "" in reasons else "; ".join(reasons)


def _from_npm(name: str, scratch: Path, target: Path) -> str:
    """Fetches Bazelisk with npm; returns why it cannot."""
    npm = shutil.which("npm")
    if not npm:
        return "npm: not found on PATH"
    command = [npm, "install", "--silent", "--ignore-scripts", f"--prefix={scratch}", _NPM_PACKAGE]
    try:
        result = run(command, cwd=scratch, timeout=_DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired:
        return f"npm: no answer within {_DOWNLOAD_SECONDS} s"
    program = scratch / "node_modules" / _NPM_PACKAGE / name
    if result.returncode or not program.is_file():
        return f"npm install {_NPM_PACKAGE}: {name} not found: {last_line(result)}"
    program.rename(target)
    return ""


def _from_releases(name: str, target: Path) -> str:
    """Fetches Bazelisk from its releases; returns why it cannot."""
    url = f"{_BAZELISK_RELEASES}/{name}"
    try:
        with urllib.request.urlopen(url, timeout=_DOWNLOAD_SECONDS) as response:
            target.write_bytes(response.read())
    except (OSError, ValueError) as error:
        return f"{url}: {error}"
    return ""


def provide_bazelisk(cache: Cache) -> Path:
    """The program `bazelisk` in the cache, fetched if it is not there."""
    program = cache.bazelisk / "bazelisk"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    with exclusive(cache.lock, "fetching Bazelisk"):
        if os.access(program, os.X_OK):
            return program
        progress("fetching Bazelisk")
        with new_directory(cache.bazelisk) as (directory, scratch):
            target = directory / program.name
            reason = _from_npm(f"bazelisk-{sys.platform}_{machine}", scratch, target)
            other = reason and _from_releases(f"bazelisk-{sys.platform}-{machine}", target)
            if other:
                raise ActionableError(f"cannot be fetched: {reason}; {other}")
            target.chmod(0o755)
    return program
