"""The script of an et_release: a whole copy, or a store of files by their hashes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SCRIPT = Path("rules/private/release_copy.sh")


def release(folder: Path, files: Mapping[str, str]) -> Path:
    """Makes a release's runfiles; returns the script."""
    script = folder / "release.copy.sh"
    root = Path(f"{script}.runfiles/m/release")
    shutil.rmtree(root, ignore_errors=True)
    lines = []
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        lines.append(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n")
    (root / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    text = _SCRIPT.read_text(encoding="utf-8")
    text = text.replace("%{label}", "//m:release").replace("%{release}", "m/release")
    script.write_text(text, encoding="utf-8")
    return script


def run(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "BUILD_WORKING_DIRECTORY": str(script.parent)}
    command = ["sh", str(script), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_store_of_two_releases(tmp_path: Path) -> None:
    """A file of both is stored once, and the lists are those of the later one."""
    first = {"programs/a b.pte": "a", "data/x.ptd": "x", "manifest.json": "1"}
    done = run(release(tmp_path, first), "--by_hash", "store")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/store: 3 new files of 3\n")
    second = {"programs/a b.pte": "changed", "data/x.ptd": "x", "manifest.json": "2"}
    done = run(release(tmp_path, second), "--by_hash", "store")
    assert done.stdout == f"{tmp_path}/store: 2 new files of 3\n"
    store = tmp_path / "store"
    stored = {path.name: path.read_text(encoding="utf-8") for path in store.glob("sha256/*")}
    assert stored == {
        hashlib.sha256(text.encode()).hexdigest(): text
        for text in [*first.values(), *second.values()]
    }
    assert (store / "manifest.json").read_text(encoding="utf-8") == "2"
    assert {path.name for path in store.iterdir()} == {"SHA256SUMS", "manifest.json", "sha256"}
    assert sorted(path.name for path in tmp_path.iterdir() if "part" in path.name) == []


def test_a_damaged_file_is_not_stored(tmp_path: Path) -> None:
    script = release(tmp_path, {"a": "1", "manifest.json": "2"})
    Path(f"{script}.runfiles/m/release/a").write_text("other", encoding="utf-8")
    done = run(script, "--by_hash", "store")
    assert done.returncode == 1
    assert "error: the copy differs from what was built" in done.stderr
    assert not (tmp_path / "store").exists()


def test_a_copy_by_name(tmp_path: Path) -> None:
    script = release(tmp_path, {"programs/a.pte": "1", "manifest.json": "2"})
    assert run(script, "dist").stdout == f"{tmp_path}/dist: 2 files and SHA256SUMS\n"
    assert (tmp_path / "dist/programs/a.pte").read_text(encoding="utf-8") == "1"
    assert "is there already" in run(script, "dist").stderr
    for words in ((), ("--by_hash",), ("a", "b"), ("--help",)):
        assert run(script, *words).returncode == 2
