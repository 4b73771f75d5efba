"""A server on this machine's loopback interface, as a context manager."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import IO

from dev.remote import processes
from dev.remote.engines import Engines
from dev.remote.errors import ServerError

HOST = "127.0.0.1"

# How long a server may take until it answers.
_START_SECONDS = 60.0


class Server(ABC):
    """A server that `with` starts and ends: no process and no temporary file is left.

    Args:
        engines: what it is made of.
        port: of 127.0.0.1; 0: any that is free.
        directory: where it keeps its data, also after its end; None: a temporary one.
        verbose: whether its log goes to standard error.

    Raises:
        ServerError: (from `with`) it can't be started.
    """

    # As on the command line.
    name: str
    # The start of its address.
    scheme: str
    # How long it may take to end by itself.
    end_seconds = 10.0

    def __init__(
        self,
        engines: Engines,
        *,
        port: int = 0,
        directory: Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.engines = engines
        self.port = port
        self._given = directory
        self._verbose = verbose
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def address(self) -> str:
        """Its address: "grpc://127.0.0.1:9092"."""
        return f"{self.scheme}://{HOST}:{self.port}"

    @property
    @abstractmethod
    def flags(self) -> list[str]:
        """Bazel's flags that use it."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments; files that it reads are written to `scratch`."""

    @abstractmethod
    def _answers(self, connection: socket.socket) -> bool:
        """Tells whether the server answers."""

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "TMPDIR": str(self.scratch), "LC_ALL": "C.UTF-8"}

    def __enter__(self) -> Server:
        if platform.system() != "Linux" or platform.machine() != "x86_64":
            raise ServerError(
                f"{self.name}: the engines are for Linux on x86_64, and this is "
                f"{platform.system()} on {platform.machine()}",
                "Start it on another machine, or use another engine: docs/howto/ci.md.",
            )
        self._take_port()
        self.scratch = Path(tempfile.mkdtemp(prefix=f"executorch-{self.name}-"))
        try:
            self.directory = self._usable_directory()
            self._log = None if self._verbose else (self.scratch / "log").open("wb")
            self._process = processes.start(
                self._command(), self._environment(), self.scratch, self._log
            )
            self._wait_until_it_answers()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def wait(self) -> None:
        """Returns never, unless the server ends by itself.

        Raises:
            ServerError: it did.
        """
        assert self._process
        code = self._process.wait()
        raise ServerError(
            f"{self.name}: the server ended by itself, exit code {code}{self._said()}"
        )

    def _end(self) -> None:
        if self._process:
            processes.end(self._process, self.end_seconds)
            self._process = None
        if self._log:
            self._log.close()
        _remove(self.scratch)

    def _take_port(self) -> None:
        """Chooses a free port, or checks the one that was given.

        The engines would share a busy one, and each get some of the connections.
        """
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as error:
                raise ServerError(
                    f"{self.name}: port {self.port} of {HOST} cannot be used: {error.strerror}",
                    "Stop what uses it (ss -ltnp names it), or choose another port: "
                    "--port=0 takes a free one.",
                ) from error
            self.port = probe.getsockname()[1]

    def _usable_directory(self) -> Path:
        """The directory for data, which exists and can be written to."""
        directory = (self._given or self.scratch / "data").absolute()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as error:
            raise ServerError(
                f"{self.name}: the directory {directory} cannot be written to: {error.strerror}",
                "Give it to the user who starts the server, or choose another with --directory.",
            ) from error
        return directory

    def _wait_until_it_answers(self) -> None:
        assert self._process
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise ServerError(
                    f"{self.name}: the server did not start, exit code "
                    f"{self._process.returncode}{self._said()}"
                )
            try:
                with socket.create_connection((HOST, self.port), timeout=5) as connection:
                    if self._answers(connection):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise ServerError(
            f"{self.name}: the server does not answer after {_START_SECONDS:.0f} s{self._said()}"
        )

    def _said(self) -> str:
        """The end of its log, as part of a message."""
        log = self.scratch / "log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "".join(f"\n  {line}" for line in [". It said:", *lines[-10:]]) if lines else ""


def answers_http2(connection: socket.socket) -> bool:
    """Tells whether a server speaks HTTP/2, as gRPC does: it answers a preface with settings."""
    settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
    head = connection.recv(9, socket.MSG_WAITALL)
    return len(head) == 9 and head[3] == 4


def _remove(folder: Path) -> None:
    """Removes a folder, also where an action made parts of it unwritable."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
