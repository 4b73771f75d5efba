"""Which packages of the closure are taken."""

from __future__ import annotations

import pytest
from bootstrap.console import BootstrapError
from bootstrap.debian import check_version, library_packages, needed_packages

CLOSURE = [
    "gcc-16-base",
    "libc6",
    "libgcc-s1",
    "perl-base",
    "libsystemd0",
    "libssl3t64",
    "python3",
    "ca-certificates-java",
    "java-common",
    "openjdk-25-jre-headless",
    "bazel-bootstrap-data",
    "bazel-rules-cc",
    "libc6-dev",
    "libstdc++6",
    "libstdc++-16-dev",
    "libguava-java",
    "junit4",
    "velocity",
    "libzstd1",
    "libzstd-jni1",
    "libzstd-jni-java",
    "libprotobuf32t64",
    "libprotoc32t64",
    "libabsl20260526",
    "libcares2",
    "libre2-11",
    "libgrpc29t64",
    "libgrpc++1.51t64",
    "zlib1g",
    "zlib1g-dev",
    "bazel-bootstrap",
    "libasync-profiler-jni",
    "libbinutils",
]


def test_needed() -> None:
    """Bazel, jars and the run-time libraries of its programs; no compiler, no JDK."""
    needed = needed_packages(CLOSURE)
    for name in (
        "bazel-bootstrap",
        "bazel-bootstrap-data",
        "bazel-rules-cc",
        "junit4",
        "libabsl20260526",
        "libc6",
        "libgrpc++1.51t64",
        "libguava-java",
        "libprotobuf32t64",
        "libstdc++6",
        "libzstd-jni1",
        "velocity",
        "zlib1g",
    ):
        assert name in needed
    for name in (
        "ca-certificates-java",
        "gcc-16-base",
        "java-common",
        "libc6-dev",
        "libstdc++-16-dev",
        "openjdk-25-jre-headless",
        "perl-base",
        "python3",
        "zlib1g-dev",
    ):
        assert name not in needed


def test_other_libraries() -> None:
    """The second attempt takes run-time libraries that the first left out."""
    assert library_packages(CLOSURE) == ["libbinutils"]


def test_version_is_new_enough() -> None:
    """A package's version with Debian's own additions."""
    assert check_version("7.7.1+ds-8+b1") == (7, 7, 1)


@pytest.mark.parametrize("version", ["4.2.3+ds-12", "", "unknown"])
def test_version_is_too_old(version: str) -> None:
    """What was found and what is wanted."""
    with pytest.raises(BootstrapError, match=r"but 7\.7 or newer is needed"):
        check_version(version)
