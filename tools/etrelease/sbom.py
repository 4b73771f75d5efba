"""The bill of materials of a release: CycloneDX 1.6 in JSON, same contents, same bytes."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from etrelease import components
from etrelease.components import Component
from etrelease.contents import Contents, Digest, weights
from etrelease.description import App, Release
from etrelease.python_packages import PythonPackage
from etrelease.status import Stamp

SPEC_VERSION = "1.6"

# What serial numbers are derived in: the namespace of URLs, as serial numbers are URNs.
_NAMESPACE = uuid.NAMESPACE_URL


class _Bill:
    """Components by reference, and which needs which."""

    def __init__(self) -> None:
        self.components: dict[str, Component] = {}
        self.needs: dict[str, set[str]] = {}

    def add(self, made: Component, needs: Sequence[str] = ()) -> str:
        """Adds a component once; returns its reference."""
        ref = str(made["bom-ref"])
        self.components.setdefault(ref, made)
        self.need(ref, needs)
        return ref

    def need(self, ref: str, needs: Sequence[str]) -> None:
        """Adds to what a component needs."""
        self.needs.setdefault(ref, set()).update(needs)

    def nest(self, owner: str, made: Component) -> str:
        """Adds a component that is part of another one, once; returns its reference."""
        ref = str(made["bom-ref"])
        parts = self.components[owner].setdefault("components", [])
        if ref not in self.needs:
            parts.append(made)
            parts.sort(key=lambda part: str(part["bom-ref"]))
        self.need(ref, ())
        return ref


def make(
    release: Release,
    contents: Contents,
    *,
    python: str,
    exporter: Sequence[PythonPackage],
    layers: Mapping[str, Sequence[PythonPackage]],
    stamp: Stamp | None,
) -> dict[str, Any]:
    """The bill as one JSON object.

    Args:
        release: what analysis knows.
        contents: what is in it.
        python: version of the exporter's interpreter.
        exporter: its packages.
        layers: packages of backends by label.
        stamp: what a stamped build says of its source; None: it isn't stamped.
    """
    bill = _Bill()
    whole = _whole(release, stamp)
    for label in contents.programs:
        _add_program(bill, release, contents, label)
    top = []
    for app in release.apps.values():
        parts = _add_parts(bill, contents.apps[app.label], app)
        # Others are there as part of a package only.
        if app.file:
            top.append(_add_app(bill, contents, app, parts))
    top += [
        _add_package(bill, release, contents, number) for number in range(len(release.packages))
    ]
    if contents.loose:
        top += [f"program:{one['label']}" for one in contents.loose["programs"]]
        top += [_add_file(bill, contents.loose, path) for path in contents.loose["assets"]]
    bill.need(str(whole["bom-ref"]), top)
    made: dict[str, Any] = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            **({"timestamp": stamp.timestamp} if stamp and stamp.timestamp else {}),
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": [{"type": "application", "name": "rules_executorch"}]},
            "component": whole,
        },
        "components": [bill.components[ref] for ref in sorted(bill.components)],
        "dependencies": [
            {"ref": ref, **({"dependsOn": sorted(needs)} if needs else {})}
            for ref, needs in sorted(bill.needs.items())
        ],
        "formulation": _formulation(python, exporter, layers),
    }
    return {**made, "serialNumber": _serial_number(made)}


def _serial_number(made: Mapping[str, Any]) -> str:
    """A UUID that follows from all that a bill says."""
    text = json.dumps(made, sort_keys=True, ensure_ascii=False)
    return uuid.uuid5(_NAMESPACE, hashlib.sha256(text.encode()).hexdigest()).urn


def _whole(release: Release, stamp: Stamp | None) -> Component:
    """The release itself."""
    commits = [{"uid": revision} for revision in stamp.revisions] if stamp else []
    return components.component(
        "application",
        "release:" + release.label,
        release.name,
        release.version,
        pedigree={"commits": commits} if commits else {},
        properties=components.properties({"label": release.label}),
    )


def _add_parts(bill: _Bill, manifest: Mapping[str, Any], app: App) -> list[str]:
    """What an app has beside its binary: libraries, assets, programs."""
    parts = _add_libraries(bill, manifest, app)
    parts += [_add_file(bill, manifest, path) for path in manifest["assets"]]
    return parts + [f"program:{one['label']}" for one in manifest["programs"]]


def _add_linked(bill: _Bill, app: App) -> list[str]:
    """What an app's binary holds."""
    return [
        bill.add(components.package(purl, license)) for purl, license in sorted(app.linked.items())
    ]


def _add_app(bill: _Bill, contents: Contents, app: App, parts: Sequence[str]) -> str:
    """An app with its binary."""
    binary = contents.apps[app.label]["binary"]
    runner = bill.add(
        components.file(
            f"app:{app.label}/{binary}", binary, contents.apps[app.label]["files"][binary]
        ),
        _add_linked(bill, app),
    )
    return bill.add(
        components.component(
            "application",
            "app:" + app.label,
            app.name,
            hashes=components.hashes(contents.files[app.file]),
            properties=components.properties(
                {
                    "executorch": app.runtime_version,
                    "file": app.file,
                    "label": app.label,
                    "platform": app.platform,
                    "runtime": app.runtime,
                }
            ),
        ),
        [runner, *parts],
    )


def _add_libraries(bill: _Bill, manifest: Mapping[str, Any], app: App) -> list[str]:
    """The libraries of an app as parts of the packages that they come from."""
    found = []
    for library in app.libraries:
        there = [path for path in library.paths if path in manifest["files"]]
        if not there:
            continue
        if library.purl:
            owner = bill.add(components.package(library.purl, library.license))
        else:
            owner = bill.add(
                components.component(
                    "library",
                    "runtime:" + app.runtime,
                    app.runtime,
                    app.runtime_version,
                    licenses=components.licenses(library.license, []),
                )
            )
        for path in there:
            one = manifest["files"][path]
            part = components.file(
                f"library:{app.platform}/{path}@{one['sha256']}",
                path,
                one,
                properties=components.properties(
                    {"executorch": app.runtime_version, "platform": app.platform}
                ),
            )
            found.append(bill.nest(owner, part))
    return found


def _add_file(bill: _Bill, manifest: Mapping[str, Any], path: str) -> str:
    """A file beside programs, such as a tokenizer."""
    one = manifest["files"][path]
    return bill.add(components.file(f"file:{path}@{one['sha256']}", path, one))


def _add_program(bill: _Bill, release: Release, contents: Contents, label: str) -> str:
    """A program, the files of weights that it loads, and those that it was made of."""
    program, made = contents.programs[label], release.programs[label]
    data = [
        bill.add(components.file("data:" + one, _name(one) + ".ptd", contents.data[one]))
        for one in program.data
    ]
    return bill.add(
        components.component(
            "machine-learning-model",
            "program:" + label,
            program.name,
            hashes=components.hashes(program.digest),
            pedigree=_pedigree(weights(release, made.model)),
            properties=components.properties(
                {
                    "backends": ",".join(program.backends),
                    "label": label,
                    "methods": ",".join(program.methods),
                    "model": made.model,
                    "recipe": json.dumps(made.recipe, sort_keys=True),
                }
            ),
        ),
        data,
    )


def _pedigree(files: Sequence[tuple[str, Digest]]) -> dict[str, Any]:
    ancestors = [
        {"type": "file", "name": label, "hashes": components.hashes(one)} for label, one in files
    ]
    return {"ancestors": ancestors} if ancestors else {}


def _name(label: str) -> str:
    return label.rsplit(":", 1)[-1]


def _add_package(bill: _Bill, release: Release, contents: Contents, number: int) -> str:
    """An APK or its like, and what of its apps is in it."""
    package = release.packages[number]
    inside = {one["sha256"] for one in contents.inside[package.file].values()}
    needs = {ref for ref, part in _files(bill) if part["hashes"][0]["content"] in inside}
    if package.kind == "apk":
        # Of these packages only APKs have the runner.
        for label in package.apps:
            needs.update(_add_linked(bill, release.apps[label]))
    return bill.add(
        components.component(
            "application",
            "package:" + package.label,
            _name(package.label),
            hashes=components.hashes(contents.files[package.file]),
            properties=components.properties(
                {
                    "file": package.file,
                    "kind": package.kind,
                    "label": package.label,
                    "signing_key": package.signing_key,
                }
            ),
        ),
        sorted(needs),
    )


def _files(bill: _Bill) -> list[tuple[str, Component]]:
    """All components that are files, with their references."""
    every = list(bill.components.values())
    every += [part for one in bill.components.values() for part in one.get("components", [])]
    return [(str(one["bom-ref"]), one) for one in every if "hashes" in one]


def _formulation(
    python: str,
    exporter: Sequence[PythonPackage],
    layers: Mapping[str, Sequence[PythonPackage]],
) -> list[dict[str, Any]]:
    """What the programs were made with."""
    interpreter = components.component(
        "platform",
        f"pkg:generic/cpython@{python}",
        "cpython",
        python,
        licenses=components.licenses("PSF-2.0", []),
        purl=f"pkg:generic/cpython@{python}",
    )
    formulas = [
        {
            "bom-ref": "formulation:exporter",
            "components": [interpreter, *(components.python_package(one) for one in exporter)],
        }
    ]
    for label, packages in sorted(layers.items()):
        parts = [components.python_package(one) for one in packages]
        for part in parts:
            # The same package may be in several layers, and references must differ.
            part["bom-ref"] = f"formulation:{label}/{part['bom-ref']}"
        formulas.append({"bom-ref": "formulation:" + label, "components": parts})
    return formulas
