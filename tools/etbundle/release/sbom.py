"""The bill of materials of a release: CycloneDX 1.6 in JSON, the same bytes for the same contents.

A component is a file, a package or an app, referred to by a key that holds its label or hash, so
that what several apps contain is listed once and all of them depend on it. The serial number is
derived from the contents, where CycloneDX suggests a random one.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from etbundle.release import components
from etbundle.release.components import Component
from etbundle.release.contents import Contents, Digest, weights
from etbundle.release.description import App, Origin, Release
from etbundle.release.python_packages import Environment
from etbundle.release.status import Stamp

SPEC_VERSION = "1.6"

# What serial numbers are derived in: the namespace of URLs, as serial numbers are URNs.
_NAMESPACE = uuid.NAMESPACE_URL


class _Bill:
    """Components by reference, and the references that each of them depends on."""

    def __init__(self) -> None:
        self.components: dict[str, Component] = {}
        self.needs: dict[str, set[str]] = {}

    def add(self, component: Component, needs: Sequence[str] = ()) -> str:
        """Adds a component once; returns its reference."""
        ref = str(component["bom-ref"])
        self.components.setdefault(ref, component)
        self.need(ref, needs)
        return ref

    def need(self, ref: str, needs: Sequence[str]) -> None:
        """Adds to what a component needs."""
        self.needs.setdefault(ref, set()).update(needs)

    def nest(self, owner: str, component: Component) -> str:
        """Adds a component that is part of another one, once; returns its reference."""
        ref = str(component["bom-ref"])
        parts = self.components[owner].setdefault("components", [])
        if ref not in self.needs:
            parts.append(component)
            parts.sort(key=lambda part: str(part["bom-ref"]))
        self.need(ref, ())
        return ref


def make(
    release: Release, contents: Contents, environment: Environment, stamp: Stamp | None
) -> dict[str, Any]:
    """The bill as one JSON object.

    Args:
        release: its description.
        contents: of the release.
        environment: what its programs were lowered with.
        stamp: what a stamped build records of its source; None: it is not stamped.
    """
    bill = _Bill()
    subject = _release(release, stamp)
    for label in contents.programs:
        _add_program(bill, release, contents, label)
    top = []
    for app in release.apps.values():
        parts = _add_parts(bill, contents.apps[app.label], app)
        # Other apps are part of a package only.
        if app.file:
            top.append(_add_app(bill, contents, app, parts))
    top += [
        _add_package(bill, release, contents, number) for number in range(len(release.packages))
    ]
    if contents.loose:
        top += [f"program:{program['label']}" for program in contents.loose["programs"]]
        top += [_add_file(bill, contents.loose, path) for path in contents.loose["assets"]]
    bill.need(str(subject["bom-ref"]), top)
    document: dict[str, Any] = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            **({"timestamp": stamp.timestamp} if stamp and stamp.timestamp else {}),
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": [{"type": "application", "name": "rules_executorch"}]},
            "component": subject,
        },
        "components": [bill.components[ref] for ref in sorted(bill.components)],
        "dependencies": [
            {"ref": ref, **({"dependsOn": sorted(needs)} if needs else {})}
            for ref, needs in sorted(bill.needs.items())
        ],
        "formulation": _formulation(environment),
    }
    return {**document, "serialNumber": _serial_number(document)}


def _serial_number(document: Mapping[str, Any]) -> str:
    """A UUID that is derived from the whole bill."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False)
    return uuid.uuid5(_NAMESPACE, hashlib.sha256(text.encode()).hexdigest()).urn


def _release(release: Release, stamp: Stamp | None) -> Component:
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
    """What an app has apart from its binary: libraries, assets, programs."""
    parts = _add_libraries(bill, manifest, app)
    parts += [_add_file(bill, manifest, path) for path in manifest["assets"]]
    return parts + [f"program:{program['label']}" for program in manifest["programs"]]


def _add_linked(bill: _Bill, app: App) -> list[str]:
    """The packages in an app's binary."""
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
    parts = []
    for library in app.libraries:
        paths = [path for path in library.paths if path in manifest["files"]]
        if not paths:
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
        for path in paths:
            digest = manifest["files"][path]
            part = components.file(
                f"library:{app.platform}/{path}@{digest['sha256']}",
                path,
                digest,
                properties=components.properties(
                    {"executorch": app.runtime_version, "platform": app.platform}
                ),
            )
            parts.append(bill.nest(owner, part))
    return parts


def _add_file(bill: _Bill, manifest: Mapping[str, Any], path: str) -> str:
    """A file that is not a program, such as a tokenizer."""
    digest = manifest["files"][path]
    return bill.add(components.file(f"file:{path}@{digest['sha256']}", path, digest))


def _add_program(bill: _Bill, release: Release, contents: Contents, label: str) -> str:
    """A program, the data files that it loads, and the files that its weights come from."""
    program, source = contents.programs[label], release.programs[label]
    data = [
        bill.add(components.file("data:" + file, _name(file) + ".ptd", contents.data[file]))
        for file in program.data
    ]
    return bill.add(
        components.component(
            "machine-learning-model",
            "program:" + label,
            program.name,
            hashes=components.hashes(program.digest),
            pedigree=_pedigree(weights(release, source.model)),
            properties=components.properties(
                {
                    "backends": ",".join(program.backends),
                    "label": label,
                    "methods": ",".join(program.methods),
                    "model": source.model,
                    "recipe": json.dumps(source.recipe, sort_keys=True),
                }
            ),
        ),
        data,
    )


def _pedigree(files: Sequence[tuple[str, Digest, Origin]]) -> dict[str, Any]:
    ancestors = [
        {
            "type": "file",
            "name": label,
            "hashes": components.hashes(digest),
            **({"licenses": components.licenses(origin.license, [])} if origin.license else {}),
            **({"purl": origin.purl} if origin.purl else {}),
        }
        for label, digest, origin in files
    ]
    return {"ancestors": ancestors} if ancestors else {}


def _name(label: str) -> str:
    return label.rsplit(":", 1)[-1]


def _add_package(bill: _Bill, release: Release, contents: Contents, number: int) -> str:
    """An APK, AAR or Swift package, and the parts of its apps that are in it."""
    package = release.packages[number]
    inside = {digest["sha256"] for digest in contents.inside[package.file].values()}
    needs = {ref for ref, part in _files(bill) if part["hashes"][0]["content"] in inside}
    if package.kind == "apk":
        # Only APKs have the runner.
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
    every += [part for owner in bill.components.values() for part in owner.get("components", [])]
    return [(str(part["bom-ref"]), part) for part in every if "hashes" in part]


def _formulation(environment: Environment) -> list[dict[str, Any]]:
    """What the programs were lowered with."""
    python = environment.python
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
            "components": [interpreter, *map(components.python_package, environment.exporter)],
        }
    ]
    for label, packages in sorted(environment.layers.items()):
        parts = [components.python_package(package) for package in packages]
        for part in parts:
            # The same package may be in several layers, and references must differ.
            part["bom-ref"] = f"formulation:{label}/{part['bom-ref']}"
        formulas.append({"bom-ref": "formulation:" + label, "components": parts})
    return formulas
