"""Writes the locks from the `.in` files beside them.

uv resolves for all platforms and lists the hashes of every file of a version. locking.toml says
which requirements of requirements are left out, and of which package only CPU builds count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from install import bootstrap, locks
from install.errors import InstallError
from install.locks import Requirement, canonical

from . import pip_tool

LOCKS = Path(__file__).absolute().parents[1] / "locks"
# Their folders may have locks of layers.
LAYERS = [LOCKS.parents[2] / "backends", LOCKS.parents[2] / "tools"]
_BASE = "exporter_cp311.txt"
RUNNING = ".".join(map(str, bootstrap.EXPECTED))
_HEADER = """\
# Written from {source} and the versions in MODULE.bazel, by
# `bazel run @rules_executorch//toolchains/exporter:lock.update`; change those instead.
# For CPython {python} on {targets}.
"""


@dataclass(frozen=True)
class Target:
    """A platform that the locks serve, and tags of the wheels that it takes."""

    sys_platform: str
    platform_system: str
    platform_machine: str
    tags: tuple[str, ...]

    @property
    def name(self) -> str:
        """As in locking.toml: "linux_x86_64"."""
        return f"{self.sys_platform}_{self.platform_machine}"

    def environment(self) -> dict[str, str]:
        """The values of markers there."""
        return {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": self.platform_machine,
            "platform_python_implementation": "CPython",
            "platform_system": self.platform_system,
            "python_full_version": f"{RUNNING}.99",
            "python_version": RUNNING,
            "sys_platform": self.sys_platform,
        }


TARGETS = (
    *(
        Target("linux", "Linux", cpu, (f"manylinux_2_28_{cpu}", f"manylinux_2_17_{cpu}"))
        for cpu in ("x86_64", "aarch64")
    ),
    Target("darwin", "Darwin", "arm64", ("macosx_14_0_arm64",)),
)


def narrow(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Reduces requirements to those of our targets, with markers that name them."""
    narrowed = []
    for requirement in requirements:
        on = [t for t in TARGETS if locks.matches(requirement.marker, t.environment())]
        markers = [
            f"(sys_platform == '{t.sys_platform}' and platform_machine == '{t.platform_machine}')"
            for t in on
        ]
        if on:
            marker = "" if len(on) == len(TARGETS) else " or ".join(markers)
            narrowed.append(replace(requirement, marker=marker))
    return sorted(narrowed, key=lambda r: (r.name, r.marker))


def render(
    source: str,
    requirements: Sequence[Requirement],
    urls_by_sha256: Mapping[str, str] | None = None,
) -> str:
    """The text of a lock; URLs of files are comments below their requirement."""
    urls = urls_by_sha256 or {}
    targets = ", ".join(target.name for target in TARGETS)
    header = _HEADER.format(source=source, python=RUNNING, targets=targets)
    lines = [header]
    for requirement in requirements:
        known = sorted(requirement.hashes & urls.keys())
        lines.append(requirement.line())
        lines += [f"# file: {urls[sha256]}#sha256={sha256}\n" for sha256 in known]
    return "".join(lines)


def public_url(url: str) -> str | None:
    """A URL as it may be written: without user and password, or None.

    None stands for files of this machine, and for URLs with a query, which may be a signature.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.query or not parts.hostname:
        return None
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def report_urls(report: Mapping[str, Any]) -> dict[str, str]:
    """The URLs in a report of pip that may be written, by sha256."""
    urls = {}
    for entry in report["install"]:
        info = entry["download_info"]
        sha256 = info.get("archive_info", {}).get("hashes", {}).get("sha256")
        url = public_url(info["url"])
        if sha256 and url:
            urls[sha256] = url
    return urls


def candidate_hash(report: Mapping[str, Any], target: Target) -> str | None:
    """The hash of the file in a report of pip, or None if it is a CUDA build on that platform."""
    (entry,) = report["install"]
    for requirement in entry["metadata"].get("requires_dist", []):
        name, _, marker = requirement.partition(";")
        cuda = name.startswith(("nvidia-", "cuda-", "triton"))
        if cuda and locks.matches(marker.strip(), target.environment()):
            return None
    return str(entry["download_info"]["archive_info"]["hashes"]["sha256"])


def main(arguments: list[str]) -> int:
    """Runs the command line; its exit code: 0 done, 1 something that a person has to correct."""
    parser = argparse.ArgumentParser(prog="lock", description=(__doc__ or "").split("\n")[0])
    flag = parser.add_argument
    flag("names", nargs="*", help="locks to write, such as exporter_cp311 (all)")
    text = "write URLs of the files, too, as pip finds them, so that Bazel can download them"
    flag("--urls", action="store_true", help=text)
    flag("--upgrade", action="store_true", help="take the newest versions allowed")
    text = "take this version, whatever the input says; may be given again"
    flag("--version", action="append", default=[], metavar="PACKAGE==VERSION", help=text)
    text = "write FILE.txt beside it and no other lock; may be given again"
    flag("--input", action="append", default=[], type=Path, metavar="FILE.in", help=text)
    flag("--uv", default=shutil.which("uv"), help="the program uv; default: installed with pip")
    flag("--cpu-index", default="", metavar="URL", help="index of CPU builds (see locking.toml)")
    flag("--folder", type=Path, default=LOCKS, help="where the locks are")
    text = "folder whose folders may have locks of layers (backends, tools); may be given again"
    flag("--layers", action="append", default=[], type=Path, help=text)
    options = parser.parse_args(arguments)
    # Layers of the exporter's environment take its versions, whatever bounds packages set.
    inputs = options.input or [
        *sorted(options.folder.glob("*.in")),
        *sorted(path for folder in options.layers or LAYERS for path in folder.glob("**/*.in")),
    ]
    chosen = [path for path in inputs if not options.names or path.stem in options.names]
    try:
        _write_locks(chosen, options)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _write_locks(sources: Iterable[Path], options: argparse.Namespace) -> None:
    settings = tomllib.loads((options.folder / "locking.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        pip = pip_tool.Pip(Path(scratch))
        uv = options.uv or _install_uv(pip)
        for source in sources:
            _write_lock(source, settings, pip, uv, options)


def _install_uv(pip: pip_tool.Pip) -> str:
    folder = pip.scratch / "uv"
    code, output = pip.run(["install", "--quiet", "--target", str(folder), "uv"])
    if code:
        raise pip_tool.explain(output, doing="pip install of uv, which resolves the locks")
    return str(folder / "bin/uv")


def _write_lock(
    source: Path,
    settings: Mapping[str, Any],
    pip: pip_tool.Pip,
    uv: str,
    options: argparse.Namespace,
) -> None:
    lock = source.with_suffix(".txt")
    resolved, overrides = pip.scratch / lock.name, pip.scratch / "overrides.txt"
    # Layers of these rules, such as that of `et`, fit into the versions of our lock alone.
    kept = lock if lock.exists() else options.folder / _BASE
    if kept.exists() and not options.upgrade:
        shutil.copyfile(kept, resolved)
    lines = exclusions(settings.get("exclude", {}), source.read_text(encoding="utf-8"))
    if source.parent != options.folder and not options.input:
        base = options.folder / _BASE
        lines += [f"{r.name}=={r.version}" for r in locks.parse(base.read_text("utf-8"), base)]
    else:
        lines += options.version
    overrides.write_text("".join(f"{line}\n" for line in lines))
    command = [uv, "pip", "compile", str(source), "--output-file", str(resolved), "--quiet"]
    command += ["--universal", "--python-version", RUNNING, "--generate-hashes"]
    command += ["--no-header", "--no-annotate", "--override", str(overrides)]
    # As pip does, trust what the machine trusts; by variables, for the option's name has changed.
    environment = {"UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1", **os.environ}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise InstallError(
            f"{source}: uv cannot resolve the lock. Correct the input; uv takes its package index "
            f"from UV_* variables. uv says:\n{done.stderr.strip()}"
        )
    requirements = narrow(locks.parse(resolved.read_text(encoding="utf-8"), resolved))
    only_cpu = {canonical(name): known for name, known in settings.get("cpu_only", {}).items()}
    urls: dict[str, str] = {}
    requirements = [
        _with_cpu_hashes(r, only_cpu[r.name].get(r.version, {}), pip, options.cpu_index, urls)
        if r.name in only_cpu
        else r
        for r in requirements
    ]
    if options.urls:
        others = [requirement for requirement in requirements if requirement.name not in only_cpu]
        urls |= _found_urls(others, pip)
    text = render(source.name, requirements, urls if options.urls else {})
    lock.write_text(text, encoding="utf-8")
    written = f", {text.count('# file: ')} URLs" if options.urls else ""
    print(f"{lock}: {len(requirements)} packages{written}", file=sys.stderr)


def _found_urls(requirements: Sequence[Requirement], pip: pip_tool.Pip) -> dict[str, str]:
    """The URLs of the files that pip takes on our targets with this machine's settings, by hash."""
    urls = {}
    for target in TARGETS:
        pins = pip.scratch / f"pins_{target.name}.txt"
        on = [r for r in requirements if locks.matches(r.marker, target.environment())]
        pins.write_text("".join(f"{r.name}=={r.version}\n" for r in on), encoding="utf-8")
        code, output, report = _dry_run(["--requirement", str(pins)], target, pip)
        if code:
            raise pip_tool.explain(output, doing=f"pip's search for files for {target.name}")
        urls |= report_urls(report)
    return urls


def _dry_run(
    arguments: Sequence[str], target: Target, pip: pip_tool.Pip
) -> tuple[int, str, dict[str, Any]]:
    """Asks pip what it would install on a platform: its exit code, output and report."""
    path = pip.scratch / f"{target.name}.json"
    command = ["install", "--dry-run", "--ignore-installed", "--no-deps", *_platform(target)]
    command += ["--report", str(path), "--target", str(pip.scratch / "nowhere"), *arguments]
    code, output = pip.run(command)
    return code, output, {} if code else json.loads(path.read_text(encoding="utf-8"))


def _platform(target: Target) -> list[str]:
    """pip's options for a platform."""
    words = [word for tag in target.tags for word in ("--platform", tag)]
    return [*words, "--python-version", RUNNING, "--only-binary", ":all:"]


def exclusions(excluded: Iterable[str], source: str) -> list[str]:
    """Overrides that leave packages out, but for those that the text of an input names."""
    named = {canonical(name) for name in re.findall(r"^[A-Za-z0-9._-]+", source, re.MULTILINE)}
    return [f'{name} ; python_version < "0"' for name in excluded if canonical(name) not in named]


def _with_cpu_hashes(
    requirement: Requirement,
    known: Mapping[str, str],
    pip: pip_tool.Pip,
    index: str,
    urls: dict[str, str],
) -> Requirement:
    """The requirement with the hashes of its CPU builds, not of the registry's CUDA builds.

    Adds to `urls` those of files that pip finds, by sha256.
    """
    hashes = set()
    for target in TARGETS:
        got = _candidate(requirement, target, pip, index, urls)
        sha256 = got or known.get(target.name)
        if sha256 is None:
            raise InstallError(
                f"{requirement.name} {requirement.version}: no CPU build for {target.name}. Give "
                "--cpu-index, or record the sha256 in locking.toml under "
                f'[cpu_only.{requirement.name}."{requirement.version}"].'
            )
        hashes.add(sha256)
        origin = "from pip" if got else "as recorded in locking.toml"
        print(f"{requirement.name} for {target.name}: {origin}", file=sys.stderr)
    return replace(requirement, hashes=frozenset(hashes))


def torch_options(
    version: str, answer: str, sys_platform: str, index: str
) -> tuple[str, ...] | None:
    """pip's options for the CPU build of a version of torch; None if only a CUDA build is offered.

    Args:
      answer: of `pip index versions`, which has the versions that pip's own settings offer.
      sys_platform: of the machine that torch is for, as in `sys.platform`.
      index: URL of an index of CPU builds; empty: none.
    """
    listed = re.search(r"^Available versions:(.*)$", answer, re.MULTILINE)
    available = re.findall(r"[^\s,]+", listed[1]) if listed else []
    release, _, local = version.partition("+")
    builds = [v for v in available if v.partition("+")[0] == release]
    if any(v.partition("+")[2].startswith("cpu") or (local and v == version) for v in builds):
        return ()
    if sys_platform == "darwin" and builds:
        return ()
    return ("--index-url", index) if index else None


def _candidate(
    requirement: Requirement,
    target: Target,
    pip: pip_tool.Pip,
    index: str,
    urls: dict[str, str],
) -> str | None:
    """The hash of the CPU build that pip finds for a platform, if any."""
    answer = pip.run(["index", "versions", *_platform(target), requirement.name])[1]
    options = torch_options(requirement.version, answer, target.sys_platform, index)
    if options is None:
        return None
    pin = f"{requirement.name}=={requirement.version}"
    code, _, report = _dry_run([pin, *options], target, pip)
    if code:
        return None
    urls |= report_urls(report)
    return candidate_hash(report, target)
