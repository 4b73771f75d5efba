"""What is read from apt's output, and what of the machine's configuration is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from bootstrap import apt
from bootstrap.console import BootstrapError
from bootstrap.sources import Source

SIMULATION = """\
NOTE: This is only a simulation!
Reading package lists...
The following NEW packages will be installed:
  bazel-bootstrap libc6
Inst libc6 (2.43-7 Debian:unstable [amd64]) []
Inst libguava-java (33.7.1-1 Debian:unstable [all]) []
Inst libc6:i386 (2.43-7 Debian:unstable [i386])
Inst bazel-bootstrap (7.7.1+ds-8+b1 Debian:unstable [amd64])
Conf libc6 (2.43-7 Debian:unstable [amd64])
"""

SOURCE = Source("http://127.0.0.1:9/debian", ("sid",), "/k.gpg", "/etc/apt/sources.list")


def test_closure() -> None:
    """Packages to install, once each; lines about configuring them do not count."""
    assert apt.parse_closure(SIMULATION) == ["libc6", "libguava-java", "bazel-bootstrap"]


def test_kept_configuration() -> None:
    """Proxies and certificates are kept; hooks that write to the system are not."""
    dump = """\
APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb || true";
DPkg::Post-Invoke:: "touch /etc/x";
Dir::Cache::pkgcache "";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::https::CaInfo "/etc/ssl/own.pem";
Acquire::Check-Valid-Until "false";
Acquire::Languages "de";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "true";
"""
    assert apt.kept_configuration(dump) == [
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::https::CaInfo "/etc/ssl/own.pem";',
        'Acquire::Check-Valid-Until "false";',
    ]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fake apt programs that fail with what a file says."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("apt-get", "apt-cache", "apt-config", "dpkg-deb"):
        program = directory / name
        program.write_text(f'#!/bin/sh\ncat "{tmp_path}/stderr" >&2\nexit 100\n')
        program.chmod(0o755)
    (tmp_path / "stderr").write_text("")
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return directory


def test_state_is_its_own(tmp_path: Path, tools: Path) -> None:
    """Nothing of the machine's package state is named in the configuration."""
    apt.Apt(tmp_path / "apt", SOURCE)
    assert tools.is_dir()
    configuration = (tmp_path / "apt/apt.conf").read_text()
    for setting in ("Dir::State ", "Dir::State::status ", "Dir::Cache ", "Dir::Etc::sourcelist "):
        line = next(line for line in configuration.splitlines() if line.startswith(setting))
        assert str(tmp_path / "apt") in line
    sources = (tmp_path / "apt/sources.list").read_text()
    assert sources == "deb [signed-by=/k.gpg] http://127.0.0.1:9/debian sid main\n"


def test_other_suite(tmp_path: Path, tools: Path) -> None:
    """Packages of another release and for another processor."""
    assert tools.is_dir()
    apt.Apt(tmp_path / "apt", SOURCE, suite="bookworm", architecture="arm64")
    assert (tmp_path / "apt/sources.list").read_text().endswith("/debian bookworm main\n")
    configuration = (tmp_path / "apt/apt.conf").read_text()
    assert 'APT::Architectures { "arm64"; };' in configuration


@pytest.mark.parametrize(
    ("stderr", "remedy"),
    [
        ("W: GPG error: NO_PUBKEY 123\nE: The repository is not signed.", "debian-archive-keyring"),
        ("E: Could not connect", "RULES_EXECUTORCH_DEBIAN_MIRROR"),
        ("E: write error - write (28: No space left on device)", "disk space"),
    ],
)
def test_failures_tell_what_to_do(tmp_path: Path, tools: Path, stderr: str, remedy: str) -> None:
    """apt's own words, the archive, who named it, and a remedy."""
    assert tools.is_dir()
    (tmp_path / "stderr").write_text(stderr)
    with pytest.raises(BootstrapError) as caught:
        apt.Apt(tmp_path / "apt", SOURCE).update()
    assert stderr.splitlines()[-1] in caught.value.reason
    assert "http://127.0.0.1:9/debian" in caught.value.reason
    assert "/etc/apt/sources.list" in caught.value.reason
    assert remedy in " ".join(caught.value.remedies)


def test_without_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BootstrapError, match="apt-get is not on PATH"):
        apt.Apt(tmp_path / "apt", SOURCE)
