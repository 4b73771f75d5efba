"""The bill of materials of a release: CycloneDX 1.6 in JSON, the same bytes for the same contents.

A component is a file, a package or an app, referred to by a key that holds its label or hash, so
that what several apps contain is listed once and all of them depend on it. The serial number is
derived from the contents, where CycloneDX suggests a random one.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Commit, Component, ComponentType, Pedigree
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.output.json import JsonV1Dot6
from etlink.manifest import File, Manifest, Program
from packageurl import PackageURL

from etbundle.release import components
from etbundle.release.inputs import App, Origin, Release
from etbundle.release.python_packages import Environment
from etbundle.release.status import Stamp
from etbundle.release.whole import Whole, weights

# The C interface's library in packages for Android, and the framework in those for Apple: each is
# linked with what the runner is.
_INTERFACE = ("ExecutorchApp", "libexecutorch_app.so")


class _Bill:
    """Components by reference, and the references that each of them depends on."""

    def __init__(self) -> None:
        self.components: dict[str, Component] = {}
        self.parts: dict[str, Component] = {}
        self.needs: dict[str, set[str]] = {}

    def add(self, component: Component, needs: Sequence[str] = ()) -> str:
        """Adds a component once; returns its reference."""
        ref = str(component.bom_ref)
        self.components.setdefault(ref, component)
        self.needs.setdefault(ref, set()).update(needs)
        return ref

    def nest(self, owner: str, component: Component) -> str:
        """Adds a component that is part of another one, once; returns its reference."""
        ref = str(component.bom_ref)
        if self.parts.setdefault(ref, component) is component:
            self.components[owner].components.add(component)
        return ref

    def files(self) -> Iterator[tuple[str, str]]:
        """References and sha256 of all components that are files."""
        for ref, component in [*self.components.items(), *self.parts.items()]:
            for given in component.hashes:
                yield ref, given.content


def make(release: Release, contents: Whole, environment: Environment, stamp: Stamp | None) -> str:
    """The bill as text.

    Args:
        release: what it is made from.
        contents: of the release.
        environment: what its programs were lowered with.
        stamp: what a stamped build records of its source; None: it is not stamped.
    """
    bill = _Bill()
    for name, program in contents.manifest.programs.items():
        _add_program(bill, release, contents.manifest, name, program)
    top = []
    for app in release.apps.values():
        parts = _add_parts(bill, contents.apps[app.label], app)
        # Other apps are part of a package only.
        if app.file:
            top.append(_add_app(bill, contents, app, parts))
    top += [
        _add_package(bill, release, contents, number) for number in range(len(release.packages))
    ]
    top += _add_loose(bill, contents.loose)
    bom = Bom(components=bill.components.values())
    component_by_ref = bill.components | bill.parts
    for ref, component in component_by_ref.items():
        needs = bill.needs.get(ref, set())
        bom.register_dependency(component, [component_by_ref[need] for need in needs])
    bom.metadata.component = _release(release, stamp)
    bom.register_dependency(bom.metadata.component, [component_by_ref[ref] for ref in top])
    bom.metadata.lifecycles.add(PredefinedLifecycle(LifecyclePhase.BUILD))
    bom.metadata.tools.components.update(_tools(environment))
    # The library's default is now.
    timestamp = stamp.timestamp if stamp else ""
    bom.metadata.timestamp = datetime.fromisoformat(timestamp) if timestamp else None
    return _text(bom)


def _text(bom: Bom) -> str:
    """The bill, whose serial number is derived from all else."""
    bom.serial_number = uuid.UUID(int=0)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    # Serial numbers are URNs.
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(text.encode()).hexdigest())
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _release(release: Release, stamp: Stamp | None) -> Component:
    """The release itself."""
    commits = [Commit(uid=revision) for revision in stamp.revisions] if stamp else []
    return Component(
        type=ComponentType.APPLICATION,
        bom_ref="release:" + release.label,
        name=_name(release.label),
        version=release.version or None,
        pedigree=Pedigree(commits=commits) if commits else None,
        properties=components.properties({"label": release.label}),
    )


def _add_parts(bill: _Bill, manifest: Manifest, app: App) -> list[str]:
    """Adds the parts of an app apart from its binary: libraries, assets, programs."""
    return _add_libraries(bill, manifest, app) + _add_loose(bill, manifest)


def _add_loose(bill: _Bill, manifest: Manifest) -> list[str]:
    """Adds programs and assets."""
    assets = [path for path in sorted(manifest.files) if path.startswith("assets/")]
    programs = [f"program:{program.label}" for program in manifest.programs.values()]
    return [_add_file(bill, manifest, path) for path in assets] + programs


def _add_linked(bill: _Bill, app: App) -> list[str]:
    """The packages in an app's binary."""
    return [
        bill.add(components.package(purl, license)) for purl, license in sorted(app.linked.items())
    ]


def _add_app(bill: _Bill, contents: Whole, app: App, parts: Sequence[str]) -> str:
    """An app with its binary."""
    manifest = contents.apps[app.label]
    binary = manifest.binary
    runner = bill.add(
        components.file(f"app:{app.label}/{binary}", binary, manifest.files[binary]),
        _add_linked(bill, app),
    )
    return bill.add(
        Component(
            type=ComponentType.APPLICATION,
            bom_ref="app:" + app.label,
            name=app.name,
            hashes=components.hashes(contents.manifest.files[app.file]),
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


def _add_libraries(bill: _Bill, manifest: Manifest, app: App) -> list[str]:
    """The libraries of an app as parts of the packages that they come from."""
    parts = []
    for library in app.libraries:
        paths = [path for path in library.paths if path in manifest.files]
        if not paths:
            continue
        if library.purl:
            owner = bill.add(components.package(library.purl, library.license))
        else:
            owner = bill.add(
                Component(
                    type=ComponentType.LIBRARY,
                    bom_ref="runtime:" + app.runtime,
                    name=app.runtime,
                    version=app.runtime_version,
                    licenses=components.licenses(library.license),
                )
            )
        for path in paths:
            file = manifest.files[path]
            part = components.file(
                f"library:{app.platform}/{path}@{file.sha256}",
                path,
                file,
                properties=components.properties(
                    {"executorch": app.runtime_version, "platform": app.platform}
                ),
            )
            parts.append(bill.nest(owner, part))
    return parts


def _add_file(bill: _Bill, manifest: Manifest, path: str) -> str:
    """A file that is not a program, such as a tokenizer."""
    file = manifest.files[path]
    return bill.add(components.file(f"file:{path}@{file.sha256}", path, file))


def _add_program(
    bill: _Bill, release: Release, manifest: Manifest, name: str, program: Program
) -> str:
    """A program, the data files that it loads, and the files that its weights come from."""
    source = release.programs[program.label]
    data = []
    for path in program.data:
        file = manifest.find(path)
        data.append(
            bill.add(components.file("data:" + file.label, _name(file.label) + ".ptd", file))
        )
    return bill.add(
        Component(
            type=ComponentType.MACHINE_LEARNING_MODEL,
            bom_ref="program:" + program.label,
            name=name,
            hashes=components.hashes(manifest.find(program.file)),
            pedigree=_pedigree(weights(release, source.model)),
            properties=components.properties(
                {
                    "backends": ",".join(
                        sorted({b for m in program.methods.values() for b in m.backends})
                    ),
                    "label": program.label,
                    "methods": ",".join(program.methods),
                    "model": source.model,
                    "recipe": json.dumps(source.recipe, sort_keys=True),
                }
            ),
        ),
        data,
    )


def _pedigree(files: Sequence[tuple[str, File, Origin]]) -> Pedigree | None:
    ancestors = [
        Component(
            type=ComponentType.FILE,
            name=label,
            hashes=components.hashes(file),
            licenses=components.licenses(origin.license),
            purl=PackageURL.from_string(origin.purl) if origin.purl else None,
        )
        for label, file, origin in files
    ]
    return Pedigree(ancestors=ancestors) if ancestors else None


def _name(label: str) -> str:
    return label.rsplit(":", 1)[-1]


def _add_package(bill: _Bill, release: Release, contents: Whole, number: int) -> str:
    """An APK, AAR or Swift package, and the parts of its apps that are in it."""
    package = release.packages[number]
    files = contents.manifest.files[package.file].contents
    inside = {file.sha256 for file in files.values()}
    needs = {ref for ref, sha256 in bill.files() if sha256 in inside}
    # Without the interface's library there is only what the apps' archives hold.
    if package.kind == "apk" or any(PurePosixPath(path).name in _INTERFACE for path in files):
        for label in package.apps:
            needs.update(_add_linked(bill, release.apps[label]))
    return bill.add(
        Component(
            type=ComponentType.APPLICATION,
            bom_ref="package:" + package.label,
            name=_name(package.label),
            hashes=components.hashes(contents.manifest.files[package.file]),
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


def _tools(environment: Environment) -> Iterator[Component]:
    """Lists the tools that lowered the programs."""
    yield Component(type=ComponentType.APPLICATION, name="rules_executorch")
    python = PackageURL("generic", name="cpython", version=environment.python)
    yield Component(
        type=ComponentType.PLATFORM,
        bom_ref=f"tool:{python}",
        name=python.name,
        version=python.version,
        licenses=components.licenses("PSF-2.0"),
        purl=python,
    )
    for package in environment.exporter:
        yield components.python_package(f"tool:{package.purl}", package)
    for label, packages in sorted(environment.layers.items()):
        for package in packages:
            # The same package may be in several layers, and references must differ.
            yield components.python_package(
                f"tool:{label}/{package.purl}",
                package,
                properties=components.properties({"layer": label}),
            )
