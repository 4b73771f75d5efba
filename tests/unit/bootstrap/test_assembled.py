"""`bazelw` with an assembled Bazel in its cache: options, rc file, modules, reuse."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from bootstrap.cache import SCHEMA
from fake_machine import Machine

LABEL = "7.7.1"


@pytest.fixture
def prefix(machine: Machine) -> Path:
    """A cache as after assembling, with a fake for the client."""
    prefix = machine.cache / f"bazel-{SCHEMA}-{os.uname().machine}"
    machine.fake(str(prefix.relative_to(machine.root) / "usr/bin/bazel"))
    base = prefix / "usr/share/bazel"
    for path, text in {
        "build-label.txt": f"{LABEL}\n",
        "embedded_tools/MODULE.bazel": 'bazel_dep(name = "rules_cc", version = "1")\n'
        'bazel_dep(name = "zlib", version = "1")\n',
        "rules/cc/MODULE.bazel": 'module(name = "rules_cc")\n',
        "rules/shell/MODULE.bazel": 'module(name = "rules_shell")\n',
    }.items():
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_text(text)
    (prefix / "bazelw-complete").write_text(f"{prefix}\n")
    return prefix


def rc_file(output: str) -> Path:
    """The rc file that a fake was started with."""
    return Path(output.partition("<--bazelrc=")[2].partition(">")[0])


def test_options(machine: Machine, prefix: Path) -> None:
    """Startup options go first, then the user's."""
    output = machine.bazelw("--output_base=/o", "build", "//...").stdout
    assert f"<--nosystem_rc> <--install_base={prefix}/usr/share/bazel>" in output
    assert f"<--server_javabase={prefix}/jre>" in output
    assert output.endswith("<--output_base=/o> <build> <//...>\n")


def test_version_without_a_server(machine: Machine, prefix: Path) -> None:
    """Debian's client cannot tell its version itself."""
    assert prefix.is_dir()
    assert machine.bazelw("--version").stdout == f"bazel {LABEL}\n"


def test_rc_file(machine: Machine, prefix: Path) -> None:
    """Modules of the graph, no others; empty ones for what Debian lacks."""
    text = rc_file(machine.bazelw("build").stdout).read_text()
    assert f"common --override_module=rules_cc={prefix}/usr/share/bazel/rules/cc\n" in text
    assert f"common --override_module=zlib={machine.cache}/stubs/zlib\n" in text
    assert "rules_shell" not in text
    assert "common --lockfile_mode=off\n" in text


def test_changes_count_at_once(machine: Machine, prefix: Path) -> None:
    """A new dependency, also one further away, and one that goes again."""
    assert prefix.is_dir()
    module_file = machine.workspace / "MODULE.bazel"
    near = machine.root / "near"
    near.mkdir()
    (near / "MODULE.bazel").write_text('module(name = "near")\n')
    module_file.write_text(
        'bazel_dep(name = "near")\nlocal_path_override(module_name = "near", path = "../near")\n'
    )
    before = rc_file(machine.bazelw("build").stdout).read_text()
    assert "rules_shell" not in before
    stamp = (near / "MODULE.bazel").stat()
    (near / "MODULE.bazel").write_text('bazel_dep(name = "rules_shell", version = "1")\n')
    os.utime(near / "MODULE.bazel", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert "rules_shell" in rc_file(machine.bazelw("build").stdout).read_text()
    (machine.workspace / ".bazelrc").write_text(
        "common --override_module=rules_shell=%workspace%/shell\n"
    )
    assert "rules_shell" not in rc_file(machine.bazelw("build").stdout).read_text()


def test_nothing_is_written_when_nothing_changes(machine: Machine, prefix: Path) -> None:
    """The decision holds, also with strange bytes in a file."""
    assert prefix.is_dir()
    module_file = machine.workspace / "MODULE.bazel"
    module_file.write_bytes("# gr\u00fc\u00df \\ %s $(x)  \n\n".encode() + b"# \xff\n\tx = 1")
    machine.bazelw("build")
    decision = machine.cache / f"workspaces{machine.workspace}/@decision"
    before = decision.stat().st_mtime_ns
    for _ in range(2):
        machine.bazelw("build")
    assert decision.stat().st_mtime_ns == before
    module_file.write_bytes(module_file.read_bytes() + b"\n")
    machine.bazelw("build")
    assert decision.stat().st_mtime_ns != before


def test_all_rc_files_ignored(machine: Machine, prefix: Path) -> None:
    """Bazel would ignore ours, too: the same is said in other words."""
    assert prefix.is_dir()
    output = machine.bazelw(
        "--ignore_all_rc_files", "--bazelrc=mine", "run", "//x", "--", "--bazelrc=kept"
    ).stdout
    assert "ignore_all" not in output
    assert "<--bazelrc=mine>" not in output
    assert "<--nosystem_rc> <--nohome_rc> <--noworkspace_rc> <run> <//x>" in output
    assert output.endswith("<--> <--bazelrc=kept>\n")


def test_unavailable_module(machine: Machine, prefix: Path) -> None:
    """A warning that says what will happen and what to do, once."""
    assert prefix.is_dir()
    (machine.workspace / "MODULE.bazel").write_text('bazel_dep(name = "gazelle", version = "1")\n')
    result = machine.bazelw("build")
    assert result.returncode == 0
    assert "MODULE.bazel: not packaged by Debian: got gazelle. If" in result.stderr
    assert "local_path_override" in result.stderr
    assert machine.bazelw("build").stderr == ""


def test_own_registry(machine: Machine, prefix: Path) -> None:
    """Whoever names a registry gets further modules from there."""
    assert prefix.is_dir()
    (machine.workspace / "MODULE.bazel").write_text('bazel_dep(name = "gazelle", version = "1")\n')
    assert machine.bazelw("build", "--registry=file:///r").stderr == ""


def test_other_version_wanted(machine: Machine, prefix: Path) -> None:
    """Only one version can be assembled; a file that asks for that one is fine."""
    assert prefix.is_dir()
    wanted = machine.workspace / ".bazelversion"
    wanted.write_text(f"{LABEL}\n")
    assert machine.bazelw("build").stderr == ""
    wanted.write_text("8.4.2\n")
    result = machine.bazelw("build")
    assert result.returncode == 0
    assert ".bazelversion: not available here: got 8.4.2, expected 7.7.1" in result.stderr


def test_broken_module_file(machine: Machine, prefix: Path) -> None:
    """Bazel reports it, not we."""
    assert prefix.is_dir()
    (machine.workspace / "MODULE.bazel").write_text("module(\n")
    result = machine.bazelw("build")
    assert result.returncode == 0
    assert result.stderr == ""


def test_outside_of_a_workspace(machine: Machine, prefix: Path) -> None:
    """No modules then, but the same Bazel."""
    assert prefix.is_dir()
    output = machine.bazelw("help", cwd=machine.root).stdout
    assert "--install_base" in output
    assert "--bazelrc" not in output


def test_moved_cache_is_not_used(machine: Machine, prefix: Path) -> None:
    """Paths in it are absolute: a copy elsewhere would lead back to the original."""
    other = machine.root / "other/.cache/rules_executorch/bazelw" / prefix.name
    other.parent.mkdir(parents=True)
    shutil.copytree(prefix, other)
    machine.environment["HOME"] = str(machine.root / "other")
    result = machine.bazelw("build")
    assert result.returncode == 36
    assert "Bazel from Debian packages" in result.stderr


def test_removed_parts_are_noticed(machine: Machine, prefix: Path) -> None:
    """An empty module that somebody cleaned away comes back."""
    assert prefix.is_dir()
    machine.bazelw("build")
    stub = machine.cache / "stubs/zlib/MODULE.bazel"
    stub.unlink()
    machine.bazelw("build")
    assert stub.exists()


def test_bazel_on_path_later(machine: Machine, prefix: Path) -> None:
    """A Bazel that gets installed takes over."""
    assert prefix.is_dir()
    assert "--install_base" in machine.bazelw("build").stdout
    machine.fake("bin/bazel")
    assert "--install_base" not in machine.bazelw("build").stdout


def test_modules_for_a_bazel_from_elsewhere(machine: Machine, prefix: Path) -> None:
    """Without a registry it gets Debian's modules: those that its own tools name."""
    base = machine.root / "install"
    (base / "embedded_tools").mkdir(parents=True)
    (base / "embedded_tools/MODULE.bazel").write_text(
        'bazel_dep(name = "rules_shell", version = "1")\n'
    )
    machine.fake("bin/bazel", body=f'[[ $* == *install_base ]] && echo "{base}" && exit')
    machine.environment["RULES_EXECUTORCH_MODULES"] = "debian"
    output = machine.bazelw("build").stdout
    assert "--install_base" not in output
    text = rc_file(output).read_text()
    assert f"--override_module=rules_shell={prefix}/" in text
    assert "--override_module=rules_cc" not in text


def test_sandbox_sees_a_cache_below_tmp(machine: Machine, prefix: Path) -> None:
    """The sandbox gives each action a /tmp of its own."""
    assert prefix.is_dir()
    text = rc_file(machine.bazelw("build").stdout).read_text()
    below = machine.cache.resolve().is_relative_to("/tmp")
    assert (f"build --sandbox_add_mount_pair={machine.cache}\n" in text) == below
