"""Keeps a lowering to what it declares: no other files, no network.

An action is cached under its declared inputs, so a lowering that reads anything else gives outputs
that Bazel takes for right when they are not. Not every machine has a sandbox, and none names the
line of code; so the exporter itself watches Python's audit events (PEP 578), which say what the
code of models and recipes opens and connects to.

The guard refuses a file that exists and that the request does not declare; a file that does not
exist tells nothing that differs from machine to machine. It refuses addresses and look-ups of
names, and keeps the first refusal: code that catches the exception and goes on fails at the end of
the request, as its outputs may depend on what it was refused.

An audit hook cannot be removed, so a process serves one request. Events do not cover what compiled
code opens by itself; Bazel's sandbox and remote executors do. Folders of the interpreter and of its
packages are declared as a whole: they are inputs of every action.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

# What every machine that runs actions has; their contents must not matter, and can't be hidden.
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr")
# The same on macOS: frameworks, and where /etc and the zones of time are.
_SYSTEM_OF_MACOS = ("/System", "/private/etc", "/private/var/db/timezone")

_ADDRESSES = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_LOOKUPS = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
_WATCHED = _ADDRESSES | _LOOKUPS | {"open"}


# Of this process, which serves one request.
_refusals: list[BuildError] = []


def nothing_refused() -> bool:
    """Tells whether all that this process opened so far was declared."""
    return not _refusals


class Guard:
    """Watches one request.

    Args:
      label: of the target, for messages.
      declared: files and folders that the request may open.
    """

    def __init__(self, label: str, declared: Iterable[Path]) -> None:
        self._label = label
        own = [*declared, Path(sys.prefix), Path(sys.base_prefix)]
        own += [Path(entry) for entry in sys.path if entry]
        names = {os.path.abspath(path) for path in own}
        names |= {os.path.realpath(path) for path in own} | set(_SYSTEM)
        if sys.platform == "darwin":
            names |= set(_SYSTEM_OF_MACOS)
        self._files = frozenset(names)
        self._folders = tuple(sorted(name.rstrip("/") + "/" for name in names))
        self._active = False
        self._first: BuildError | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Refuses what isn't declared.

        Raises:
          BuildError: at the end, too, where the code went on after a refusal.
        """
        # A hook stays for as long as the process does; one process serves one request.
        sys.addaudithook(self._hook())
        self._active = True
        try:
            yield
        finally:
            self._active = False
        if self._first:
            raise self._first

    def _hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """Returns the function that is called for each event: millions of times in one lowering.

        A plain function costs a seventh of a bound method, whose attributes Python looks up anew
        for each event.
        """

        def on_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
            if event in _WATCHED and self._active:
                self._check(event, arguments)

        return on_audit_event

    def _check(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            self._check_file(arguments[0])
        elif event in _ADDRESSES:
            address = arguments[1]
            # Names of files are sockets of this machine, for example of a process pool.
            if isinstance(address, tuple):
                self._refuse_network(f"{address[0]}:{address[1]}")
        elif arguments[0]:
            self._refuse_network(str(arguments[0]))

    def _check_file(self, path: Any) -> None:
        if isinstance(path, int) or path is None:
            return
        name = os.path.abspath(os.fsdecode(path))
        if (
            self._declares(name)
            or not os.path.exists(name)
            or self._declares(os.path.realpath(name))
        ):
            return
        self._refuse(
            f'{self._label}: the code of its model or recipe opens "{name}", which it does not '
            "declare.",
            'Add it to data, and ask for it with ctx.file("name").',
        )

    def _declares(self, name: str) -> bool:
        return name in self._files or name.startswith(self._folders)

    def _refuse_network(self, address: str) -> None:
        self._refuse(
            f"{self._label}: the code of its model or recipe opens a network connection to "
            f"{address}; lowerings have no network.",
            "Make what it fetches a file of the build, and add that to data.",
        )

    def _refuse(self, message: str, advice: str) -> None:
        error = BuildError(message, advice)
        self._first = self._first or error
        _refusals.append(error)
        raise error


def declared(request: Any, work: Path, more: Iterable[Path] = ()) -> list[Path]:
    """Lists what a request may open.

    Args:
      request: a flags.Request.
      work: its own folder.
      more: of the layers of packages: programs, SDKs.
    """
    named = (
        request.sources,
        request.data,
        request.placeholders,
        request.recipe_data,
    )
    single = (
        request.calibration,
        request.trained_checkpoint,
        request.inputs,
        request.text,
        request.expected,
        request.timings,
        request.output,
        request.program,
    )
    return [
        *(path for files in named for path in files.values()),
        *(path for path in single if path),
        *request.program_data,
        *request.test_inputs,
        *more,
        work,
    ]
