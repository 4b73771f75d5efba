"""Unpacks Debian packages, each checked against a hash, with the machine's own Debian archive.

`packages.py --output DIRECTORY --suite SUITE --architecture ARCHITECTURE [--purpose TEXT]
NAME=VERSION#SHA256...`

Packages with `--archives` were downloaded and checked before; without others, no archive is asked.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from debian.apt import MIRROR_VARIABLE, Apt, unpack
from debian.command import ActionableError, indented

_INSTEAD = (
    "Register your own toolchains (docs/howto/runtimes.md): then these packages are not fetched."
)
# Names the distribution.
_RELEASE = Path("/etc/os-release")


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_hashes(archives: list[Path], sha256_by_package: dict[str, str]) -> None:
    """Compares downloaded packages with their pinned hashes.

    Args:
        archives: files as apt names them, `<package>_<version>_<architecture>.deb`.
        sha256_by_package: package, as `name` or `name=version`, to its sha256.

    Raises:
        ActionableError: a package is missing, or has other contents.
    """
    archive_by_package = {archive.name.partition("_")[0]: archive for archive in archives}
    for pin, sha256 in sha256_by_package.items():
        package = pin.partition("=")[0]
        if package not in archive_by_package:
            raise ActionableError(f"{package}: apt fetched no such package", [_INSTEAD])
        got = _sha256(archive_by_package[package])
        if got != sha256:
            raise ActionableError(
                f"{archive_by_package[package].name}: wrong contents: got sha256 {got}, "
                f"expected sha256 {sha256}.",
                [
                    "Name the version in debian_packages() (`name=version`), and check its hash: "
                    "the archive, or a proxy before it, has another file.",
                    _INSTEAD,
                ],
            )


def check_versions(
    available: Mapping[str, Sequence[str]], sha256_by_package: Mapping[str, str], archive: str
) -> None:
    """Compares the versions of an archive with the pinned ones.

    Args:
        available: package to the versions that the archive has, the newest first.
        sha256_by_package: `name=version` to sha256; a name without a version is the newest.
        archive: its address and suite, for messages.

    Raises:
        ActionableError: packages moved on; the message has each of them.
    """
    moved = []
    for pin, sha256 in sorted(sha256_by_package.items()):
        package, _, version = pin.partition("=")
        versions = available.get(package, ())
        if version and version not in versions:
            moved.append(
                f"{package}: version in the archive: got {versions[0] if versions else 'none'}, "
                f"expected {version} (sha256 {sha256})"
            )
    if moved:
        raise ActionableError(
            "\n".join([f"{archive}: packages moved on:", *moved]),
            [
                "Add a line `<URL>#sha256=<sha256>` for the expected version, e.g. of an archive "
                "of snapshots, to a list of executorch.file_urls() in your MODULE.bazel, or set "
                f"{MIRROR_VARIABLE} to a mirror that still has it.",
                "Or update the pin: in your own debian_packages(), or with a newer version of "
                "these rules.",
                _INSTEAD,
            ],
        )


def no_apt(sha256_by_package: Mapping[str, str]) -> ActionableError:
    """The message for a machine that is not of Debian's kind."""
    pins = "".join(f"\n{pin}: #sha256={sha256}" for pin, sha256 in sha256_by_package.items())
    try:
        release = _RELEASE.read_text(encoding="utf-8")
    except OSError:
        release = ""
    remedies = [
        "Add a line `<URL>#sha256=<sha256>` for each of these files to a list of "
        f"executorch.file_urls() in your MODULE.bazel; Bazel then downloads them:{pins}",
        _INSTEAD,
    ]
    if "fedora" in release or "rhel" in release:
        remedies[:0] = [
            "Install apt and Debian's keys (`dnf install apt debian-keyring`), and set "
            f"{MIRROR_VARIABLE} to a Debian mirror."
        ]
    return ActionableError("apt-get: not found on PATH; it fetches Debian packages", remedies)


def fetch(
    output: Path,
    suite: str,
    architecture: str,
    sha256_by_package: dict[str, str],
    downloaded: Sequence[Path] = (),
) -> int:
    """Fetches packages, checks them, and unpacks them and the downloaded ones into a directory.

    Returns:
        The bytes of all packages.

    Raises:
        ActionableError: they are not available, or have other hashes.
    """
    with tempfile.TemporaryDirectory(prefix="apt-", dir=output) as scratch:
        archives = list(downloaded)
        if sha256_by_package:
            if not shutil.which("apt-get"):
                raise no_apt(sha256_by_package)
            apt = Apt(Path(scratch) / "apt", suite, architecture, _INSTEAD)
            apt.update()
            names = [pin.partition("=")[0] for pin in sha256_by_package]
            check_versions(apt.versions(names), sha256_by_package, f"{apt.uri} {suite}")
            fetched = apt.download(list(sha256_by_package), Path(scratch) / "archives")
            check_hashes(fetched, sha256_by_package)
            archives += fetched
        # Before they are unpacked, which removes them.
        size = sum(archive.stat().st_size for archive in archives)
        unpack(sorted(archives, key=lambda archive: archive.name), output)
        return size


def _counted(packages: int) -> str:
    return f"{packages} package{'' if packages == 1 else 's'}"


def main(arguments: list[str]) -> int:
    """Runs the program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--architecture", required=True)
    parser.add_argument("--archives", action="append", default=[], type=Path, metavar="FILE")
    parser.add_argument("--purpose", default="")
    parser.add_argument("packages", nargs="*", metavar="NAME=VERSION#SHA256")
    options = parser.parse_args(arguments)
    sha256_by_package = dict(package.split("#", 1) for package in options.packages)
    output = options.output.resolve()
    count = len(sha256_by_package) + len(options.archives)
    if options.purpose:
        print(f"{options.purpose}: {_counted(count)}", file=sys.stderr, flush=True)
    try:
        size = fetch(
            output, options.suite, options.architecture, sha256_by_package, options.archives
        )
    except ActionableError as error:
        print(f"error: {indented(error.reason)}", file=sys.stderr)
        for remedy in error.remedies:
            print(f"  what to do: {indented(remedy)}", file=sys.stderr)
        return 1
    if options.purpose:
        print(f"fetched {_counted(count)}, {size / 1e6:.1f} MB", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
