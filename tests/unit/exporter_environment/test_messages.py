"""Failures of pip and of the wrong interpreter, as a person gets to see them."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from exporter_environment import cli, pip_tool
from exporter_environment.errors import InstallError
from fake_pip import INSTALLER

GOT, WANTED, OTHER = "1" * 64, "2" * 64, "3" * 64

MISMATCH = f"""\
Looking in links: /somewhere
WARNING: something else
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated …
    pluggy==1.7.0 from https://files.example/pluggy-1.7.0-py3-none-any.whl#sha256=77 (from -r x):
        Expected sha256 {WANTED}
        Expected     or {OTHER}
             Got        {GOT}
"""

UNREACHABLE = """\
Looking in indexes: https://cpu.example/whl
WARNING: Retrying (Retry(total=4)) after connection broken: Connection refused: /whl/torch/
WARNING: Retrying (Retry(total=0)) after connection broken: Connection refused: /whl/torch/
WARNING: There was an error checking the latest version of pip.
ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: none)
ERROR: No matching distribution found for torch==2.13.0
"""


def test_hash_mismatch() -> None:
    """File, got, wanted and what to do."""
    message = str(pip_tool.explain(MISMATCH, doing="pip download of pluggy"))
    assert "where: https://files.example/pluggy-1.7.0-py3-none-any.whl\n" in message
    assert f"got: sha256 {GOT}" in message
    assert f"wanted: sha256 {WANTED}, or one of the lock's 1 other hashes" in message
    assert "cut short" in message
    assert "pip cache purge" in message


def test_not_found() -> None:
    """The package, what pip saw, and the additional hint."""
    message = str(pip_tool.explain(UNREACHABLE, doing="pip download of torch", hint="use a mirror"))
    assert message.startswith("no wheel of torch==2.13.0 for this machine can be found")
    assert message.count("Connection refused") == 1
    assert "checking the latest version" not in message
    assert message.endswith("use a mirror")


def test_other_failure() -> None:
    """Anything else: pip's own last words."""
    message = str(pip_tool.explain("ERROR: disk quota exceeded\n", doing="pip download of a"))
    assert "got: ERROR: disk quota exceeded" in message
    assert "where: pip download of a" in message


def test_no_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pip, and nothing to make one of."""
    monkeypatch.setattr(pip_tool, "_probe", lambda command: None)
    monkeypatch.setattr(pip_tool, "_bootstrap", lambda place: None)
    with pytest.raises(InstallError, match="no pip that can be used") as caught:
        pip_tool.find(tmp_path)
    assert sys.executable in str(caught.value)
    assert "RULES_EXECUTORCH_PYTHON" in str(caught.value)


def test_old_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old pip is replaced by ensurepip's, if that is newer."""
    old, new = pip_tool.Pip(("old",), (20, 0)), pip_tool.Pip(("new",), (24, 0))
    monkeypatch.setattr(pip_tool, "_probe", lambda command: old)
    monkeypatch.setattr(pip_tool, "_bootstrap", lambda place: new)
    assert pip_tool.find(tmp_path) is new
    monkeypatch.setattr(pip_tool, "_bootstrap", lambda place: None)
    with pytest.raises(InstallError, match=r"got: pip 20\.0"):
        pip_tool.find(tmp_path)


def test_wrong_version() -> None:
    """The entry point names got, wanted and where to name another Python."""
    main = runpy.run_path(str(INSTALLER / "__main__.py"), run_name="read")
    message = main["wrong_version"]((3, 9, 18), "/usr/bin/python3.9")
    assert "where: /usr/bin/python3.9" in message
    assert "got: Python 3.9" in message
    assert "wanted: Python 3.11" in message
    assert "attribute `python`" in message
    assert "RULES_EXECUTORCH_PYTHON" in message


def test_entry_point_is_old_syntax() -> None:
    """Nothing that a Python of ten years ago can't parse, so that the message is seen."""
    text = (INSTALLER / "__main__.py").read_text()
    assert 'f"' not in text
    assert "->" not in text
    assert ": str" not in text
    assert text.isascii()


def test_as_a_program(tmp_path: Path) -> None:
    """Run as the repository rule runs it: a message, exit code 1, and nothing left behind."""
    command = [sys.executable, "-I", "-B", str(INSTALLER), "--lock", str(tmp_path / "none.txt")]
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: a lock can't be read"
    assert list((tmp_path / "out").iterdir()) == []


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """All commands can be asked what they do."""
    for arguments in (["--help"], ["lock", "--help"], ["audit", "--help"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 0
    assert "--cpu-index" in capsys.readouterr().out
