"""Unpacks Debian packages, each checked against a hash, with the machine's own Debian archive.

`packages.py --output DIRECTORY --suite SUITE --architecture ARCHITECTURE NAME=SHA256...`
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from bootstrap.console import BootstrapError, indented
from bootstrap.debian import Apt, unpack

_INSTEAD = (
    "Register your own toolchains (docs/howto/runtimes.md): then these packages are not fetched."
)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_hashes(archives: list[Path], sha256_by_package: dict[str, str]) -> None:
    """Compares downloaded packages with their pinned hashes.

    Args:
        archives: files as apt names them, `<package>_<version>_<architecture>.deb`.
        sha256_by_package: package to its sha256.

    Raises:
        BootstrapError: a package is missing, or has other contents.
    """
    archive_by_package = {archive.name.partition("_")[0]: archive for archive in archives}
    for package, sha256 in sha256_by_package.items():
        if package not in archive_by_package:
            raise BootstrapError(f"{package}: apt fetched no such package", [_INSTEAD])
        got = _sha256(archive_by_package[package])
        if got != sha256:
            raise BootstrapError(
                f"{archive_by_package[package].name}: wrong contents: got sha256 {got}, "
                f"expected sha256 {sha256}.",
                [
                    "If the archive has a newer version than the pinned one, update the hash: in "
                    "your own debian_packages(), or with a newer version of these rules.",
                    _INSTEAD,
                ],
            )


def fetch(output: Path, suite: str, architecture: str, sha256_by_package: dict[str, str]) -> None:
    """Fetches packages, checks them and unpacks them into a directory.

    Raises:
        BootstrapError: they are not available, or have other hashes.
    """
    with tempfile.TemporaryDirectory(prefix="apt-", dir=output) as scratch:
        apt = Apt(Path(scratch) / "apt", suite, architecture, _INSTEAD)
        apt.update()
        archives = apt.download(list(sha256_by_package), Path(scratch) / "archives")
        check_hashes(archives, sha256_by_package)
        unpack(archives, output)


def main(arguments: list[str]) -> int:
    """Runs the program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--architecture", required=True)
    parser.add_argument("packages", nargs="+", metavar="NAME=SHA256")
    options = parser.parse_args(arguments)
    sha256_by_package = dict(package.split("=", 1) for package in options.packages)
    try:
        fetch(options.output.resolve(), options.suite, options.architecture, sha256_by_package)
    except BootstrapError as error:
        print(f"error: {indented(error.reason)}", file=sys.stderr)
        for remedy in error.remedies:
            print(f"  what to do: {indented(remedy)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
