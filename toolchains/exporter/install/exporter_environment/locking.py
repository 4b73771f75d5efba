"""The command `lock`: writes the locks again from the `.in` files beside them.

uv resolves for all platforms and lists the hashes of every file of a version; locking.toml says
which requirements of requirements are left out, and for which package only CPU builds count.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import locks, pip_tool, torch_source
from .errors import InstallError
from .interpreter import RUNNING
from .locks import Requirement, canonical
from .markers import matches

_HEADER = """\
# Written from {source} and the versions in MODULE.bazel, by
# `bazel run @rules_executorch//toolchains/exporter:lock.update`; change those instead.
# For CPython {python} on {targets}.
"""

# The exporter's lock, in the folder of locks.
_BASE = "exporter_cp311.txt"


@dataclass(frozen=True)
class Target:
    """A platform that the locks serve."""

    name: str
    sys_platform: str
    platform_system: str
    platform_machine: str
    tags: tuple[str, ...]

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
            "extra": "",
        }

    def marker(self) -> str:
        """A marker that holds on this platform only."""
        return (
            f"(sys_platform == '{self.sys_platform}' and "
            f"platform_machine == '{self.platform_machine}')"
        )


def _manylinux(machine: str) -> tuple[str, ...]:
    return tuple(f"manylinux_2_{minor}_{machine}" for minor in (28, 17))


TARGETS = (
    Target("linux_x86_64", "linux", "Linux", "x86_64", _manylinux("x86_64")),
    Target("linux_aarch64", "linux", "Linux", "aarch64", _manylinux("aarch64")),
    Target("darwin_arm64", "darwin", "Darwin", "arm64", ("macosx_14_0_arm64",)),
)


def marker_for(targets: Sequence[Target]) -> str:
    """The marker of a package that some of the targets need."""
    return "" if len(targets) == len(TARGETS) else " or ".join(t.marker() for t in targets)


def narrow(requirements: Sequence[Requirement]) -> list[Requirement]:
    """What counts on our targets, with markers that name them."""
    narrowed = []
    for requirement in requirements:
        on = [t for t in TARGETS if matches(requirement.marker, t.environment())]
        if on:
            name, version, hashes = requirement.name, requirement.version, requirement.hashes
            narrowed.append(Requirement(name, version, marker_for(on), hashes))
    return sorted(narrowed, key=lambda r: (r.name, r.marker))


def render(source: str, requirements: Sequence[Requirement]) -> str:
    """The text of a lock."""
    header = _HEADER.format(
        source=source, python=RUNNING, targets=", ".join(target.name for target in TARGETS)
    )
    return header + "".join(requirement.line() for requirement in requirements)


def candidate_hash(report: Mapping[str, Any], target: Target) -> str | None:
    """The hash of the file in a pip report, or None when it is a CUDA build on that platform."""
    (found,) = report["install"]
    for need in found["metadata"].get("requires_dist", []):
        name, _, marker = need.partition(";")
        cuda = name.startswith(("nvidia-", "cuda-", "triton"))
        if cuda and matches(marker.strip(), target.environment()):
            return None
    return str(found["download_info"]["archive_info"]["hashes"]["sha256"])


def main(arguments: list[str], folder: Path) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="install lock", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("names", nargs="*", help="locks to write, such as exporter_cp311 (all)")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions allowed")
    parser.add_argument(
        "--version",
        action="append",
        default=[],
        metavar="PACKAGE==VERSION",
        help="take this version of a package, whatever the input says; may be given again",
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        type=Path,
        metavar="FILE.in",
        help="write FILE.txt beside it and no other lock; may be given again",
    )
    parser.add_argument("--uv", default=shutil.which("uv"), help="the program uv")
    parser.add_argument(
        "--cpu-index", default="", metavar="URL", help="index of CPU builds (see locking.toml)"
    )
    parser.add_argument("--folder", type=Path, default=folder, help="where the locks are")
    parser.add_argument(
        "--layers",
        type=Path,
        default=folder.parents[2] / "backends",
        help="folder of the backends, of which some have locks of their own",
    )
    options = parser.parse_args(arguments)
    settings = tomllib.loads((options.folder / "locking.toml").read_text(encoding="utf-8"))
    inputs = options.input
    if not inputs:
        inputs = sorted(options.folder.glob("*.in"))
        # Layers of the exporter's environment take its versions, whatever bounds packages set.
        inputs += sorted(options.layers.glob("*/*.in"))
    if options.names:
        inputs = [path for path in inputs if path.stem in options.names]
    with tempfile.TemporaryDirectory() as scratch:
        pip = pip_tool.find(Path(scratch))
        uv = options.uv or _install_uv(pip, Path(scratch))
        for source in inputs:
            _write_lock(source, settings, pip, uv, options, Path(scratch))
    return 0


def _install_uv(pip: pip_tool.Pip, scratch: Path) -> str:
    code, said = pip.run(["install", "--quiet", "--target", str(scratch / "uv"), "uv"])
    if code:
        raise pip_tool.explain(said, doing="pip install of uv, which resolves the locks")
    return str(scratch / "uv" / "bin" / "uv")


def _write_lock(
    source: Path,
    settings: Mapping[str, Any],
    pip: pip_tool.Pip,
    uv: str,
    options: argparse.Namespace,
    scratch: Path,
) -> None:
    lock = source.with_suffix(".txt")
    resolved = scratch / lock.name
    if lock.exists() and not options.upgrade:
        shutil.copyfile(lock, resolved)
    overrides = scratch / "overrides.txt"
    lines = exclusions(settings.get("exclude", {}), source.read_text(encoding="utf-8"))
    if source.parent != options.folder and not options.input:
        lines += _pins(options.folder / _BASE)
    else:
        lines += options.version
    overrides.write_text("".join(f"{line}\n" for line in lines))
    command = [uv, "pip", "compile", str(source), "--output-file", str(resolved), "--quiet"]
    command += ["--universal", "--python-version", RUNNING, "--generate-hashes"]
    command += ["--no-header", "--no-annotate", "--override", str(overrides)]
    # As pip does, trust what the machine trusts; by variables, for the option's name has changed.
    environment = {"UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1", **os.environ}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError(
            "uv could not resolve a lock",
            where=source,
            got=done.stderr.strip(),
            todo="put the input right; uv takes its package index from UV_* variables",
        )
    requirements = narrow(locks.parse(resolved.read_text(encoding="utf-8"), resolved))
    only_cpu = {canonical(name): known for name, known in settings.get("cpu_only", {}).items()}
    requirements = [
        _with_cpu_hashes(r, only_cpu[r.name], pip, options.cpu_index, scratch)
        if r.name in only_cpu
        else r
        for r in requirements
    ]
    lock.write_text(render(source.name, requirements), encoding="utf-8")
    print(f"{lock}: {len(requirements)} packages", file=sys.stderr)


def exclusions(excluded: Iterable[str], wanted: str) -> list[str]:
    """Overrides that leave packages out, but for those that an input asks for by name.

    Args:
        excluded: names.
        wanted: text of the input.
    """
    asked = {canonical(found) for found in re.findall(r"^[A-Za-z0-9._-]+", wanted, re.MULTILINE)}
    return [f'{name} ; python_version < "0"' for name in excluded if canonical(name) not in asked]


def _pins(lock: Path) -> list[str]:
    """The packages of a lock as requirements."""
    found = locks.parse(lock.read_text(encoding="utf-8"), lock)
    return [f"{r.name}=={r.version}" for r in found]


def _with_cpu_hashes(
    requirement: Requirement,
    known: Mapping[str, Mapping[str, str]],
    pip: pip_tool.Pip,
    index: str,
    scratch: Path,
) -> Requirement:
    """The requirement with the hashes of its CPU builds in place of the registry's CUDA builds."""
    hashes = {}
    for target in TARGETS:
        found = _candidate(requirement, target, pip, index, scratch)
        hashes[target.name] = found or known.get(requirement.version, {}).get(target.name, "")
        origin = "found" if found else "as recorded in locking.toml" if hashes[target.name] else "?"
        print(f"{requirement.name} for {target.name}: {origin}", file=sys.stderr)
    missing = [name for name, value in hashes.items() if not value]
    if missing:
        raise InstallError(
            f"no CPU build of {requirement.name} {requirement.version} was found",
            where=", ".join(missing),
            todo="pass --cpu-index, or record the sha256 in locking.toml under\n"
            f'[cpu_only.{requirement.name}."{requirement.version}"]',
        )
    return Requirement(
        requirement.name, requirement.version, requirement.marker, frozenset(hashes.values())
    )


def _candidate(
    requirement: Requirement, target: Target, pip: pip_tool.Pip, index: str, scratch: Path
) -> str | None:
    """The hash of the CPU build that pip finds for a platform, if any."""
    platform = [word for tag in target.tags for word in ("--platform", tag)]
    platform += ["--python-version", RUNNING, "--only-binary", ":all:"]
    said = pip.run(["index", "versions", *platform, requirement.name])[1]
    versions = torch_source.available_versions(said)
    decision = torch_source.decide(requirement, versions, target.sys_platform, index)
    if not decision.found:
        return None
    report = scratch / f"{target.name}.json"
    arguments = ["install", "--dry-run", "--ignore-installed", "--no-deps", *platform]
    arguments += ["--report", str(report), "--target", str(scratch / "nowhere")]
    arguments += [f"{requirement.name}=={requirement.version}", *decision.options]
    if pip.run(arguments)[0]:
        return None
    return candidate_hash(json.loads(report.read_text(encoding="utf-8")), target)
