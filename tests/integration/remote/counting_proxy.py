"""Counts the bytes between Bazel and a server."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class CountingProxy:
    """Forwards connections to a local server and counts the bytes in each direction.

    Args:
      port: of the server.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self.sent = 0
        self.received = 0

    @property
    def port(self) -> int:
        """The address that it listens on."""
        return self._listener.getsockname()[1]

    def __enter__(self) -> CountingProxy:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Wakes the thread that accepts, which closing alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._connections:
            _close(one)

    def reset(self) -> None:
        """Resets the counters."""
        with self._lock:
            self.sent = self.received = 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._connections += [client, server]
            for source, target, upwards in [(client, server, True), (server, client, False)]:
                threading.Thread(
                    target=self._pass, args=(source, target, upwards), daemon=True
                ).start()

    def _pass(self, source: socket.socket, target: socket.socket, upwards: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
                with self._lock:
                    if upwards:
                        self.sent += len(data)
                    else:
                        self.received += len(data)
        except OSError:
            pass
        _close(source)
        _close(target)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
