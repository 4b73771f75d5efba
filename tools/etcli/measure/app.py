"""The benchmark of an app: its own runner measures it, on a device or on this machine.

The app's launcher, which `bazel run` of the app starts, too, copies the app to an Android device
and starts the runner there. Each measurement is one start of the runner, so that a program's memory
and its load are not another one's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from etbuild import BuildError
from etlink import manifest, pte, tables

from etcli.console import waiting
from etcli.measure import events, modules
from etcli.measure.target import import_torch, is_language_model

# Starts whose loads are measured, and answers of a language model.
_STARTS = 3
_EVENT_RUNS = 6
_EVENTS = "events.etdp"


@dataclass(frozen=True)
class Start:
    """One start of the runner.

    Attributes:
      title: of the figure.
      arguments: of the runner.
      events: whether it writes events.
    """

    title: str
    arguments: tuple[str, ...]
    events: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of apps; the rule sets those that users do not see."""
    parser.add_argument("--program", help="apps: which of its programs; default: the only one")
    parser.add_argument(
        "--dry_run", action="store_true", help="apps: print the commands, and run none"
    )
    for name in ("", "_folder"):
        parser.add_argument(f"--target_app{name}", default="", help=argparse.SUPPRESS)
    parser.add_argument("--target_app_report", action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--target_app_events", action="store_true", help=argparse.SUPPRESS)


class App:
    """An app, and the program of it that is measured.

    Args:
      options: the command line.

    Raises:
      BuildError: the app has several programs and none is chosen, or not the chosen one; a language
        model lacks its tokenizer.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._launcher = Path(options.target_app).absolute()
        self._folder = Path(options.target_app_folder).absolute()
        self._options = options
        path = self._folder / "manifest.json"
        self._manifest = manifest.read(path)
        self.label = self._manifest.label
        self.platform = ", ".join(self._manifest.platforms)
        self._name = self._chosen(options.program)
        self._program = self._manifest.programs[self._name]
        self.file = self._folder / self._program.file
        methods = list(tables.describe_methods(pte.read(self.file).program))
        constant = [m["name"] for m in methods if not m["inputs"]]
        names = [m["name"] for m in methods]
        self.is_language_model = is_language_model(constant, names)
        self.methods = [name for name in names if name not in constant] or names
        if self.is_language_model and not list(self._folder.glob("assets/**/tokenizer.json")):
            raise BuildError(
                f"{self.label}: {self._name} is a language model, and the app has no tokenizer.",
                "Add an et_llm_tokenizer to the app's data.",
            )

    def _chosen(self, name: str | None) -> str:
        programs = self._manifest.programs
        if name is None and len(programs) == 1:
            return next(iter(programs))
        if name not in programs:
            got = f'got "{name}"' if name else "got none"
            raise BuildError(
                f"{self.label}: --program: {got}, expected one of {', '.join(sorted(programs))}."
            )
        return name

    def starts(self) -> list[Start]:
        """Starts of the runner to measure, in order."""
        options, name = self._options, self._name
        if self.is_language_model:
            words = ["--prompt", " ".join(["one"] * options.prompt_tokens), "--raw_prompt"]
            words += ["--max_new_tokens", str(options.tokens)]
            return [Start("answer", ("--program", name, *words, "--json"))] * _STARTS

        def start(method: str, runs: int, *more: str) -> Start:
            words = ("--program", name, "--method", method, "--repeat", str(runs), *more)
            return Start(method, (*words, "--json"), bool(more))

        first = [start(self.methods[0], 1)] * (_STARTS - 1)
        timed = [start(m, options.warm_up + options.repeat) for m in self.methods]
        recorded = []
        if options.target_app_events and not options.no_events:
            recorded = [start(m, _EVENT_RUNS, "--etdump", _EVENTS) for m in self.methods]
        return first + timed + recorded

    def command(self, start: Start, events: Path, show: bool = False) -> list[str]:
        """The command of a start.

        Args:
          start: what is measured.
          events: a file of this machine for its events.
          show: whether the launcher prints the commands for the device instead.
        """
        words = list(start.arguments)
        options = []
        if self._is_on_device:
            options = ["--dry_run"] * show + ["--pull", _EVENTS, str(events)] * start.events
        elif start.events:
            words[words.index(_EVENTS)] = str(events)
        return [str(self._launcher), *options, *words]

    def commands(self) -> list[str]:
        """All commands, for a shell."""
        lines = [shlex.join(self._ask_for_machine())] if self._is_on_device else []
        for start in self.starts():
            command = self.command(start, Path(_EVENTS), show=True)
            if self._is_on_device:
                lines += self._run(command).splitlines()
            else:
                lines.append(shlex.join(command))
        return lines

    def measure(self, work: Path, here: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Starts the runner as often as it takes.

        Args:
          work: a folder for files.
          here: describes this machine.

        Returns:
          What `etcli.measure.measuring` answers, as far as a runner tells it, with "machine".

        Raises:
          BuildError: a start failed.
        """
        result: dict[str, Any] = {"cases": {}, "events": {}, "load_seconds": []}
        memory = {"loaded": 0, "run": 0}
        answers, peak = [], 0
        for number, start in enumerate(self.starts()):
            path = work / f"{number}.etdp"
            with waiting(f"Measuring {self.label}: {start.title}"):
                printed = self._run(self.command(start, path))
            report, program = self._report(printed)
            if start.events:
                result["events"][start.title] = self._events(path, start.title)
                continue
            result["load_seconds"].append(program["load_ms"] / 1000)
            begin = report["memory_at_start"]["resident_bytes"]
            for key, moment in (("loaded", "load"), ("run", "run")):
                grown = program[f"memory_after_{moment}"]["resident_bytes"] - begin
                memory[key] = max(memory[key], grown)
            peak = max(peak, report["peak_bytes"])
            if "answer" in program:
                answers.append(program["answer"])
            else:
                times = [ms / 1000 for ms in program["run_ms"]]
                kept = times[self._options.warm_up :] or times
                result["cases"][start.title] = {"method": start.title, "seconds": kept}
        if answers:
            result["generation"] = _generation(answers)
        files = [self._program.file, *self._program.data]
        return {
            **result,
            "label": self.label,
            "recipe": "",
            "device": self.platform,
            "methods": self.methods,
            "file_bytes": sum(self._manifest.files[file].size for file in files),
            "memory_bytes": memory,
            "peak_memory_bytes": peak,
            "machine": self._machine() if self._is_on_device else here(),
        }

    @property
    def _is_on_device(self) -> bool:
        return self.platform.startswith("android_")

    def _run(self, command: Sequence[str]) -> str:
        # The launcher looks for the app in the runfiles of whoever starts it.
        environment = {**os.environ, "RUNFILES_DIR": str(Path.cwd().parent)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
            raise BuildError(f"{self.label}: {lines[-1].removeprefix('error: ')}")
        return done.stdout

    def _report(self, printed: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The runner's report, and the program's part of it."""
        try:
            report = json.loads(printed[printed.index("{") :])
            return report, report["programs"][0]
        except (ValueError, LookupError, TypeError) as error:
            raise BuildError(
                f"{self.label}: the runner printed no report: got {printed[:60]!r}, expected JSON."
            ) from error

    def _events(self, path: Path, method: str) -> dict[str, Any]:
        import_torch()
        with warnings.catch_warnings():
            # Of the Inspector, about outputs that were not recorded.
            warnings.simplefilter("ignore")
            timeline = events.read(path, method, self.file)
        summary = events.summary(timeline)
        pairs = (pair.rsplit("=", 1) for pair in self._options.target_app_report)
        reports = {label.removeprefix("@@"): path for label, path in pairs}
        report = reports.get(self._program.label.removeprefix("@@"))
        if report:
            summary["modules"] = modules.of_method(timeline, method, modules.read(Path(report)))
        return summary

    def _ask_for_machine(self) -> list[str]:
        return [os.environ.get("ADB", "adb"), "shell", "getprop ro.product.model; nproc"]

    def _machine(self) -> dict[str, Any]:
        """The device, as far as it says what it is."""
        model, cores = "", 0
        with contextlib.suppress(OSError, ValueError):
            done = subprocess.run(self._ask_for_machine(), capture_output=True, text=True)
            model, _, count = done.stdout.strip().rpartition("\n")
            cores = int(count)
        return {"processor": model.strip() or self.platform, "cores": cores, "system": "Android"}


def _generation(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians of several answers to one prompt."""
    speeds = [answer["decode_tokens_per_second"] for answer in answers]
    return {
        "prompt_tokens": len(answers[0]["prompt_tokens"]),
        "first_token_seconds": median(answer["prefill_ms"] / 1000 for answer in answers),
        "token_seconds": [1 / speed for speed in speeds if speed],
    }
