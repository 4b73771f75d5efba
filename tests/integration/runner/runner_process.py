"""Runs the runner, and writes manifests as the linker does."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etlink import ptd
from etlink.container import Piece
from etlink.data_index import describe_key

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


def write_manifest(
    path: Path,
    program: Path,
    data: Sequence[Path] = (),
    kinds: Mapping[str, str] | None = None,
    by_name: bool = True,
    unsafe: str = "",
) -> Path:
    """Writes a manifest of files as they are now.

    Args:
      path: where to.
      program: a .pte file.
      data: .ptd files.
      kinds: base name to kind, where it is not "own".
      by_name: whether the data's keys say nothing of the bytes.
      unsafe: why the weight cache is; empty: it is safe.
    """
    entries = []
    for file in data:
        keys = {
            key: {"sha256": sha256(value), "size": len(value), "by_name": by_name}
            for key, value in contents(file).items()
        }
        entries.append(
            {
                "file": file.name,
                "label": f"//example:{file.stem}",
                "kind": (kinds or {}).get(file.name, "own"),
                "sha256": sha256(file.read_bytes()),
                "size": file.stat().st_size,
                "keys": keys,
            }
        )
    manifest = {
        "format": 1,
        "label": f"//example:{program.stem}",
        "interface": INTERFACE,
        "program": {
            "file": program.name,
            "sha256": sha256(program.read_bytes()),
            "size": program.stat().st_size,
        },
        "data": entries,
        "weight_cache": {"safe": not unsafe, "reasons": [unsafe] if unsafe else []},
    }
    path.write_text(json.dumps(manifest, indent=1))
    return path


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
