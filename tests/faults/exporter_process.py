"""The exporter as Bazel runs it: a worker, and requests to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).absolute().parents[2]


class Exporter:
    """A persistent worker; its standard error goes to a file.

    Args:
      log: that file.
    """

    def __init__(self, log: Path) -> None:
        paths = [str(REPOSITORY / "tools" / tool) for tool in ("exporter", "etbuild", "linker")]
        paths += [p for p in sys.path if p.endswith("site-packages")]
        words = [word for path in paths for word in ("--path", path)]
        launcher = str(REPOSITORY / "tools/exporter/launch.py")
        self._log = open(log, "wb")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-s", "-P", launcher, *words, "etexport", "--persistent_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
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

    def close(self) -> None:
        """Ends the worker by ending its input."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._log.close()
