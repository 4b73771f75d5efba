"""A user's workspace, copied, and Bazel in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

# What of this repository a user's build reads.
_MODULE = ("BUILD.bazel", "MODULE.bazel", "bazelw", "backends", "rules", "toolchains", "tools")


class Workspace:
    """A copy of tests/e2e/smoke beside a copy of the rules, that can be built and changed.

    The exporter environment of the outer build is used, so that it isn't installed once more.

    Args:
      folder: where to make them, and the output base.
    """

    def __init__(self, folder: Path) -> None:
        # The runfile is a link to the source tree. A copy: what changes there while the test runs
        # would be built again.
        source = Path(os.path.realpath("bazelw")).parent
        self.folder = folder / "user"
        self.module = folder / "rules_executorch"
        self._base = folder / "base"
        self._events = folder / "events.json"
        self.module.mkdir(parents=True)
        for name in _MODULE:
            path = source / name
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, self.module / name)
        self._exporter = _outer_exporter(folder / "exporter")
        ignored = shutil.ignore_patterns("bazel-*")
        shutil.copytree(source / "tests/e2e/smoke", self.folder, ignore=ignored)
        self.replace("MODULE.bazel", 'path = "../../.."', f'path = "{self.module}"')

    def replace(self, file: str, old: str, new: str) -> None:
        """Changes a file of the workspace."""
        path = self.folder / file
        text = path.read_text()
        assert old in text, f"{file} has no {old!r}"
        path.write_text(text.replace(old, new))

    def attempt(
        self, command: str, *arguments: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs Bazel."""
        flags = [] if command in ("shutdown", "clean") else [self._exporter]
        return subprocess.run(
            [self.module / "bazelw", f"--output_base={self._base}", command, *flags, *arguments],
            cwd=self.folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, command: str, *arguments: str, **environment: str) -> str:
        """Runs Bazel; returns what it prints.

        Raises:
          AssertionError: it failed.
        """
        done = self.attempt(command, *arguments, **environment)
        assert done.returncode == 0, f"{command} {arguments}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def build(self, *arguments: str, **environment: str) -> Build:
        """Builds targets, with flags if there are any among the arguments.

        Raises:
          AssertionError: it failed.
        """
        printed = self.run(
            "build",
            f"--build_event_json_file={self._events}",
            "--build_event_publish_all_actions",
            *arguments,
            **environment,
        )
        return Build(printed, self._events.read_text())

    def outputs(self) -> dict[str, str]:
        """sha256 of every default output of a program by file name."""
        found = {}
        for path in sorted((self.folder / "bazel-bin").iterdir()):
            if path.suffix in (".pte", ".ptd") and ".embedded" not in path.suffixes:
                found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def lowerings(self, target: str) -> list[dict[str, Any]]:
        """The EtLower actions of a target as aquery has them."""
        printed = self.attempt("aquery", f'mnemonic("EtLower", {target})', "--output=jsonproto")
        assert printed.returncode == 0, printed.stderr
        return json.loads(printed.stdout)["actions"]

    def workers(self) -> set[str]:
        """The mnemonics that workers were started for."""
        logs = (self._base / "bazel-workers").glob("*.log")
        return {log.stem.rsplit("-", 1)[-1] for log in logs}

    def close(self) -> None:
        """Ends the server and makes its files removable."""
        self.run("shutdown")
        subprocess.run(["chmod", "-R", "u+w", str(self._base)], check=False)
        shutil.rmtree(self._base, ignore_errors=True)


class Build:
    """What a build did.

    Attributes:
      ran: "mnemonic label" of each action of ours that was no null build's, sorted.
      processes: how many processes ran by how they ran: {"internal": 1, "worker": 2}.

    Args:
      printed: what Bazel printed.
      events: its build events, one JSON object a line.
    """

    def __init__(self, printed: str, events: str) -> None:
        found = re.search(r"^INFO: \d+ process(?:es)?: (.*)\.$", printed, re.MULTILINE)
        assert found, printed
        parts = (part.split(" ", 1) for part in found.group(1).split(", "))
        self.processes = {kind: int(count) for count, kind in parts}
        self.ran = sorted(_actions(events))


def _actions(events: str) -> list[str]:
    ran = []
    for line in events.splitlines():
        event = json.loads(line)
        action = event.get("action", {})
        if action.get("type", "").startswith("Et"):
            label = event["id"]["actionCompleted"]["label"].removeprefix("@@")
            ran.append(f"{action['type']} {label}")
    return ran


def _outer_exporter(folder: Path) -> str:
    """The flag that hands the outer build's exporter environment to the nested one.

    Args:
      folder: where to lay out a repository of links to it.
    """
    stamps = list(Path("..").glob("*executorch_exporter/environment.json"))
    assert stamps, "the test needs @executorch_exporter//:environment.json"
    outer = Path(os.path.realpath(stamps[0])).parent
    # Bazel 7 joins the parts of a canonical name with ~, later ones with +.
    mark = "+" if "+" in outer.name else "~"
    folder.mkdir()
    for entry in outer.iterdir():
        if entry.name in ("python", "site-packages", "lite", "environment.json"):
            (folder / entry.name).symlink_to(entry)
    build = (outer / "BUILD.bazel").read_text()
    # There the rules are the main repository, here they are not.
    here = build.replace('load("@@//', f'load("@@rules_executorch{mark}//')
    here = here.replace('load("//', f'load("@@rules_executorch{mark}//')
    (folder / "BUILD.bazel").write_text(here)
    (folder / "REPO.bazel").touch()
    name = mark.join(["rules_executorch", "", "executorch", "executorch_exporter"])
    return f"--override_repository={name}={folder}"
