"""The script that `bazel run` starts: with packages of its own, whatever the user's shell has."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from synthetic import SyntheticProgram


def et(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Starts it as a user does without `bazel run`."""
    script = str(Path(os.environ["ET"]).absolute())
    return subprocess.run(
        [script, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_packages_of_the_shell_are_left_out(tmp_path: Path) -> None:
    for name in ("rich", "executorch", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a package of the shell')\n")
    SyntheticProgram().write(tmp_path / "p.pte")
    done = et("inspect", "p.pte", "--json", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["kind"] == "program"


def test_exit_codes(tmp_path: Path) -> None:
    SyntheticProgram().write(tmp_path / "p.pte")
    SyntheticProgram(named={}).write(tmp_path / "q.pte")
    assert et("diff", "p.pte", "p.pte", cwd=tmp_path).returncode == 0
    assert et("diff", "p.pte", "q.pte", cwd=tmp_path).returncode == 1
    assert et("diff", "p.pte", "none.pte", cwd=tmp_path).returncode == 2
