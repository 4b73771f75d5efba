"""The exporter as Bazel runs it: a worker, and requests to it; or one process a request."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).absolute().parents[2]
PORTABLE = {"label": "//backends/portable:fp32", "builder": "portable_recipes:fp32"}
STATIC = {"label": "//x:static", "builder": "xnnpack_recipes:int8_static_per_channel"}

_SOURCES = {
    "_main/faulty.py": "tests/faults/faulty.py",
}
_SOURCES |= {
    f"re/{prefix}{file.name}": f"{folder}/{file.name}"
    for folder, prefix in (
        ("backends/portable", ""),
        ("backends/xnnpack", ""),
        ("tools/etllm", "etllm/"),
    )
    for file in sorted((REPOSITORY / folder).glob("*.py"))
}


def flags(output: Path, entry_point: str, recipe: dict[str, Any], *more: str) -> list[str]:
    """The command line of a lowering.

    Args:
      output: directory to write.
      entry_point: in faulty.py, or in a module that `more` adds.
      recipe: the tree of a recipe.
      *more: further flags.
    """
    arguments = ["lower", "--label=//x:program", "--model_label=//x:model", f"--output={output}"]
    arguments += [f"--entry_point={entry_point}"]
    arguments += [f"--source={place}={REPOSITORY / file}" for place, file in _SOURCES.items()]
    arguments += ["--root=_main", "--root=re", f"--recipe={json.dumps(recipe)}"]
    return arguments + list(more)


class Exporter:
    """A persistent worker; its standard error goes to a file.

    Args:
      log: that file.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self._stderr = open(log, "wb")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*_command(), "--persistent_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        self._number = 0

    def ask(self, arguments: list[str]) -> dict[str, Any]:
        """Sends a WorkRequest and waits for its response."""
        self._number += 1
        request = {"arguments": arguments, "requestId": self._number}
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        response = json.loads(self._process.stdout.readline())
        assert response["requestId"] == self._number
        return response

    def refuse(self, arguments: list[str]) -> str:
        """Sends a WorkRequest that must fail, and returns its message.

        What was promised of every failure is checked here: there is no output, and no stack trace.
        """
        response = self.ask(arguments)
        output = next(a.removeprefix("--output=") for a in arguments if a.startswith("--output="))
        assert response["exitCode"] == 1
        assert "Traceback" not in response["output"]
        assert not Path(output).exists()
        return response["output"]

    def close(self) -> None:
        """Ends the worker by ending its input."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._stderr.close()


def run_once(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a request in a process of its own, its flags in a file, as Bazel does without workers.

    Args:
      arguments: flags of the request.
      folder: where to run.
    """
    file = folder / "request.flags"
    file.write_text("\n".join(arguments) + "\n")
    return subprocess.run(
        [*_command(), f"@{file}"], cwd=folder, capture_output=True, text=True, check=False
    )


def _command() -> list[str]:
    paths = [str(REPOSITORY / "tools")]
    paths += [p for p in sys.path if p.endswith("site-packages")]
    words = [word for path in paths for word in ("--path", path)]
    launcher = str(REPOSITORY / "tools/launch.py")
    return [sys.executable, "-B", "-s", "-P", launcher, *words, "etlower"]
