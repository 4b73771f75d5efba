"""Puts a Bazel together from Debian packages, or fetches Debian's modules alone."""

from __future__ import annotations

import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bootstrap import debian
from bootstrap.apt import Apt
from bootstrap.console import BootstrapError, progress
from bootstrap.jre import provide_jre
from bootstrap.layout import Layout
from bootstrap.locks import (
    TEMPORARY_PREFIX,
    exclusive,
    make_writable,
    new_directory,
    remove_tree,
)
from bootstrap.relocate import BUILD_LABEL, CLIENT, INSTALL_BASE, missing_libraries, relocate
from bootstrap.sources import find_debian

JRE = "jre"
_TRIAL_SECONDS = 90

# Written last. It names the directory: paths in it are absolute, so a moved copy is of no use.
_COMPLETE = "bazelw-complete"


def is_complete(directory: Path) -> bool:
    """Whether the directory was assembled, all of it, for this very place."""
    try:
        return (directory / _COMPLETE).read_text(encoding="utf-8") == f"{directory}\n"
    except OSError:
        return False


def _mark_complete(temporary: Path, final: Path) -> None:
    (temporary / _COMPLETE).write_text(f"{final}\n", encoding="utf-8")


def _fill_bazel(prefix: Path, final: Path, scratch: Path) -> None:
    source = find_debian()
    progress(f"[1/5] reading the package lists of Debian unstable ({source.uri})")
    apt = Apt(scratch / "apt", source)
    apt.update()
    version = apt.version(debian.BAZEL_PACKAGE)
    debian.check_version(version)
    closure = apt.closure([debian.BAZEL_PACKAGE])
    packages = debian.needed_packages(closure)
    packages = list(dict.fromkeys([*packages, *debian.extra_module_packages(apt), "patchelf"]))
    with ThreadPoolExecutor(max_workers=1) as pool:
        jre = pool.submit(provide_jre, prefix / JRE, scratch / "wheels")
        progress(f"[2/5] fetching Bazel {version}: {len(packages)} packages, and a JRE")
        archives = apt.download(packages, scratch / "debs")
        progress("[3/5] unpacking")
        debian.unpack(archives, prefix)
        jre.result()
    missing = missing_libraries(prefix)
    if missing:
        progress(f"fetching more libraries: {', '.join(missing)} missing")
        debian.unpack(apt.download(debian.library_packages(closure), scratch / "debs"), prefix)
        missing = missing_libraries(prefix)
        if missing:
            raise BootstrapError(f"no Debian package brings {', '.join(missing)}")
    progress("[4/5] adapting it to its place")
    relocate(prefix, final)
    _mark_complete(prefix, final)


def startup_options(prefix: Path) -> list[str]:
    """The startup options without which an assembled Bazel does not find its parts."""
    return [
        "--nosystem_rc",
        f"--install_base={prefix / INSTALL_BASE}",
        "--trust_install_base",
        f"--server_javabase={prefix / JRE}",
    ]


def _try_it(prefix: Path) -> None:
    """Has the client start a server and talk to it, in an empty workspace.

    Raises:
        BootstrapError: it does not work.
    """
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=prefix.parent) as scratch:
        workspace = Path(scratch) / "workspace"
        workspace.mkdir()
        (workspace / "MODULE.bazel").touch()
        command = [str(prefix / CLIENT), *startup_options(prefix), "--nohome_rc"]
        command += [f"--output_base={scratch}/base", "--max_idle_secs=15"]
        try:
            result = subprocess.run(
                [*command, "version"],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                cwd=workspace,
                stdin=subprocess.DEVNULL,
                timeout=_TRIAL_SECONDS,
            )
            problem = "" if "Build label" in result.stdout else result.stderr.strip()
            problem = problem and f"exit code {result.returncode}: {problem[-1500:]}"
        except subprocess.TimeoutExpired:
            problem = f"no answer within {_TRIAL_SECONDS} s"
        finally:
            subprocess.run([*command, "shutdown"], capture_output=True, check=False, cwd=workspace)
            make_writable(Path(scratch))
    if problem:
        raise BootstrapError(
            f"the assembled Bazel does not work, {problem}",
            ["Install Bazel 7.7 or newer yourself and put it on PATH, or set BAZEL to it."],
        )


def ensure_bazel(layout: Layout) -> Path:
    """The directory of the assembled Bazel; assembles it if it is not there."""
    final = layout.bazel
    if is_complete(final):
        return final
    with exclusive(layout.lock, "putting Bazel together"):
        if is_complete(final):
            return final
        started = time.monotonic()
        progress(f"putting Bazel together from Debian packages, once, in {final}")
        with (
            new_directory(final) as prefix,
            tempfile.TemporaryDirectory(prefix="scratch-", dir=prefix) as scratch,
        ):
            _fill_bazel(prefix, final, Path(scratch))
        progress("[5/5] trying it")
        try:
            _try_it(final)
        except BaseException:
            remove_tree(final)
            raise
        progress(f"done in {time.monotonic() - started:.0f} s")
    return final


def ensure_modules(layout: Layout) -> Path:
    """A directory with Debian's modules; the assembled Bazel's if there is one."""
    for directory in (layout.bazel, layout.modules):
        if is_complete(directory):
            return directory
    final = layout.modules
    with exclusive(layout.lock, "fetching Bazel modules"):
        if is_complete(final):
            return final
        source = find_debian()
        progress(f"fetching Bazel modules from Debian unstable ({source.uri}), once")
        with (
            new_directory(final) as prefix,
            tempfile.TemporaryDirectory(prefix="scratch-", dir=prefix) as scratch,
        ):
            apt = Apt(Path(scratch) / "apt", source)
            apt.update()
            packages = debian.module_packages(apt)
            debian.unpack(apt.download(packages, Path(scratch) / "debs"), prefix)
            _mark_complete(prefix, final)
    return final


def assembled_version(prefix: Path) -> str:
    """The version of an assembled Bazel."""
    return (prefix / BUILD_LABEL).read_text(encoding="utf-8").strip()
