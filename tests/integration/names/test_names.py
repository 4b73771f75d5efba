"""Names with '=', spaces, quotes, commas and leading dashes, from lowering to app."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

APP = Path("tests/integration/names/app=1 a")
PROGRAMS = ["-net", "net=1 a'b,c"]
NAMES = ["epoch=9-step=1000.ckpt", "a b'c\"d,e+#%41.txt", "-dash=.txt", "[x]{y}(z)$(w)&;~!@^_.txt"]


def test_an_app_has_its_files_by_their_names() -> None:
    manifest = json.loads((APP / "manifest.json").read_text())
    assets = [path for path in manifest["files"] if path.startswith("assets/")]
    assert sorted(assets) == sorted(f"assets/{name}" for name in NAMES)
    for number, name in enumerate(NAMES):
        assert (APP / "assets" / name).read_text() == f"{number + 1}"
    assert list(manifest["programs"]) == PROGRAMS


def test_programs_run(tmp_path: Path) -> None:
    for number, name in enumerate(PROGRAMS):
        command = [APP.absolute() / "runner", "--program", name, "--output", tmp_path / str(number)]
        done = subprocess.run([*command, "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["programs"][0]["name"] == name
    first, second = ((tmp_path / str(n) / "output_0.npy").read_bytes() for n in range(2))
    assert first == second
