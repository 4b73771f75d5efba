"""Runs the runner, and writes manifests as the linker does."""

from __future__ import annotations

import hashlib
import json
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etlink import ptd
from etlink.container import Piece
from etlink.data_file import describe_key

RUNNER = Path("tools/runner/runner").absolute()
PROGRAMS = Path("tests/integration/runner").absolute()
INTERFACE = hashlib.sha256(b"interface").hexdigest()


@dataclass(frozen=True)
class Result:
    """The end of a run."""

    code: int
    output: str
    error: str

    @property
    def report(self) -> Any:
        """Parses the output of --json."""
        return json.loads(self.output)


def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    """Runs the runner, and checks that it ended as it promises: well, or with one sentence.

    With input, of --chat, it may say more on standard error, and prints what it has when it fails.
    """
    return run_binary(RUNNER, *arguments, stdin=stdin)


def run_binary(
    binary: Path,
    *arguments: str | bytes | Path,
    folder: Path | None = None,
    stdin: str | bytes | None = None,
) -> Result:
    """The same with the runner of an app, in a folder."""
    done = subprocess.run(
        [binary, *arguments],
        capture_output=True,
        cwd=folder,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        timeout=60,
    )
    output, error = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    if done.returncode == 0:
        assert error == "" or stdin is not None, arguments
    else:
        assert done.returncode == 1, (arguments, done.returncode, error)
        *notes, last = error.splitlines(keepends=True)
        assert last.startswith("error: ") and last.endswith(".\n"), error
        assert stdin is not None or (output, notes) == ("", []), (output, error)
    return Result(done.returncode, output, error)


def sha256(data: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def contents(path: Path) -> dict[str, bytes]:
    """The keys of a data file and their bytes."""
    data = path.read_bytes()
    return {
        key: data[piece.offset : piece.offset + piece.size]
        for key, (piece, _) in ptd.read(path).items()
    }


def listed(value: bytes) -> dict[str, Any]:
    """Describes bytes as a manifest does."""
    return {"sha256": sha256(value), "size": len(value), "crc32": zlib.crc32(value)}


def listed_data(data: Path, by_name: bool = True, leave_out: Sequence[str] = ()) -> dict[str, Any]:
    """Describes a data file as a manifest does."""
    keys = [
        {"key": key, **listed(value), "by_name": by_name}
        for key, value in sorted(contents(data).items())
        if key not in leave_out
    ]
    label = f"//example:{data.stem}"
    return {"label": label, "size": data.stat().st_size, "keys": keys}


def write_manifest(
    path: Path,
    program: Path,
    data: Sequence[Path] = (),
    adapter: bool = False,
    by_name: bool = True,
    unsafe: str = "",
) -> Path:
    """Writes a manifest of files as they are now.

    Args:
      path: where to.
      program: a .pte file.
      data: .ptd files.
      adapter: whether another adapter's file may replace the first of those.
      by_name: whether the data's keys say nothing of the bytes.
      unsafe: why the weight cache is; empty: it is safe.
    """
    names = [file.name for file in data]
    if len(set(names)) < len(names):
        names = [f"{file.parent.name}/{file.name}" for file in data]
    files = {program.name: listed(program.read_bytes())}
    del files[program.name]["crc32"]
    files |= {name: listed_data(file, by_name) for name, file in zip(names, data, strict=True)}
    described = {
        "label": f"//example:{program.stem}",
        "file": program.name,
        "data": names,
        "interface": INTERFACE,
        "weight_cache": {"reasons": [unsafe] if unsafe else []},
    }
    if adapter:
        described["adapter"] = names[0]
    manifest = {
        "format": 1,
        "label": described["label"],
        "files": files,
        "programs": {program.stem: described},
    }
    path.write_text(json.dumps(manifest, indent=1))
    return path


def write_adapter_manifest(
    data: Path, interface: str = INTERFACE, label: str = "", leave_out: Sequence[str] = ()
) -> Path:
    """Writes the manifest beside an adapter's file, of the program that it was built with."""
    file = listed_data(data, leave_out=leave_out)
    file["label"] = label or file["label"]
    program = {"label": file["label"], "file": "x.pte", "data": [data.name]}
    program |= {"adapter": data.name, "interface": interface}
    manifest = {
        "format": 1,
        "label": file["label"],
        "files": {"x.pte": {"size": 1}, data.name: file},
        "programs": {"x": program},
    }
    path = data.with_suffix(".manifest.json")
    path.write_text(json.dumps(manifest))
    return path


def program_in(manifest: Any) -> dict[str, Any]:
    """The only program of a manifest."""
    (program,) = manifest["programs"].values()
    return program


def rewrite_data(
    source: Path, target: Path, change: Mapping[str, bytes], drop: Sequence[str] = ()
) -> None:
    """Writes a data file with the keys of another file, some with other bytes or omitted."""
    data = []
    for key, (_, layout) in ptd.read(source).items():
        value = change.get(key, contents(source)[key])
        if key not in drop:
            piece = Piece.of(value)
            data.append((describe_key(key, piece, layout), piece))
    with open(target, "wb") as out:
        ptd.write(out, data)
