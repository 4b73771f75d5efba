"""Which Debian packages make a Bazel, and how they are unpacked."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bootstrap.apt import Apt
from bootstrap.console import BootstrapError
from bootstrap.unpacked import merge
from bootstrap.versions import MINIMUM, Version, format_version, new_enough, parse_version

BAZEL_PACKAGE = "bazel-bootstrap"

# Modules that Bazel's own package does not depend on, and a user may name. Those that the archive
# lacks are left out.
EXTRA_MODULE_PACKAGES = (
    "bazel-aspect-bazel-lib",
    "bazel-lib",
    "bazel-rules-pkg",
    "bazel-rules-shell",
    "bazel-stardoc",
)

# Of the packages that Bazel needs, the ones that its client, its server and its helpers load. The
# others are a compiler, a JDK and what those need.
_NEEDED = re.compile(
    r"bazel-.*|.*-java|.*-jni\d*|junit4|velocity"
    r"|libc6|libstdc\+\+6|libgcc-s1|zlib1g|libgrpc.*|libabsl.*|libproto(?:buf|c)\d.*"
    r"|libcares2|libre2-.*|libssl\d.*|libzstd1|libsystemd0"
)
_NOT_NEEDED = re.compile(r"ca-certificates-java|java-common|.*-dev")


def needed_packages(closure: Iterable[str]) -> list[str]:
    """The packages of the closure that have to be unpacked."""
    return [name for name in closure if _NEEDED.fullmatch(name) and not _NOT_NEEDED.fullmatch(name)]


def library_packages(closure: Iterable[str]) -> list[str]:
    """The closure's other run-time libraries, in case the needed ones do not suffice."""
    needed = set(needed_packages(closure))
    return [
        name
        for name in closure
        if name.startswith("lib") and name not in needed and not _NOT_NEEDED.fullmatch(name)
    ]


def check_version(package_version: str) -> Version:
    """The version of Debian's Bazel.

    Raises:
        BootstrapError: it is too old.
    """
    version = parse_version(package_version)
    if version is None or not new_enough(version):
        raise BootstrapError(
            f"the archive has {BAZEL_PACKAGE} {package_version or '(unknown version)'}, "
            f"but {format_version(MINIMUM)} or newer is needed",
            ["Use an archive whose unstable suite is up to date, or install Bazel yourself."],
        )
    return version


def module_packages(apt: Apt) -> list[str]:
    """Packages that hold modules: those Bazel itself names, and the extra ones."""
    closure = [name for name in apt.closure([BAZEL_PACKAGE]) if name.startswith("bazel-")]
    own = [name for name in closure if not name.startswith(BAZEL_PACKAGE)]
    return list(dict.fromkeys([*own, *extra_module_packages(apt)]))


def extra_module_packages(apt: Apt) -> list[str]:
    """The extra modules that the archive has."""
    available = set(apt.available("bazel-"))
    return [name for name in EXTRA_MODULE_PACKAGES if name in available]


def unpack(archives: Sequence[Path], prefix: Path) -> None:
    """Unpacks packages below a directory; runs none of their scripts.

    Raises:
        BootstrapError: a package is damaged, or would write outside of the directory.
    """
    prefix.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".unpacking-", dir=prefix) as scratch,
        ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool,
    ):
        # Each in a directory of its own: a link of one package must not lead another's files away.
        places = [Path(scratch) / str(number) for number in range(len(archives))]
        list(pool.map(_unpack_one, archives, places))
        for number, archive in enumerate(archives):
            merge(places[number], prefix, archive.name)


def _unpack_one(archive: Path, place: Path) -> None:
    result = subprocess.run(
        ["dpkg-deb", "-x", str(archive), str(place)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode:
        raise BootstrapError(
            f"cannot unpack {archive.name}:\n{result.stderr.strip()}",
            ["Check the free disk space and fetch it again."],
        )
    archive.unlink()
