"""Members of archives and folders, in their order."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

# Name to member, in the archive's order.
Members = Mapping[str, "Member"]


@dataclass(frozen=True)
class Member:
    """One member.

    Attributes:
      header: what the archive says of it besides name and contents: modification time, mode, …
      read: gives its contents.
    """

    header: Mapping[str, object]
    read: Callable[[], bytes]


def of_zip(path: Path) -> Members:
    """Members of a zip file: .zip, .apk, .aar, .jar."""
    archive = zipfile.ZipFile(path)
    return {
        info.filename: Member(
            {
                "modification time": info.date_time,
                "mode": oct(info.external_attr >> 16),
                "compression": info.compress_type,
                "extra field": info.extra.hex(),
            },
            lambda info=info: archive.read(info),
        )
        for info in archive.infolist()
    }


def of_tar(path: Path) -> Members:
    """Members of a tar file, compressed or not."""
    # Members are read later.
    archive = tarfile.open(path)  # noqa: SIM115

    def contents(info: tarfile.TarInfo) -> bytes:
        file = archive.extractfile(info) if info.isreg() else None
        return file.read() if file else b""

    return {
        info.name: Member(
            {
                "modification time": info.mtime,
                "mode": oct(info.mode),
                "owner": (info.uid, info.gid, info.uname, info.gname),
                "kind": info.type.decode(),
                "link": info.linkname,
            },
            lambda info=info: contents(info),
        )
        for info in archive.getmembers()
    }


def of_folder(path: Path) -> Members:
    """Files in a folder."""
    return {
        file.relative_to(path).as_posix(): Member(
            {"mode": "executable" if file.stat().st_mode & 0o100 else "plain"}, file.read_bytes
        )
        for file in sorted(p for p in path.rglob("*") if not p.is_dir())
    }
