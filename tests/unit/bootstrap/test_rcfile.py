"""The generated rc file, what is read from the user's, and replacements that it names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bootstrap.modules import COVERAGE_TOOLS, provide_stub, read_module
from bootstrap.rcfile import read_user_options, render


def test_render() -> None:
    """No lock file with this machine's paths; overrides in order; a directory made visible."""
    overrides = {"rules_cc": Path("/c/cc"), "platforms": Path("/c/p")}
    text = render((7, 7, 1), overrides, Path("/c/cov"), [Path("/tmp/c")])
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == [
        "common --lockfile_mode=off",
        "common --noenable_workspace",
        "common --override_module=platforms=/c/p",
        "common --override_module=rules_cc=/c/cc",
        "common '--override_repository=bazel_tools~remote_coverage_tools_extension"
        "~remote_coverage_tools=/c/cov'",
        "build --sandbox_add_mount_pair=/tmp/c",
    ]


def test_render_paths_with_spaces() -> None:
    """A home directory may be called anything."""
    text = render((7, 7, 1), {"a": Path("/a home/a")}, Path("/c"))
    assert "common '--override_module=a=/a home/a'\n" in text


def test_render_for_newer_bazels() -> None:
    """Bazel 9 knows no WORKSPACE, and 8 writes repository names in another way."""
    assert "--noenable_workspace" in render((8, 0, 0), {}, Path("/c"))
    newest = render((9, 0, 0), {}, Path("/c"))
    assert "workspace" not in newest.lower()
    assert "bazel_tools+remote_coverage_tools_extension+remote_coverage_tools" in newest


def test_user_options(tmp_path: Path) -> None:
    """From the workspace, the home, imported files and the command line, in Bazel's order."""
    workspace, home = tmp_path / "w", tmp_path / "h"
    workspace.mkdir()
    home.mkdir()
    (workspace / ".bazelrc").write_text(
        "# common --override_module=commented=/x\n"
        "common --override_module=a=%workspace%/near --registry=file:///r # why\n"
        "build:ci --override_module=only_ci=/x\n"
        "build \\\n  --override_module=b=sub\n"
        "import %workspace%/more.bazelrc\n"
        "try-import %workspace%/gone.bazelrc\n"
        "import %workspace%/.bazelrc\n"
    )
    (workspace / "more.bazelrc").write_text("common --ignore_dev_dependency\n")
    (home / ".bazelrc").write_text("build --override_module=b=/home/b\n")
    options = read_user_options(
        workspace, str(home), ["build", "--override_module=c=/c", "--", "--override_module=d=/d"]
    )
    assert options.overrides == {
        "a": workspace / "near",
        "b": Path("/home/b"),
        "c": Path("/c"),
    }
    assert options.registries == ["file:///r"]
    assert options.ignore_dev
    assert [path.name for path in options.inputs] == [
        ".bazelrc",
        "more.bazelrc",
        "gone.bazelrc",
        ".bazelrc",
    ]


def test_rc_files_that_bazel_does_not_read(tmp_path: Path) -> None:
    """By the user's startup options."""
    (tmp_path / ".bazelrc").write_text("common --override_module=a=/a\n")
    (tmp_path / "own.bazelrc").write_text("common --override_module=b=/b\n")
    for options in (["--ignore_all_rc_files"], ["--noworkspace_rc", "--nohome_rc"]):
        assert not read_user_options(tmp_path, str(tmp_path), [*options, "build"]).overrides
    given = read_user_options(tmp_path, "", ["--noworkspace_rc", "--bazelrc=own.bazelrc"])
    assert given.overrides == {"b": Path("/b")}


def test_an_override_taken_back(tmp_path: Path) -> None:
    """An empty path takes an earlier override back."""
    options = read_user_options(tmp_path, "", ["--override_module=a=/a", "--override_module=a="])
    assert not options.overrides


def test_empty_module(tmp_path: Path) -> None:
    """It has its name and nothing else."""
    directory = provide_stub(tmp_path, "zlib")
    assert read_module(directory).name == "zlib"
    assert (directory / "BUILD.bazel").read_text() == ""


def test_written_once(tmp_path: Path) -> None:
    """Bazel shall not see files change, but an old placeholder is renewed."""
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
