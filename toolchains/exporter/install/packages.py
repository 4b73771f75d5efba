"""Unpacks the wheels of locks, without what prune.toml leaves out."""

from __future__ import annotations

import configparser
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from pathlib import Path, PurePosixPath
from shutil import copyfileobj

from fetch import tags

from . import files, prune
from .errors import InstallError
from .locks import Requirement, canonical


@dataclass(frozen=True)
class Origin:
    """The wheels that are there, by sha256; a scratch folder where the environment is made."""

    scratch: Path
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass
class Installed:
    """Installed packages: versions by package, console programs, and other programs' files."""

    versions: dict[str, str] = field(default_factory=dict)
    entry_points: dict[str, str] = field(default_factory=dict)
    programs: dict[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class _Member:
    """A file of a wheel and the path it gets: in the packages' folder, or a program's name."""

    wheel: zipfile.ZipFile
    info: zipfile.ZipInfo
    path: str
    is_program: bool


def install(origin: Origin, requirements: Mapping[str, Requirement], output: Path) -> Installed:
    """Installs packages into the new folder `output`, programs into the scratch folder."""
    wheels, whole = [], 0
    for requirement in requirements.values():
        path = files.of(requirement, origin.files)
        wheels.append(path)
        whole += path.stat().st_size
        size = f"({path.stat().st_size / 1e6:.1f} MB)"
        version = (tags.wheel_parts(path.name) or ("", requirement.version))[1]
        text = f"[{len(wheels)}/{len(requirements)}] {requirement.name} {version} {size}"
        print(text, file=sys.stderr, flush=True)
    print(f"unpacking {whole / 1e6:.1f} MB", file=sys.stderr, flush=True)
    return unpack(wheels, output, origin.scratch / "programs", prune.load("site-packages"))


def unpack(
    wheels: Sequence[Path], output: Path, programs: Path, pruning: prune.Pruning
) -> Installed:
    """Unpacks what stays of wheels to `output` and `programs`, with modes 755 and 644."""
    installed = Installed()
    members: dict[Path, tuple[str, _Member]] = {}
    opened = []
    try:
        for path in sorted(wheels):
            try:
                wheel = zipfile.ZipFile(path)
            except zipfile.BadZipFile as error:
                text = f"{path.name}: malformed wheel: {error}. Do not use this package."
                raise InstallError(text) from error
            opened.append(wheel)
            package = _describe(wheel, path.name, installed)
            for member in _members(wheel, path.name):
                target = (programs if member.is_program else output) / member.path
                if member.is_program:
                    installed.programs[member.path] = target
                elif not pruning.keeps(member.path, package):
                    continue
                owner, other = members.setdefault(target, (package, member))
                if other is not member and _data(other) != _data(member):
                    raise InstallError(
                        f"site-packages/{member.path}: two packages have different files at this "
                        f"path: got {owner} and {package}, expected one owner. Leave one of the "
                        "packages out of the locks, or the path in prune.toml."
                    )
        for target, (_, member) in sorted(members.items()):
            _write(member, target)
    finally:
        for wheel in opened:
            wheel.close()
    return installed


def _data(member: _Member) -> bytes:
    return member.wheel.read(member.info)


def _write(member: _Member, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with member.wheel.open(member.info) as source, target.open("wb") as file:
        copyfileobj(source, file, 1 << 20)
    executable = member.is_program or member.info.external_attr >> 16 & 0o111
    target.chmod(0o755 if executable else 0o644)


def _describe(wheel: zipfile.ZipFile, name: str, installed: Installed) -> str:
    """Records a wheel's version and console programs; returns the package."""
    found = [n for n in wheel.namelist() if n.count("/") == 1 and n.endswith(".dist-info/METADATA")]
    if len(found) != 1:
        raise InstallError(f"{name}: malformed wheel: got {len(found)} METADATA, expected one.")
    fields = BytesHeaderParser().parsebytes(wheel.read(found[0]))
    package = canonical(fields["Name"] or "")
    installed.versions[package] = str(fields["Version"])
    entries = found[0].replace("/METADATA", "/entry_points.txt")
    if entries in wheel.namelist():
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(wheel.read(entries).decode())
        if parser.has_section("console_scripts"):
            installed.entry_points.update(parser.items("console_scripts"))
    return package


def _members(wheel: zipfile.ZipFile, name: str) -> Iterator[_Member]:
    """A wheel's files, but for those outside of the packages' folder (headers, manual pages)."""
    for info in wheel.infolist():
        path = PurePosixPath(info.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in info.filename:
            raise InstallError(
                f"{name}: malformed wheel: got the member {info.filename!r}, expected a path in "
                "the wheel. Do not use this package."
            )
        if info.is_dir():
            continue
        top, *rest = path.parts
        if not top.endswith(".data") or len(rest) < 2:
            yield _Member(wheel, info, str(path), False)
        elif rest[0] in ("purelib", "platlib"):
            yield _Member(wheel, info, "/".join(rest[1:]), False)
        elif rest[0] == "scripts" and len(rest) == 2:
            yield _Member(wheel, info, rest[1], True)
