"""Runs one build and lists its default outputs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

# Set by `bazel run` and by et's script for the program that they start: not for a Bazel in it.
_RUN_VARIABLES = ("BUILD_WORKSPACE_DIRECTORY", "BUILD_WORKING_DIRECTORY", "RUNFILES_DIR")
_SCRIPT_VARIABLES = ("ET_RUNTIME_ROOTS", "LC_ALL", "MKL_", "OMP_", "OPENBLAS_", "PYTHON")


@dataclass(frozen=True)
class Output:
    """A default output of a target.

    Attributes:
      label: of the target.
      path: the file.
    """

    label: str
    path: Path


@dataclass(frozen=True)
class Build:
    """A way to build.

    Attributes:
      title: for messages: "here", "elsewhere".
      workspace: the folder of MODULE.bazel.
      bazel: the command.
      base: output base; None: the workspace's own.
      flags: of `bazel build`.
    """

    title: str
    workspace: Path
    bazel: str
    base: Path | None = None
    flags: Sequence[str] = field(default_factory=tuple)

    def run(self, labels: Sequence[str], events: Path) -> dict[str, Output]:
        """Builds.

        Args:
          labels: targets, patterns too.
          events: file for Bazel's build events.

        Returns:
          Path under the execution root to the output.

        Raises:
          BuildError: it failed, after its output was printed.
        """
        print(f'Building "{self.title}" …', file=sys.stderr, flush=True)
        done = self._bazel("build", f"--build_event_json_file={events}", *self.flags, "--", *labels)
        if done.returncode:
            print(f"{done.stdout}{done.stderr}", file=sys.stderr)
            raise BuildError(f'The build "{self.title}" failed.', "Its output is above.")
        root = Path(self._bazel("info", "execution_root").stdout.strip())
        return {
            name: Output(label, root / name)
            for label, name in sorted(default_outputs(events), reverse=True)
        }

    def end(self) -> None:
        """Stops the server of a build with an output base of its own, and removes the latter."""
        if self.base is None:
            return
        self._bazel("shutdown")
        subprocess.run(["chmod", "-R", "u+w", str(self.base)], check=False)
        shutil.rmtree(self.base, ignore_errors=True)

    def _bazel(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        start = [f"--output_base={self.base}"] if self.base else []
        return subprocess.run(
            [self.bazel, *start, *arguments],
            cwd=self.workspace,
            env={
                name: value
                for name, value in os.environ.items()
                if name not in _RUN_VARIABLES and not name.startswith(_SCRIPT_VARIABLES)
            },
            capture_output=True,
            text=True,
            check=False,
        )


def default_outputs(events: Path) -> Iterator[tuple[str, str]]:
    """Label and path under the execution root of each default output of a build.

    Args:
      events: Bazel's build events, one JSON object a line (build_event_stream.proto).
    """
    sets: dict[str, Any] = {}
    targets = []
    for line in events.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if "namedSet" in event["id"]:
            sets[event["id"]["namedSet"]["id"]] = event.get("namedSetOfFiles", {})
        elif "targetCompleted" in event["id"] and event.get("completed", {}).get("success"):
            targets.append((event["id"]["targetCompleted"]["label"], event["completed"]))
    for label, completed in targets:
        for group in completed.get("outputGroup", []):
            if group["name"] == "default":
                for number in group.get("fileSets", []):
                    for name in _names(sets, number["id"], set()):
                        yield label, name


def _names(sets: dict[str, Any], number: str, seen: set[str]) -> Iterator[str]:
    if number in seen:
        return
    seen.add(number)
    content = sets.get(number, {})
    for file in content.get("files", []):
        # Sources have no prefix.
        if file.get("pathPrefix"):
            yield "/".join([*file["pathPrefix"], file["name"]])
    for inner in content.get("fileSets", []):
        yield from _names(sets, inner["id"], seen)
