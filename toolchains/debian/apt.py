"""Debian packages without touching the machine: finds an archive, fetches from it, unpacks.

apt runs with a state directory of its own and an empty package database, so that it neither reads
nor changes what is installed; it checks the archive's signature as usual. Unpacked packages are
merged into one tree, and no package can write outside of it.
"""

from __future__ import annotations

import io
import lzma
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from debian.command import ActionableError, run

MIRROR_VARIABLE = "RULES_EXECUTORCH_DEBIAN_MIRROR"

# Names of Debian's own releases; no other distribution uses them.
_SUITES = re.compile(r"(?:old)*stable|testing|unstable|sid|bullseye|bookworm|trixie|forky|duke")

_KEYRINGS = tuple(
    f"{directory}/debian-archive-keyring.{ending}"
    for directory in ("/usr/share/keyrings", "/etc/apt/keyrings")
    for ending in ("pgp", "gpg", "asc")
)

# The settings of the machine's apt that ours uses, too: proxies, certificates, time limits.
_NETWORK_SETTING = re.compile(
    r"^Acquire::(?:http|https|ftp|tor|mirror|Retries|Max-FutureTime|ForceIPv[46]"
    r"|Check-Valid-Until|Check-Date|By-Hash|Queue-Mode)(?:::\S*)? "
)


def _keyring(path: str = "", uri: str = "") -> str:
    """The keyring that a file names for an archive, or else Debian's, or else ""."""
    candidates = list(_KEYRINGS)
    if path:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        for entry in re.split(r"\n" if path.endswith(".list") else r"\n[ \t]*\n", text):
            if uri in entry:
                candidates[:0] = re.findall(r"signed-by\s*[:=]\s*(/[^\s,\]]+)", entry, re.I)
    return next((keyring for keyring in candidates if Path(keyring).is_file()), "")


def find_archive() -> tuple[str, str, str]:
    """The address of a Debian archive, its keyring or "" for apt's own, and what names it."""
    mirror = os.environ.get(MIRROR_VARIABLE, "")
    if mirror:
        return mirror, _keyring(), f"${MIRROR_VARIABLE}"
    # Without release info it also lists what was never fetched.
    command = ["apt-get", "indextargets", "--no-release-info", "Created-By: Packages"]
    command += ["--format", "$(RELEASE) $(SOURCESENTRY) $(REPO_URI)"]
    suites = set()
    for line in run(command).stdout.splitlines():
        suite, entry, uri = line.split(" ", 2)
        suites.add(suite)
        if _SUITES.fullmatch(suite) and not uri.startswith("cdrom:"):
            uri, path = uri.rstrip("/"), entry.rpartition(":")[0]
            return uri, _keyring(path, uri), path
    raise ActionableError(
        f"apt sources in /etc/apt: no Debian archive: got suites "
        f"{', '.join(sorted(suites)) or 'none'}, expected one such as bookworm or trixie",
        [f"Set {MIRROR_VARIABLE} to the address of a Debian mirror (the directory with dists/)."],
    )


class Apt:
    """apt on one suite of a Debian archive, with no packages installed; raises ActionableError.

    Args:
        directory: gets its state.
        suite: a release of Debian; default: the one with the newest packages.
        architecture: of the packages, such as "amd64"; default: this machine's.
        remedy: what the user can do if packages are not available.
    """

    def __init__(
        self,
        directory: Path,
        suite: str = "sid",
        architecture: str = "",
        remedy: str = "Fetch the packages on a machine with Debian's apt.",
    ) -> None:
        if not shutil.which("apt-get"):
            raise ActionableError("apt-get: not found on PATH: expected Debian's apt", [remedy])
        self._directory = directory.absolute()
        self.uri, self._keyring, self._origin = find_archive()
        self._suite = suite
        self._remedy = remedy
        configuration = str(self._directory / "apt.conf")
        self._environment = {"APT_CONFIG": configuration, "LC_ALL": "C.UTF-8"}
        self._write_configuration(architecture)

    def _write_configuration(self, architecture: str) -> None:
        root = self._directory
        for name in ("apt.conf.d", "preferences.d", "sources.list.d"):
            (root / "etc/apt" / name).mkdir(parents=True, exist_ok=True)
        for name in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        options = f" [signed-by={self._keyring}]" if self._keyring else ""
        source = f"deb{options} {self.uri} {self._suite} main\n"
        (root / "etc/apt/sources.list").write_text(source, encoding="utf-8")
        lines = [
            f'Dir "{root}/";',
            f'Dir::State::status "{root}/status";',
            'Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";',
            'Acquire::Languages "none";',
            'Acquire::Retries "3";',
            'Acquire::http::Timeout "30";',
            # Its files are ours: without root's rights it could not write them.
            'APT::Sandbox::User "";',
            'APT::Install-Recommends "false";',
            'APT::Update::Error-Mode "any";',
            *filter(_NETWORK_SETTING.match, run(["apt-config", "dump"]).stdout.splitlines()),
        ]
        if architecture:
            lines.append(f'APT::Architecture "{architecture}";')
            lines.append(f'APT::Architectures {{ "{architecture}"; }};')
        (root / "apt.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _run(self, purpose: str, *command: str, cwd: Path | None = None) -> str:
        environment = {**os.environ, **self._environment}
        result = run(["apt-get", "-q", *command], cwd=cwd or self._directory, env=environment)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if line.startswith(("E:", "W:"))]
            raise ActionableError(
                f"{self.uri} {self._suite} (from {self._origin}): "
                f"cannot {purpose}:\n" + "\n".join(lines[-6:] or [result.stderr[-500:]]),
                _remedies(result.stderr, self._remedy),
            )
        return result.stdout

    def update(self) -> None:
        """Fetches the package lists and checks their signature."""
        self._run("read the package lists", "update")

    def closure(self, packages: Sequence[str]) -> dict[str, str]:
        """Package to version, of packages, or regular expressions, and all that they need."""
        output = self._run(f"resolve {' '.join(packages)}", "-s", "install", *packages)
        return dict(re.findall(r"^Inst (\S+?)(?::\S+)? \((\S+)", output, re.MULTILINE))

    def versions(self, packages: Sequence[str]) -> dict[str, list[str]]:
        """The versions that the archive has of packages, the newest first."""
        environment = {**os.environ, **self._environment}
        listed = run(["apt-cache", "madison", *packages], cwd=self._directory, env=environment)
        versions: dict[str, list[str]] = {}
        for line in listed.stdout.splitlines():
            package, version, _ = (part.strip() for part in line.split("|", 2))
            versions.setdefault(package, []).append(version)
        return versions

    def download(self, packages: Sequence[str], directory: Path) -> list[Path]:
        """Fetches packages, as `name` or `name=version`, into a new directory.

        Each is checked against the signed lists.
        """
        directory.mkdir(parents=True)
        self._run("fetch packages", "download", *packages, cwd=directory)
        return sorted(directory.glob("*.deb"))


def _remedies(stderr: str, remedy: str) -> list[str]:
    """Lists what to do about a failure of apt."""
    if "NO_PUBKEY" in stderr or "not signed" in stderr or "public key" in stderr:
        return ["Install or upgrade debian-archive-keyring, which has the archive's keys."]
    if "No space left" in stderr:
        return ["Free 1 GB of disk space, or set XDG_CACHE_HOME to a directory on a larger disk."]
    return [f"Check that the archive is reachable, or set {MIRROR_VARIABLE} to another.", remedy]


def unpack(archives: Sequence[Path], target: Path) -> None:
    """Unpacks packages into one tree and removes them; runs none of their scripts.

    Raises ActionableError if one is damaged, or would write outside of the tree.
    """
    target.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".unpacking-", dir=target) as scratch,
        ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        # A directory for each: one package's link must not redirect another's files.
        folders = [Path(scratch, str(number)) for number in range(len(archives))]
        list(pool.map(_extract, archives, folders))
        for number, archive in enumerate(archives):
            merge(folders[number], target, archive.name)


def _extract(archive: Path, folder: Path) -> None:
    if shutil.which("dpkg-deb"):
        result = run(["dpkg-deb", "-x", archive, folder])
        problem = result.stderr.strip() if result.returncode else ""
    else:
        try:
            extract_here(archive, folder)
            problem = ""
        except (
            OSError,
            EOFError,
            ValueError,
            tarfile.TarError,
            lzma.LZMAError,
            zlib.error,
        ) as error:
            problem = str(error) or type(error).__name__
    if problem:
        remedy = "Check the free disk space, and fetch the package again."
        raise ActionableError(f"{archive.name}: damaged package:\n{problem}", [remedy])
    archive.unlink()


def extract_here(archive: Path, folder: Path) -> None:
    """Unpacks a package without Debian's programs; no member leaves the folder."""
    data = archive.read_bytes()
    if not data.startswith(b"!<arch>\n"):
        raise ValueError("no archive of ar")
    position, found = 8, None
    while position + 60 <= len(data) and found is None:
        name = data[position : position + 16].decode("latin-1").strip().rstrip("/")
        size = int(data[position + 48 : position + 58])
        if name.startswith("data.tar"):
            found = data[position + 60 : position + 60 + size]
        position += 60 + size + size % 2
    if found is None:
        raise ValueError("no data.tar in it")
    folder.mkdir(parents=True, exist_ok=True)
    root = Path(os.path.realpath(folder))
    with tarfile.open(fileobj=io.BytesIO(found)) as opened:
        for member in opened:
            target = root / member.name
            if target == root:
                continue
            for path in [target.parent, *([root / member.linkname] if member.islnk() else [])]:
                real = Path(os.path.realpath(path))
                if ".." in target.parts or root not in (real, *real.parents):
                    raise ValueError(f"{member.name}: a path that leads out of the package")
            opened.extract(member, root, set_attrs=not member.issym())


def merge(source: Path, target: Path, package: str) -> None:
    """Moves what a package was unpacked to into a tree, over what is there.

    Links that other packages brought are followed as long as they stay in the tree.
    """
    root = Path(os.path.realpath(target))
    for folder, directories, files in os.walk(source):
        relative = Path(folder).relative_to(source)
        real = Path(os.path.realpath(target / relative))
        if real != root and root not in real.parents:
            raise _refused(package, relative, f"got a path through a link to {real}")
        if os.path.lexists(real) and not real.is_dir():
            raise _refused(package, relative, "got a directory where a file is")
        real.mkdir(parents=True, exist_ok=True)
        links = [name for name in directories if Path(folder, name).is_symlink()]
        directories[:] = sorted(set(directories) - set(links))
        for name in sorted(files + links):
            mode = Path(folder, name).lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                raise _refused(package, relative / name, "got a device, a pipe or a socket")
            if (real / name).is_dir() and not (real / name).is_symlink():
                raise _refused(package, relative / name, "got a file where a directory is")
            Path(folder, name).replace(real / name)


def _refused(package: str, relative: Path, problem: str) -> ActionableError:
    reason = f"{package}: {relative}: {problem}, expected files, links and directories in the tree"
    return ActionableError(reason, ["Fetch the package again, or report it to its archive."])
