"""Undeclared files and the network are refused."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etlower import guard as guard_module
from etlower.guard import Guard, nothing_refused


def refused(guard: Guard, opened: Path) -> str:
    with pytest.raises(BuildError) as caught, guard.watching():
        opened.read_text()
    return str(caught.value)


def test_undeclared_files(tmp_path: Path) -> None:
    secret, known = tmp_path / "secret.txt", tmp_path / "known.txt"
    secret.write_text("x")
    known.write_text("y")
    message = refused(Guard("//m:net", [known]), secret)
    assert message.startswith(
        f'//m:net: the code of its model or recipe opens "{secret}", which it'
    )
    assert 'ctx.file("name")' in message


def test_declared_files_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "inside").write_text("x")
    (tmp_path / "known").write_text("y")
    (tmp_path / "link").symlink_to(tmp_path / "known")
    (tmp_path / "folder2").write_text("z")
    guard = Guard("//m:net", [folder, tmp_path / "link"])
    with guard.watching():
        assert (folder / "inside").read_text() == "x"
        # By its own name and by that of the file that it leads to.
        assert (tmp_path / "link").read_text() == "y"
        assert (tmp_path / "known").read_text() == "y"
        assert Path("/etc/hostname").parent.is_dir()
        assert Path("/proc/self/status").read_text()
        # A file that isn't there is no secret.
        with pytest.raises(FileNotFoundError):
            (tmp_path / "nothing").read_text()
    assert "folder2" in refused(guard, tmp_path / "folder2")


def test_refusals_are_known_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work beside a request asks before its result is used."""
    monkeypatch.setattr(guard_module, "_refusals", [])
    secret = tmp_path / "secret"
    secret.write_text("x")
    with pytest.raises(BuildError), Guard("//m:n", []).watching():
        assert nothing_refused()
        with contextlib.suppress(BuildError):
            secret.read_text()
        assert not nothing_refused()


def test_code_that_goes_on(tmp_path: Path) -> None:
    """A refusal that the code swallows is an error nevertheless."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    with (
        pytest.raises(BuildError, match="which it does not declare"),
        Guard("//m:n", []).watching(),
        contextlib.suppress(Exception),
    ):
        secret.read_text()


def test_afterwards(tmp_path: Path) -> None:
    """Only a request is watched."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    with Guard("//m:net", []).watching():
        pass
    assert secret.read_text() == "x"


@pytest.mark.parametrize("lookup", [True, False])
def test_network(lookup: bool) -> None:
    expected = r"//m:net: .* opens a network connection to 127\.0\.0\.1"
    with (
        pytest.raises(BuildError, match=expected) as caught,
        Guard("//m:net", []).watching(),
        socket.socket() as connection,
    ):
        if lookup:
            socket.getaddrinfo("127.0.0.1", 9)
        connection.connect(("127.0.0.1", 9))
    assert "add that to data" in str(caught.value)


def test_sockets_of_this_machine(tmp_path: Path) -> None:
    with Guard("//m:net", []).watching():
        one, other = socket.socketpair()
        one.sendall(b"x")
        assert other.recv(1) == b"x"


def test_folders_of_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each system's own folders are open there; those of another one are a user's."""
    system = tmp_path / "System"
    (system / "Library").mkdir(parents=True)
    framework = system / "Library/framework"
    framework.write_text("x")
    monkeypatch.setattr(guard_module, "_SYSTEM_OF_MACOS", (str(system),))
    assert "framework" in refused(Guard("//m:net", []), framework)
    monkeypatch.setattr(sys, "platform", "darwin")
    with Guard("//m:net", []).watching():
        assert framework.read_text() == "x"
