"""Common parts of lowering benchmarks: runs one action of the build by itself."""

from __future__ import annotations

import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etlink.container import sha256_of

PATHS = ("stock", "fast")
# The fast path in a worker that is up.
WARM = "warm"


@dataclass(frozen=True)
class Action:
    """An action EtLower as a command line.

    Attributes:
        root: Bazel's execution root, which its paths are relative to.
        tool: starts Python with the exporter's packages; a module and its arguments follow.
        module: the exporter's, and its own arguments.
        request: lines of the file with the request.
    """

    root: Path
    tool: tuple[str, ...]
    module: tuple[str, ...]
    request: tuple[str, ...]

    def value(self, flag: str) -> str:
        """The value of a flag that occurs once in the request."""
        found = [line.split("=", 1)[1] for line in self.request if line.startswith(flag + "=")]
        if len(found) != 1:
            sys.exit(f"the request has {flag} {len(found)} times, expected once.")
        return found[0]


@dataclass(frozen=True)
class Cost:
    """Resources that a process used.

    Attributes:
        seconds: on the clock.
        cpu_seconds: of the processor, in all threads and processes that it waited for.
        peak_memory_bytes: the largest resident memory.
    """

    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int


def workspace() -> Path:
    """The checkout in which the user ran `bazel run`."""
    return Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])


def machine() -> dict[str, Any]:
    """The machine that figures come from: `cores`, `memory_gib`, and the `date`."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "date": datetime.date.today().isoformat(),
    }


def output(path: Path) -> Path:
    """A file on the command line, relative to the directory of `bazel run`."""
    return Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / path


def write_json(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Writes results as JSON, if a file is given."""
    write_text(path, lambda: json.dumps(figures, indent=1) + "\n")


def write_text(path: Path | None, text: Callable[[], str]) -> None:
    """Writes a text, which is created only if a file is given."""
    if path:
        output(path).write_text(text(), encoding="utf-8")


def run(command: Sequence[str], folder: Path) -> str:
    """A program's output; exits if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:12])} … failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def timed(command: Sequence[str], folder: Path) -> Cost:
    """Runs a program once; exits if it fails."""
    with tempfile.TemporaryFile() as log:
        start = time.monotonic()
        child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        # Unlike Popen.wait this says what this one child used.
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            log.seek(0)
            said = log.read().decode(errors="replace")
            sys.exit(f"{' '.join(command[:12])} … failed:\n{said}")
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def find(program: str) -> Action:
    """The action that lowers a program; builds its inputs.

    Until it has run nothing else may be built here: Bazel keeps in its execution root what the last
    build reads.

    Args:
      program: label of an et_program with one lowering.
    """
    root_folder = workspace()
    bazel = str(root_folder / "bazelw")
    # Its own output comes from a cache where there is one.
    run([bazel, "build", program], root_folder)
    question = f'mnemonic("EtLower", deps({program}))'
    answer = json.loads(run([bazel, "aquery", "--output=jsonproto", question], root_folder))
    actions = answer.get("actions", [])
    if len(actions) != 1:
        sys.exit(f"{program}: expected one action EtLower, got {len(actions)}.")
    root = Path(run([bazel, "info", "execution_root"], root_folder).strip())
    return parsed(root, actions[0])


def parsed(root: Path, action: Mapping[str, Any]) -> Action:
    """An action in the format of `bazel aquery --output=jsonproto`."""
    # The words before the command start a worker; those behind it are the request.
    arguments = action["arguments"]
    start = arguments.index("lower")
    command, *module = arguments[:start]
    environment = {v["key"]: v.get("value", "") for v in action.get("environmentVariables", [])}
    settings = [f"{name}={value}" for name, value in sorted(environment.items())]
    tool = ("env", "-i", *settings, command)
    return Action(root, tool, tuple(module), tuple(arguments[start:]))


def changed(request: Sequence[str], flags: Mapping[str, object]) -> list[str]:
    """A request with other values for some flags, which come last."""
    kept = [line for line in request if line.split("=")[0] not in flags]
    return kept + [f"{flag}={value}" for flag, value in flags.items()]


def lower(
    action: Action,
    path: str,
    folder: Path,
    flags: Mapping[str, object] | None = None,
    profile: Path | None = None,
) -> dict[str, Any]:
    """Runs an action once in a new process.

    Args:
      action: what to run.
      path: one of PATHS.
      folder: new; gets the outputs "lowered" and "timings.json".
      flags: other values of the request's flags.
      profile: file for cProfile's figures; None: it isn't profiled, which costs time.

    Returns:
      What it took.
    """
    folder.mkdir()
    request = folder / "request"
    lines = _request(action, path, folder, flags or {})
    request.write_text("\n".join(lines) + "\n", encoding="utf-8")
    profiler = ["cProfile", "-o", str(profile), "-m"] if profile else []
    cost = timed([*action.tool, *profiler, *action.module, f"@{request}"], action.root)
    costs = {"seconds": cost.seconds, "cpu_seconds": cost.cpu_seconds}
    return {"path": path, **costs, **_lowered(folder)}


def lower_warm(action: Action, folder: Path) -> dict[str, Any]:
    """Runs an action on the fast path in a persistent worker that has imported everything.

    Args:
      action: what to run.
      folder: new; gets the outputs "lowered" and "timings.json".

    Returns:
      What it took, without "cpu_seconds"; its path is WARM.
    """
    folder.mkdir()
    command = [*action.tool, *action.module, "--persistent_worker"]
    with (
        open(folder / "log", "wb") as log,
        subprocess.Popen(
            command, cwd=action.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as worker,
    ):

        def answer(number: int, arguments: Sequence[str]) -> dict[str, Any]:
            assert worker.stdin and worker.stdout
            request = {"arguments": [*arguments], "requestId": number}
            worker.stdin.write(json.dumps(request).encode() + b"\n")
            worker.stdin.flush()
            return json.loads(worker.stdout.readline())

        # It answers what it does not know only after its imports.
        answer(1, ["warm up"])
        start = time.monotonic()
        response = answer(2, _request(action, "fast", folder, {}))
        seconds = time.monotonic() - start
    if response.get("exitCode"):
        sys.exit(f"{' '.join(command[:12])} … failed:\n{response.get('output', '')}")
    return {"path": WARM, "seconds": seconds, **_lowered(folder)}


def _request(action: Action, path: str, folder: Path, flags: Mapping[str, object]) -> list[str]:
    own = {"--output": folder / "lowered", "--timings": folder / "timings.json", "--lowering": path}
    return changed(action.request, {**flags, **own})


def _lowered(folder: Path) -> dict[str, Any]:
    """Reads the outputs of a lowering."""
    facts = json.loads((folder / "timings.json").read_text(encoding="utf-8"))
    return {
        "peak_memory_bytes": facts["peak_memory_bytes"],
        "stages": {stage["name"]: stage["seconds"] for stage in facts["stages"]},
        "skipped": facts["path"]["skipped"],
        "sha256": sha256_of(folder / "lowered"),
    }


def line(run: Mapping[str, Any]) -> str:
    """The results of `lower` as text."""
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in run["stages"].items())
    return f"{run['path']}: {took(run)} ({stages})"


def took(run: Mapping[str, Any]) -> str:
    """The resources of a process, with the names of `Cost`, as text."""
    cpu = f"{run['cpu_seconds']:.1f} s of the processor's, " if "cpu_seconds" in run else ""
    return f"{run['seconds']:.1f} s, {cpu}{run['peak_memory_bytes'] >> 20} MiB"


def ratios(
    runs: Sequence[Mapping[str, Any]], by: str, pair: tuple[str, str]
) -> Callable[[str], float]:
    """Compares two kinds of runs, in the order of their pairs.

    Args:
      runs: of both kinds, as many of each.
      by: what tells the kinds apart: "path".
      pair: the kinds: ("stock", "fast").

    Returns:
      What gives the median ratio of the first to the second for a figure: "seconds".
    """
    first, second = ([run for run in runs if run[by] == kind] for kind in pair)

    def ratio(key: str) -> float:
        pairs = zip(first, second, strict=True)
        return statistics.median(one[key] / other[key] for one, other in pairs)

    return ratio


def with_layers(action: Action, layers: int) -> dict[str, str]:
    """The flag of a request whose model is cut to its first layers."""
    args = json.loads(action.value("--args")) | {"layers": str(layers)}
    return {"--args": json.dumps(args, sort_keys=True)}
