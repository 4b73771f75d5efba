"""Failures of the wrong interpreter, and of pip where locks are written, as a person sees them."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import INSTALLER
from install import cli
from lock import locking, pip_tool

UNREACHABLE = """\
Looking in indexes: https://cpu.example/whl
WARNING: Retrying (Retry(total=4)) after connection broken: Connection refused: /whl/torch/
WARNING: Retrying (Retry(total=0)) after connection broken: Connection refused: /whl/torch/
WARNING: There was an error checking the latest version of pip.
ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: none)
ERROR: No matching distribution found for torch==2.13.0
"""


def test_an_index_that_cannot_be_reached() -> None:
    """The message has what pip did, and its reason once."""
    message = str(pip_tool.explain(UNREACHABLE, "pip install of torch"))
    assert message.startswith("pip install of torch: the package index cannot be reached. Check ")
    assert message.count("Connection refused") == 1
    assert "checking the latest version" not in message


def test_not_found() -> None:
    """The package, and what pip saw."""
    output = UNREACHABLE.replace("Retrying", "Nothing")
    message = str(pip_tool.explain(output, "pip install of 3 packages"))
    assert message.startswith("pip install of 3 packages: no wheel of torch==2.13.0 for this mach")
    assert "\n  ERROR: Could not find a version that satisfies" in message


def test_other_failure() -> None:
    """Anything else: pip's own last words."""
    message = str(pip_tool.explain("ERROR: disk quota exceeded\n", "pip install of a"))
    assert message.startswith("pip install of a: pip failed. ")
    assert message.endswith("pip says:\n  ERROR: disk quota exceeded")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program as the repository rule does."""
    command = [sys.executable, "-I", "-B", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_no_pip() -> None:
    """This test's interpreter has neither pip, nor ensurepip to get one; only locks need one."""
    assert run(INSTALLER, "--help").returncode == 0
    done = run(INSTALLER.parent / "lock", "--help")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {sys.executable}: no usable pip: got pip 0 and no ensu")
    assert "RULES_EXECUTORCH_PYTHON" in done.stderr


def test_old_pip(tmp_path: Path) -> None:
    """It counts as none."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/__init__.py").write_text("__version__ = '20.3.4'\n")
    code = f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['x', '--help']; "
    code += f"runpy.run_path({str(INSTALLER.parent / 'lock')!r}, run_name='__main__')"
    command = [sys.executable, "-I", "-B", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no usable pip: got pip 20.3.4 and no ensurepip, expected pip 22 or newer" in done.stderr


def test_wrong_version() -> None:
    """The entry point names got, expected and where to name another Python."""
    main = runpy.run_path(str(INSTALLER / "bootstrap.py"), run_name="read")
    message = main["wrong_version"]((3, 9, 18), "/usr/bin/python3.9")
    assert message.startswith(
        "error: /usr/bin/python3.9: wrong version: got Python 3.9, expected Python 3.11. "
    )
    assert "attribute `python`" in message
    assert "RULES_EXECUTORCH_PYTHON" in message


@pytest.mark.parametrize(
    "file", ["install/__main__.py", "install/bootstrap.py", "lock/__main__.py"]
)
def test_entry_points_are_old_syntax(file: str) -> None:
    """Nothing that a Python of ten years ago cannot parse, so that the message is seen."""
    text = (INSTALLER.parent / file).read_text()
    assert 'f"' not in text
    assert "->" not in text
    assert ": str" not in text
    assert text.isascii()


def test_a_lock_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A message, exit code 1, and nothing left behind."""
    lock, out = tmp_path / "none.txt", tmp_path / "out"
    assert cli.main(["--locks", str(lock), "--output", str(out)]) == 1
    assert f"error: {lock}: No such file or directory." in capsys.readouterr().err
    assert list(out.iterdir()) == []


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Both programs can be asked what they do."""
    for main in (cli.main, locking.main):
        with pytest.raises(SystemExit) as caught:
            main(["--help"])
        assert caught.value.code == 0
    assert "--cpu-index" in capsys.readouterr().out
