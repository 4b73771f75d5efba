"""A client of a cache or an executor: a workspace with a separate output base."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from nested import NOT_OPTIMIZED, Workspace, remove

# What the outer build has, so that it isn't fetched once more.
REPOSITORIES = (
    "executorch_libstdcxx_linux_x86_64",
    "executorch_libunicode",
    "executorch_oniguruma",
    "executorch_runner_json",
    "executorch_runtime_linux_x86_64",
    "executorch_zig",
)

# Of the targets that are built: all that a client is to have in the end.
TARGETS = ("//:app", "//:foundation", "//:task")

# The base's weights: 4 layers of 1024 × 1024 in fp32; the adapter: two matrices of 4 × 1024.
FOUNDATION_BYTES = 4 * 1024 * 1024 * 4
ADAPTER_BYTES = 2 * 4 * 1024 * 4

# For builds on this machine: the C++ toolchain that the preset "remote" has.
_PLATFORM = "@rules_executorch//toolchains/platforms:linux_x86_64"
SAME_PLATFORM = (f"--platforms={_PLATFORM}", f"--host_platform={_PLATFORM}")


# Kinds of actions that make those; Bazel's own aside.
OUR_MNEMONICS = {
    "CppCompile",
    "CppLink",
    "EtApp",
    "EtFit",
    "EtLink",
    "EtLower",
    "EtPackage",
    "EtScan",
    "EtShare",
}


@dataclass(frozen=True)
class Ran:
    """The result of a build.

    Args:
        runners: how many actions ran how: {"remote": 9, "remote cache hit": 2}; what Bazel does by
            itself is left out.
        mnemonics: the kinds of actions that were executed or found in a cache.
        printed: by Bazel.
    """

    runners: dict[str, int]
    mnemonics: frozenset[str]
    printed: str


class Client:
    """A copy of the workspace tests/e2e/remote and Bazel in it, with the presets in its .bazelrc.

    Args:
        folder: where to copy it.
    """

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace(
            folder, source="tests/e2e/remote", repositories=REPOSITORIES, compiled_once=False
        )
        self.workspace.overrides.append(NOT_OPTIMIZED)
        self._has_run_here = False
        presets = self.workspace.module / "tools/dev/remote/remote.bazelrc"
        with (folder / ".bazelrc").open("a") as out:
            out.write(presets.read_text())

    def build(self, *arguments: str, command: str = "build", **environment: str) -> Ran:
        """Builds or tests with arguments; default targets: the app and its programs."""
        targets = [] if any(a.startswith("//") for a in arguments) else TARGETS
        events = self.workspace.folder.parent / f"events-{self.workspace.folder.name}.json"
        printed = self.workspace.run(
            command, f"--build_event_json_file={events}", *arguments, *targets, **environment
        )
        metrics = {}
        for line in events.read_text().splitlines():
            metrics = json.loads(line).get("buildMetrics", metrics)
        summary = metrics["actionSummary"]
        runners = {one["name"]: one["count"] for one in summary.get("runnerCount", [])}
        runners = {k: v for k, v in runners.items() if k not in ("total", "internal")}
        self._has_run_here = not any("remote" in name for name in runners)
        return Ran(
            runners=runners,
            mnemonics=frozenset(one["mnemonic"] for one in summary.get("actionData", [])),
            printed=printed,
        )

    def begin(self, adapter: float) -> None:
        """Removes all outputs and Bazel's knowledge of them, and writes an adapter for the task."""
        self.workspace.run("clean")
        self.change_adapter(adapter)

    def build_all_again(self, adapter: float, *arguments: str, **environment: str) -> Ran:
        """Builds everything once more, with an adapter.

        After actions that ran here, Bazel notices that their outputs are gone, and its exporter
        stays, whose start takes longer than the lowerings. Only `clean` makes it forget others.
        """
        if not self._has_run_here:
            self.begin(adapter)
            return self.build(*arguments, **environment)
        self.change_adapter(adapter)
        for path in (self.workspace.folder / "bazel-out").iterdir():
            remove(path)
        return self.build("--nouse_action_cache", *arguments, **environment)

    def outputs(self) -> dict[str, str]:
        """sha256 of the local outputs by path: programs, data, all of the app."""
        place = self.workspace.folder / "bazel-bin"
        paths = [p for p in place.glob("*") if p.suffix in (".pte", ".ptd", ".zst")]
        paths += [p for p in (place / "app").rglob("*") if p.is_file()]
        return {
            path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths
        }

    def change_adapter(self, value: float) -> None:
        """Writes another adapter of the same size for the task, with values up to a maximum."""
        path = self.workspace.folder / "adapter.safetensors"
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        start = 8 + length
        count = (len(data) - start) // 4
        numbers = [value * (1 + i % 97) / 97 for i in range(count)]
        path.write_bytes(data[:start] + struct.pack(f"<{count}f", *numbers))

    def close(self) -> None:
        """Ends Bazel."""
        self.workspace.close()
        shutil.rmtree(self.workspace.folder, ignore_errors=True)


@dataclass(frozen=True)
class Built:
    """A client that built remotely.

    Args:
        client: the client.
        adapter: what it gave the task.
        outputs: what it got.
    """

    client: Client
    adapter: float
    outputs: dict[str, str]
