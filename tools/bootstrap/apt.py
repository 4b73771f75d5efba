"""apt with a state of its own: it reads and writes nothing of the machine's package state."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bootstrap.console import BootstrapError
from bootstrap.sources import MIRROR_VARIABLE, Source

# Bazel is packaged there only.
SUITE = "sid"

# What to do where packages of Bazel can't be had.
_OWN_BAZEL = "Install Bazel 7.7 or newer yourself and put it on PATH, or set BAZEL to it."

# What of the machine's own configuration is kept: proxies, certificates, time limits.
_KEPT_CONFIGURATION = re.compile(
    r"^Acquire::(?:http|https|ftp|tor|mirror|Retries|Max-FutureTime|ForceIPv[46]"
    r"|Check-Valid-Until|Check-Date|By-Hash|Queue-Mode)(?:::\S*)? "
)


def kept_configuration(dump: str) -> list[str]:
    """The lines of `apt-config dump` that hold for our own apt, too."""
    return [line for line in dump.splitlines() if _KEPT_CONFIGURATION.match(line)]


def parse_closure(simulation: str) -> list[str]:
    """The packages that `apt-get -s install` would install, in its order, without duplicates."""
    names = re.findall(r"^Inst (\S+)", simulation, re.MULTILINE)
    return list(dict.fromkeys(name.split(":")[0] for name in names))


class Apt:
    """apt on one suite of one archive, with an empty package state."""

    def __init__(
        self,
        directory: Path,
        source: Source,
        suite: str = SUITE,
        architecture: str = "",
        instead: str = _OWN_BAZEL,
    ) -> None:
        """Sets up apt for an archive, with all of its state in a directory.

        Args:
            directory: where the state goes.
            source: the archive.
            suite: a release of Debian; default: the one that has Bazel.
            architecture: whose packages are wanted, e.g. "amd64"; default: this machine's.
            instead: what to do where no package can be had.

        Raises:
            BootstrapError: this machine has no apt.
        """
        self._source = source
        self._suite = suite
        self._architecture = architecture
        self._instead = instead
        self._directory = directory
        self._configuration = directory / "apt.conf"
        for tool in ("apt-get", "apt-cache", "apt-config", "dpkg-deb"):
            if not shutil.which(tool):
                raise BootstrapError(
                    f"{tool} is not on PATH, and Debian packages are fetched with it",
                    [instead],
                )
        self._write_configuration()

    def _write_configuration(self) -> None:
        for name in ("state/lists/partial", "cache/archives/partial", "empty"):
            (self._directory / name).mkdir(parents=True, exist_ok=True)
        (self._directory / "status").touch()
        options = f" [signed-by={self._source.signed_by}]" if self._source.signed_by else ""
        (self._directory / "sources.list").write_text(
            f"deb{options} {self._source.uri} {self._suite} main\n", encoding="utf-8"
        )
        dump = subprocess.run(
            ["apt-config", "dump"], capture_output=True, text=True, check=False, errors="replace"
        ).stdout
        here = self._directory
        lines = [
            'Dir::Etc::main "/dev/null";',
            f'Dir::Etc::parts "{here}/empty";',
            f'Dir::Etc::sourcelist "{here}/sources.list";',
            f'Dir::Etc::sourceparts "{here}/empty";',
            'Dir::Etc::preferences "/dev/null";',
            f'Dir::Etc::preferencesparts "{here}/empty";',
            f'Dir::State "{here}/state";',
            f'Dir::State::status "{here}/status";',
            f'Dir::Cache "{here}/cache";',
            'Dir::Log "/dev/null";',
            'Acquire::Languages "none";',
            'Acquire::Retries "3";',
            'Acquire::http::Timeout "30";',
            'Acquire::https::Timeout "30";',
            # Its files belong to us; dropping root's rights would only make it fail to write them.
            'APT::Sandbox::User "";',
            'APT::Install-Recommends "false";',
            'APT::Update::Error-Mode "any";',
            *kept_configuration(dump),
        ]
        if self._architecture:
            lines.append(f'APT::Architecture "{self._architecture}";')
            lines.append(f'APT::Architectures {{ "{self._architecture}"; }};')
        self._configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _run(self, arguments: Sequence[str], purpose: str, cwd: Path | None = None) -> str:
        environment = dict(os.environ, APT_CONFIG=str(self._configuration), LC_ALL="C.UTF-8")
        result = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=cwd or self._directory,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if line.startswith(("E:", "W:"))]
            raise BootstrapError(
                f"cannot {purpose} from {self._source.uri} {self._suite} (named by "
                f"{self._source.origin}):\n" + "\n".join(lines[-6:] or [result.stderr[-500:]]),
                _remedies(result.stderr, self._instead),
            )
        return result.stdout

    def update(self) -> None:
        """Fetches the package lists and checks their signature."""
        self._run(["apt-get", "-q", "update"], "read the package lists")

    def available(self, prefix: str) -> list[str]:
        """The names of the archive's packages that begin with a prefix."""
        return self._run(["apt-cache", "pkgnames", prefix], "list packages").split()

    def closure(self, packages: Sequence[str]) -> list[str]:
        """The packages and all that they depend on."""
        command = ["apt-get", "-q", "-s", "install", *packages]
        return parse_closure(self._run(command, f"resolve {' '.join(packages)}"))

    def version(self, package: str) -> str:
        """The version that would be installed."""
        output = self._run(["apt-cache", "show", "--no-all-versions", package], f"find {package}")
        match = re.search(r"^Version: (\S+)", output, re.MULTILINE)
        return match[1] if match else ""

    def download(self, packages: Sequence[str], directory: Path) -> list[Path]:
        """Fetches packages, each checked against the signed lists."""
        directory.mkdir(parents=True, exist_ok=True)
        before = set(directory.glob("*.deb"))
        self._run(["apt-get", "-q", "download", *packages], "fetch packages", cwd=directory)
        return sorted(set(directory.glob("*.deb")) - before)


def _remedies(stderr: str, instead: str) -> list[str]:
    """What to do about a failure of apt."""
    if "NO_PUBKEY" in stderr or "not signed" in stderr or "public key" in stderr:
        return [
            "Install or renew the package debian-archive-keyring: the archive's signature "
            "cannot be checked without it."
        ]
    if "No space left" in stderr:
        return ["Free some disk space (1 GB) or set XDG_CACHE_HOME to a larger disk."]
    return [
        f"Check that the archive can be reached from here, or set {MIRROR_VARIABLE} to another.",
        instead,
    ]
