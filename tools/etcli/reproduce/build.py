"""Runs one build and finds its default outputs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Set by `bazel run` for the program that it starts; a Bazel in it must not see them.
_RUN_VARIABLES = ("BUILD_WORKSPACE_DIRECTORY", "BUILD_WORKING_DIRECTORY", "RUNFILES_DIR")


class BuildFailed(Exception):
    """A build failed; the message has what Bazel printed."""


@dataclass(frozen=True)
class Output:
    """A file that a target gives by default.

    Attributes:
      label: of the target.
      path: the file.
    """

    label: str
    path: Path


@dataclass(frozen=True)
class Build:
    """How a build is done.

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
          BuildFailed: it did.
        """
        done = self._bazel("build", f"--build_event_json_file={events}", *self.flags, "--", *labels)
        if done.returncode:
            raise BuildFailed(f'The build "{self.title}" failed:\n{done.stdout}{done.stderr}')
        root = Path(self._bazel("info", "execution_root").stdout.strip())
        return {
            name: Output(label, root / name)
            for label, name in sorted(default_outputs(events), reverse=True)
        }

    def end(self) -> None:
        """Ends the server of a build that has an output base of its own, and removes that."""
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
            env={k: v for k, v in os.environ.items() if k not in _RUN_VARIABLES},
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
    held = sets.get(number, {})
    for file in held.get("files", []):
        # Sources have no prefix.
        if file.get("pathPrefix"):
            yield "/".join([*file["pathPrefix"], file["name"]])
    for inner in held.get("fileSets", []):
        yield from _names(sets, inner["id"], seen)
