"""A small machine of fakes to run `bazelw` on."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
REPOSITORY = Path(__file__).absolute().parents[3]

# Programs that bazelw and the bootstrap may start; apt is not among them.
_TOOLS = ("bash", "env", "python3", "date", "readlink", "uname", "cat", "sleep")


@dataclass
class Machine:
    """A home, a workspace and a PATH of their own for `bazelw`.

    Attributes:
        root: a temporary directory that holds all of it.
        environment: the whole environment of `bazelw`.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Makes the directories; no host is reachable and no registry is asked."""
        for name in ("bin", "tools", "home", "workspace"):
            (self.root / name).mkdir()
        for name in _TOOLS:
            found = sys.executable if name == "python3" else _which(name)
            (self.root / "tools" / name).symlink_to(found)
        self.environment = {
            "PATH": f"{self.root / 'bin'}:{self.root / 'tools'}",
            "HOME": str(self.root / "home"),
            "BAZELISK_BASE_URL": "http://127.0.0.1:9",
            "RULES_EXECUTORCH_DEBIAN_MIRROR": "http://127.0.0.1:9/debian",
            "RULES_EXECUTORCH_MODULES": "registry",
        }
        (self.workspace / "MODULE.bazel").write_text('module(name = "w")\n')

    @property
    def workspace(self) -> Path:
        """The workspace's root."""
        return self.root / "workspace"

    @property
    def cache(self) -> Path:
        """The bootstrap's cache directory."""
        return self.root / "home/.cache/rules_executorch/bazelw"

    def fake(self, path: str, version: str = "7.7.1", body: str = "") -> Path:
        """Writes a program that tells a version and else repeats its arguments.

        Args:
            path: relative to the machine's root; `bin/` is on PATH.
            version: what it tells.
            body: shell code to run first.
        """
        program = self.root / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(
            "#!/usr/bin/env bash\n"
            f"{body}\n"
            f'echo asked >>"{self.root}/asked"\n'
            f'if [[ $* == --version ]]; then echo "bazel {version}"; exit; fi\n'
            f'printf "{program.name} $PWD"; printf " <%s>" "$@"; echo\n'
        )
        program.chmod(0o755)
        return program

    def asked(self) -> int:
        """The number of times that fakes were started."""
        try:
            return len((self.root / "asked").read_text().splitlines())
        except OSError:
            return 0

    def bazelw(
        self,
        *arguments: str,
        cwd: Path | None = None,
        program: Path | None = None,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        """Runs `bazelw`."""
        return subprocess.run(
            [program or REPOSITORY / "bazelw", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd or self.workspace,
            env={**self.environment, **variables},
            timeout=60,
        )


def _which(name: str) -> str:
    for directory in ("/usr/bin", "/bin", "/usr/local/bin"):
        if os.access(f"{directory}/{name}", os.X_OK):
            return f"{directory}/{name}"
    raise FileNotFoundError(name)
