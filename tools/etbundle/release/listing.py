"""The manifest.json of a release: its files, what built them, and who shares which weights."""

from __future__ import annotations

from typing import Any

from etbundle.release.contents import Contents
from etbundle.release.description import Release
from etbundle.release.python_packages import Environment
from etbundle.release.status import Stamp

FORMAT = 1


def make(
    release: Release, contents: Contents, environment: Environment, stamp: Stamp | None
) -> dict[str, Any]:
    """The manifest as one JSON object.

    Args:
        release: its description.
        contents: of the release, with the bill of materials.
        environment: what its programs were lowered with.
        stamp: what a stamped build records of its source; None: it is not stamped.
    """
    locations, users = _Locations(contents), contents.users()
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "label": release.label,
        "release": release.name,
        "exporter": {
            "executorch": release.exporter.executorch,
            "torch": release.exporter.torch,
            "python": environment.python,
            "packages": {p.name: p.version for p in environment.exporter},
        },
        "backend_packages": {
            label: {p.name: p.version for p in packages}
            for label, packages in environment.layers.items()
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
            for package in sorted(release.packages, key=lambda package: package.label)
        ],
        "programs": [
            _program(release, contents, locations, label) for label in sorted(contents.programs)
        ],
        "data": [
            {
                "label": label,
                **digest,
                **locations.of(digest["sha256"]),
                "programs": sorted(users[label]),
            }
            for label, digest in sorted(contents.data.items())
        ],
        "files": {
            path: {
                **digest,
                **({"contents": contents.inside[path]} if path in contents.inside else {}),
            }
            for path, digest in contents.files.items()
        },
    }
    if release.version:
        manifest["version"] = release.version
    if stamp:
        manifest["source"] = {"revisions": stamp.revisions, "status": dict(stamp.status)}
        if stamp.timestamp:
            manifest["source"]["timestamp"] = stamp.timestamp
    return manifest


class _Locations:
    """The files and archives of a release that have the bytes of a file."""

    def __init__(self, contents: Contents) -> None:
        self._files: dict[str, list[str]] = {}
        self._archives: dict[str, set[str]] = {}
        for path, digest in contents.files.items():
            self._files.setdefault(digest["sha256"], []).append(path)
        for path, inside in contents.inside.items():
            for digest in inside.values():
                self._archives.setdefault(digest["sha256"], set()).add(path)

    def of(self, sha256: str) -> dict[str, list[str]]:
        """Both, by the file's hash."""
        return {
            "files": sorted(self._files.get(sha256, ())),
            "archives": sorted(self._archives.get(sha256, ())),
        }


def _platforms(release: Release) -> dict[str, Any]:
    """Platform to its apps, files and runtimes."""
    platforms: dict[str, dict[str, Any]] = {}
    for app in sorted(release.apps.values(), key=lambda app: app.label):
        entry = platforms.setdefault(app.platform, {"apps": [], "files": [], "runtimes": {}})
        entry["apps"].append(app.label)
        packages = [package.file for package in release.packages if app.label in package.apps]
        entry["files"] = sorted({*entry["files"], *packages, *([app.file] if app.file else [])})
        entry["runtimes"][app.runtime] = app.runtime_version
    return platforms


def _app(release: Release, contents: Contents, label: str) -> dict[str, Any]:
    app, manifest = release.apps[label], contents.apps[label]
    return {
        "label": label,
        "name": app.name,
        "platform": app.platform,
        **({"file": app.file} if app.file else {}),
        "executorch": {"exporter": release.exporter.executorch, "runtime": app.runtime_version},
        "libraries": manifest["libraries"],
        "programs": sorted(program["label"] for program in manifest["programs"]),
    }


def _program(
    release: Release, contents: Contents, locations: _Locations, label: str
) -> dict[str, Any]:
    program, source = contents.programs[label], release.programs[label]
    model = release.models[source.model]
    return {
        "label": label,
        "name": program.name,
        **program.digest,
        **locations.of(program.digest["sha256"]),
        "model": {
            "label": model.label,
            **({"entry_point": model.entry_point} if model.entry_point else {}),
        },
        "recipe": source.recipe,
        "backend_packages": sorted(source.packages),
        "backends": list(program.backends),
        "methods": list(program.methods),
        "operators": list(program.operators),
        "data": list(program.data),
    }
