"""Examples with a fake of what rules_python downloads: an interpreter and a pip hub.

The fake has the tags, repositories and labels of rules_python 1.x, and this machine's
interpreter. rules_python's other files are those that the build has anyway.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import FOR_APPS, Workspace

_FAKE = "tests/integration/rules_python/extensions"
_IMPORTED = 'use_repo(executorch, "executorch_runner_json")\n'


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This machine's, behind a script that writes down how it is started."""
    folder = tmp_path_factory.mktemp("interpreter")
    host = shutil.which("python3.11") or shutil.which("python3")
    script = folder / "python"
    script.write_text(f'#!/bin/sh\necho "$@" >> {folder}/log\nexec {host} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture(scope="module")
def workspace(interpreter: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    top = tmp_path_factory.mktemp("hermetic")
    # The test fetches the JSON library itself.
    repositories = [name for name in FOR_APPS if name != "executorch_runner_json"]
    created = Workspace(top / "one", source="examples/hermetic", repositories=repositories)
    fake = top / "rules_python"
    shutil.copytree(rules_python(created), fake, symlinks=True)
    for file in sorted((created.module / _FAKE).iterdir()):
        (fake / "python/extensions" / file.name).unlink()
        shutil.copyfile(file, fake / "python/extensions" / file.name)
    created.overrides.append(f"--override_module=rules_python={fake}")
    created.overrides.append(f"--repo_env=FAKE_PYTHON={interpreter}")
    yield created
    created.close()


def rules_python(workspace: Workspace) -> Path:
    """The folder of the module that a build has without the example's tags."""
    path = workspace.folder / "MODULE.bazel"
    text = path.read_text()
    beginning, _, rest = text.partition("python = use_extension")
    assert rest
    path.write_text(beginning)
    workspace.run("query", "@rules_python//python:defs.bzl")
    path.write_text(text)
    return Path(os.path.realpath(next((workspace.base / "external").glob("rules_python[~+]"))))


def test_the_example(workspace: Workspace) -> None:
    """A model imports a package of the hub; the toolchain's interpreter is chosen."""
    printed = workspace.run("test", "//...")
    assert "1 test passes" in printed, printed
    [chosen] = (workspace.base / "external").glob("*executorch_python/python.txt")
    assert chosen.read_text().endswith("python_3_11_host//:python")


def test_downloads_run_in_it(workspace: Workspace, interpreter: Path) -> None:
    """The header of the runner's JSON library is a small one."""
    workspace.replace("MODULE.bazel", "executorch.exporter(", f"{_IMPORTED}executorch.exporter(")
    log = interpreter.parent / "log"
    log.write_text("")
    # Bazel's own cache has what other workspaces fetched.
    empty = f"--repository_cache={interpreter.parent / 'cache'}"
    workspace.run("fetch", "--force", "--repo=@executorch_runner_json", empty)
    assert log.read_text().startswith("-I -c import platform")


def test_packages_of_a_hub(workspace: Workspace) -> None:
    """All of examples/monorepo is analyzed; what lowers takes the hub's packages alone."""
    workspace.lay("examples/monorepo")
    workspace.run("build", "--nobuild", "//...")
    for target in ("net_xnnpack", "net_xnnpack_test"):
        needed = workspace.run("cquery", f"deps(//models:{target})")
        for label in ("pypi//torch:torch", "pypi//executorch:executorch", "python_3_11//:python3"):
            assert label in needed, needed
        assert "executorch_exporter" not in needed
    lowering = workspace.run("aquery", 'mnemonic("EtLower", deps(//models:all))')
    assert "python_3_11/python3" in lowering, lowering


def test_workers_of_a_monorepo(workspace: Workspace) -> None:
    """Programs are lowered and linked on the kind of worker that they ask for."""
    for program, worker in (("net_xnnpack", "worker"), ("net_portable", "large_worker")):
        found = workspace.run("aquery", f'mnemonic("Et(Lower|Link)", deps(//models:{program}))')
        chosen = re.findall(r"^  Execution platform: .*//platforms:(\w+)$", found, re.MULTILINE)
        assert set(chosen) == {worker} and "EtLower" in found, found
