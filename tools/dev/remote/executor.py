"""Remote execution: buildbox-casd, whose actions run in sandboxes of bubblewrap."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

from dev.remote.engines import Engines, loaded_with
from dev.remote.errors import ServerError
from dev.remote.server import HOST, Server, answers_http2

_CAP_SYS_ADMIN = 1 << 21

# What of a worker's root folder actions see, read-only.
_SEEN = ("usr", "bin", "sbin", "lib", "lib64", "etc")


class Executor(Server):
    """The Remote Execution API on this machine, with its caches.

    An action sees its declared inputs; read-only /usr, /bin, /sbin, /lib, /lib64 and /etc of the
    worker's root; /dev, /proc and an empty /tmp. It has no network, and no rights beyond those of
    the user who started the server.

    Args:
        engines: what it is made of.
        port: of 127.0.0.1; 0: any that is free.
        directory: where it keeps its data, also after its end; None: a temporary one.
        verbose: whether its log goes to standard error.
        jobs: how many actions run at once; None: as many as there are processors.
        quota: bytes that its data may take ("20G"): the least recently used is removed.
        root: the worker's root folder.
    """

    name = "executor"
    scheme = "grpc"
    # Actions that are running would try for longer to hand in results that nobody takes.
    end_seconds = 3.0

    def __init__(
        self,
        engines: Engines,
        *,
        port: int = 0,
        directory: Path | None = None,
        verbose: bool = False,
        jobs: int | None = None,
        quota: str = "20G",
        root: Path = Path("/"),
    ) -> None:
        super().__init__(engines, port=port, directory=directory, verbose=verbose)
        self.jobs = jobs or os.cpu_count() or 1
        self._quota = quota
        self._root = root

    @property
    def flags(self) -> list[str]:
        """Bazel's flags that use it."""
        return ["--config=remote", f"--remote_executor={self.address}"]

    def _command(self) -> list[str]:
        programs = self.scratch / "bin"
        programs.mkdir()
        bubblewrap = self.engines.bubblewrap
        start = loaded_with(bubblewrap / "usr/bin/bwrap", bubblewrap)
        self._try_sandbox(start)
        script = programs / "bwrap"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(start)} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
        return [
            str(self.engines.buildbox / "buildbox-casd"),
            f"--bind={HOST}:{self.port}",
            f"--jobs={self.jobs}",
            f"--quota-high={self._quota}",
            "--cache-failures=false",
            "--shutdown-deadline=1",
            f"--log-level={'info' if self._verbose else 'warning'}",
            f"--buildbox-run={self.engines.buildbox / 'buildbox-run'}",
            # Without FUSE each action's inputs are copied, among them a gigabyte of packages.
            f"--runner-arg=--staging-mode={'fuse' if _may_use_fuse() else 'copy-or-link'}",
            *(f"--runner-arg=--ro-bind-mount={mount}" for mount in self._mounts()),
            str(self.directory),
        ]

    def _try_sandbox(self, start: list[str]) -> None:
        """Fails where the system forbids what each action needs."""
        trial = [
            *start,
            "--unshare-user",
            "--unshare-net",
            "--bind",
            "/",
            "/",
            "/bin/sh",
            "-c",
            ":",
        ]
        done = subprocess.run(trial, capture_output=True, text=True, errors="replace")
        if done.returncode:
            raise ServerError(
                f"{self.name}: no sandbox can be made for actions: {done.stderr.strip()}",
                "Allow user namespaces to whoever starts the server (sysctl "
                "kernel.unprivileged_userns_clone, user.max_user_namespaces; on Ubuntu "
                "kernel.apparmor_restrict_unprivileged_userns).",
            )

    def _mounts(self) -> list[str]:
        folders = [name for name in _SEEN if (self._root / name).is_dir()]
        if "usr" not in folders:
            raise ServerError(
                f"{self.name}: {self._root} has no folder usr, so it is not the root of a system",
                "Give --root a folder with usr, bin, lib and lib64.",
            )
        # /bin is a link to usr/bin on most systems.
        return [f"{(self._root / name).resolve()}:/{name}" for name in folders]

    def _environment(self) -> dict[str, str]:
        path = f"{self.scratch / 'bin'}:{self.engines.buildbox}:{os.defpath}"
        return super()._environment() | {"PATH": path}

    def _answers(self, connection: socket.socket) -> bool:
        return answers_http2(connection)


def _may_use_fuse() -> bool:
    """Tells whether buildbox-fuse can mount: by a right of this process or the system's program."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return False
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return bool(effective & _CAP_SYS_ADMIN) or bool(shutil.which("fusermount3", path=os.defpath))
