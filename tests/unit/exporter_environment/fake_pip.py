"""Places, values and a pip that serves files from memory, for these tests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Not resolved: under Bazel the files are links, and their neighbours lie beside the links.
REPOSITORY = Path(__file__).absolute().parents[3]
INSTALLER = REPOSITORY / "toolchains/exporter/install"
LOCKS = REPOSITORY / "toolchains/exporter/locks"
BACKENDS = REPOSITORY / "backends"

LINUX = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.7",
    "python_version": "3.11",
    "sys_platform": "linux",
    "extra": "",
}

MakeWheel = Callable[..., Path]


def sha256(path: Path) -> str:
    """A file's hash as locks hold it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass
class FakePip:
    """A pip whose index is a list of files, and which notes how it was called.

    Attributes:
      wheels: what `pip download` finds.
      versions: what `pip index versions` says.
      failure: what `pip download` says instead of succeeding.
    """

    wheels: list[Path] = field(default_factory=list)
    versions: str = "demo (1.0)\nAvailable versions: 1.0\n"
    failure: str = ""
    calls: list[list[str]] = field(default_factory=list)

    def run(
        self, arguments: Sequence[str], on_line: Callable[[str], None] = lambda line: None
    ) -> tuple[int, str]:
        """Plays a pip."""
        self.calls.append(list(arguments))
        if arguments[:2] == ["index", "versions"]:
            return 0, self.versions
        if self.failure:
            return 1, self.failure
        wanted = Path(arguments[arguments.index("--requirement") + 1]).read_text()
        place = Path(arguments[arguments.index("--dest") + 1])
        for wheel in self.wheels:
            if f"{wheel.name.split('-')[0].replace('_', '-')}==" in wanted:
                on_line(f"  Downloading {wheel.name} (1.2 MB)")
                (place / wheel.name).write_bytes(wheel.read_bytes())
        return 0, ""
