"""manifest.json: what a release consists of, what made it, and who shares which weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etrelease.contents import Contents
from etrelease.description import Release
from etrelease.python_packages import PythonPackage
from etrelease.status import Stamp

FORMAT = 1


def make(
    release: Release,
    contents: Contents,
    *,
    python: str,
    exporter: Sequence[PythonPackage],
    layers: Mapping[str, Sequence[PythonPackage]],
    stamp: Stamp | None,
) -> dict[str, Any]:
    """The manifest as one JSON object.

    Args:
        release: what analysis knows.
        contents: what is in it, the bill of materials included.
        python: version of the exporter's interpreter.
        exporter: its packages.
        layers: packages of backends by label.
        stamp: what a stamped build says of its source; None: it isn't stamped.
    """
    places, users = _Places(contents), contents.users()
    whole: dict[str, Any] = {
        "format": FORMAT,
        "label": release.label,
        "release": release.name,
        "exporter": {
            "executorch": release.exporter.executorch,
            "torch": release.exporter.torch,
            "python": python,
            "packages": {p.name: p.version for p in exporter},
        },
        "backend_packages": {
            label: {p.name: p.version for p in packages} for label, packages in layers.items()
        },
        "platforms": _platforms(release),
        "apps": [_app(release, contents, label) for label in sorted(release.apps)],
        "packages": [
            {
                "label": package.label,
                "kind": package.kind,
                "file": package.file,
                "apps": sorted(package.apps),
                **({"signing_key": package.signing_key} if package.signing_key else {}),
            }
            for package in sorted(release.packages, key=lambda one: one.label)
        ],
        "programs": [
            _program(release, contents, places, label) for label in sorted(contents.programs)
        ],
        "data": [
            {
                "label": label,
                **one,
                **places.of(one["sha256"]),
                "programs": sorted(users[label]),
            }
            for label, one in sorted(contents.data.items())
        ],
        "files": {
            place: {
                **one,
                **({"contents": contents.inside[place]} if place in contents.inside else {}),
            }
            for place, one in contents.files.items()
        },
    }
    if release.version:
        whole["version"] = release.version
    if stamp:
        whole["source"] = {"revisions": stamp.revisions, "status": dict(stamp.status)}
        if stamp.timestamp:
            whole["source"]["timestamp"] = stamp.timestamp
    return whole


class _Places:
    """Where in a release the bytes of a file are, and in which archives."""

    def __init__(self, contents: Contents) -> None:
        self._files: dict[str, list[str]] = {}
        self._archives: dict[str, set[str]] = {}
        for place, one in contents.files.items():
            self._files.setdefault(one["sha256"], []).append(place)
        for place, inside in contents.inside.items():
            for one in inside.values():
                self._archives.setdefault(one["sha256"], set()).add(place)

    def of(self, sha256: str) -> dict[str, list[str]]:
        """Both, by the file's hash."""
        return {
            "files": sorted(self._files.get(sha256, ())),
            "archives": sorted(self._archives.get(sha256, ())),
        }


def _platforms(release: Release) -> dict[str, Any]:
    """Platform to its apps, files and runtimes."""
    found: dict[str, dict[str, Any]] = {}
    for app in sorted(release.apps.values(), key=lambda one: one.label):
        here = found.setdefault(app.platform, {"apps": [], "files": [], "runtimes": {}})
        here["apps"].append(app.label)
        packages = [package.file for package in release.packages if app.label in package.apps]
        here["files"] = sorted({*here["files"], *packages, *([app.file] if app.file else [])})
        here["runtimes"][app.runtime] = app.runtime_version
    return found


def _app(release: Release, contents: Contents, label: str) -> dict[str, Any]:
    app, manifest = release.apps[label], contents.apps[label]
    return {
        "label": label,
        "name": app.name,
        "platform": app.platform,
        **({"file": app.file} if app.file else {}),
        "executorch": {"exporter": release.exporter.executorch, "runtime": app.runtime_version},
        "libraries": manifest["libraries"],
        "programs": sorted(one["label"] for one in manifest["programs"]),
    }


def _program(release: Release, contents: Contents, places: _Places, label: str) -> dict[str, Any]:
    program, made = contents.programs[label], release.programs[label]
    model = release.models[made.model]
    return {
        "label": label,
        "name": program.name,
        **program.digest,
        **places.of(program.digest["sha256"]),
        "model": {
            "label": model.label,
            **({"entry_point": model.entry_point} if model.entry_point else {}),
        },
        "recipe": made.recipe,
        "backend_packages": sorted(made.packages),
        "backends": list(program.backends),
        "methods": list(program.methods),
        "operators": list(program.operators),
        "data": list(program.data),
    }
