"""Programs and data for apps that have a runtime: the files and manifest of an app, without it."""

from __future__ import annotations

import json

from packed import HERE

APP = HERE / "host_app"
ASSETS = HERE / "files/assets"


def test_files() -> None:
    """The same as in the app, each once."""
    app = json.loads((APP / "manifest.json").read_text())
    kept = [n for n in app["files"] if n.startswith(("programs/", "data/", "assets/"))]
    files = [p.relative_to(ASSETS).as_posix() for p in ASSETS.rglob("*") if p.is_file()]
    assert sorted(files) == sorted([*kept, "manifest.json"])
    for name in kept:
        assert (ASSETS / name).read_bytes() == (APP / name).read_bytes()


def test_manifest() -> None:
    """The app's manifest, without the runtime's parts."""
    app = json.loads((APP / "manifest.json").read_text())
    manifest = json.loads((ASSETS / "manifest.json").read_text())
    assert manifest["programs"] == app["programs"]
    assert manifest["files"] == {
        name: facts for name, facts in app["files"].items() if (ASSETS / name).exists()
    }
    assert manifest["executorch"] == {"exporter": app["executorch"]["exporter"]}
    assert "platforms" not in manifest
