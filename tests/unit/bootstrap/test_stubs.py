"""Stand-ins for what Debian lacks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bootstrap.modulefile import parse_module_file
from bootstrap.stubs import COVERAGE_TOOLS, provide_stub


def test_empty_module(tmp_path: Path) -> None:
    """It has its name and nothing else."""
    directory = provide_stub(tmp_path, "zlib")
    assert parse_module_file((directory / "MODULE.bazel").read_text()).name == "zlib"
    assert (directory / "BUILD.bazel").read_text() == ""


def test_written_once(tmp_path: Path) -> None:
    """Bazel shall not see files change, but an old stand-in is renewed."""
    directory = provide_stub(tmp_path, "zlib")
    (directory / "BUILD.bazel").write_text("old")
    before = (directory / "MODULE.bazel").stat().st_mtime_ns
    provide_stub(tmp_path, "zlib")
    assert (directory / "MODULE.bazel").stat().st_mtime_ns == before
    assert (directory / "BUILD.bazel").read_text() == ""


def test_coverage_is_put_together(tmp_path: Path) -> None:
    """LCOV records of one test, and of all of them."""
    script = provide_stub(tmp_path, COVERAGE_TOOLS) / "merge.sh"
    assert os.access(script, os.X_OK)
    data = tmp_path / "data/deep"
    data.mkdir(parents=True)
    (data / "a.dat").write_text("SF:a\n")
    (data / "a.gcov").write_text("other")
    out = tmp_path / "out.dat"
    subprocess.run(
        [script, f"--coverage_dir={tmp_path}/data", f"--output_file={out}", "--filter_sources=x"],
        check=True,
    )
    assert out.read_text() == "SF:a\n"
    (tmp_path / "reports").write_text(f"{out}\n{tmp_path}/gone.dat\n{out}\n")
    subprocess.run(
        [script, f"--reports_file={tmp_path}/reports", f"--output_file={tmp_path}/all"], check=True
    )
    assert (tmp_path / "all").read_text() == "SF:a\nSF:a\n"
