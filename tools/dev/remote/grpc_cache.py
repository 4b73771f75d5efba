"""A cache over gRPC: BuildGrid's parts for one."""

from __future__ import annotations

import socket
from pathlib import Path

from dev.remote.server import HOST, Server, answers_http2

_PROGRAM = Path(__file__).absolute().parent / "buildgrid_cache.py"


class GrpcCache(Server):
    """The Remote Execution API's caches of contents and actions, with BuildGrid, on disk.

    Nothing is evicted: its directory grows until somebody empties it.
    """

    name = "grpc-cache"
    scheme = "grpc"

    @property
    def flags(self) -> list[str]:
        """Bazel's flags that use it."""
        return ["--config=remote-cache", f"--remote_cache={self.address}"]

    def _command(self) -> list[str]:
        return [
            str(self.engines.buildgrid / "python/bin/python3.11"),
            # -B: write no bytecode; -s: no user's packages; -P: none beside the program.
            *("-B", "-s", "-P"),
            str(_PROGRAM.resolve()),
            f"--address={HOST}:{self.port}",
            f"--directory={self.directory}",
        ]

    def _environment(self) -> dict[str, str]:
        return super()._environment() | {
            "PYTHONPATH": str(self.engines.buildgrid / "site-packages")
        }

    def _answers(self, connection: socket.socket) -> bool:
        return answers_http2(connection)
