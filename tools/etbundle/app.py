"""EtApp: writes an app's directory: binary, libraries, programs, data files and a manifest.

Contract: `etbundle.app --label L --name N --platform P --exporter_version V --runtime_version V
--fit FIT.json --binary FILE --library LABEL FOLDER FILE RESOURCE… --program LABEL NAME PTE MANIFEST
--data LABEL FILE … --asset PATH=FILE … --license PATH=FILE … --directory OUT --manifest OUT.json`
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser, split_pair
from etbuild.command import tool_main
from etbuild.errors import BuildError
from etlink import manifest as program_manifest
from etlink.container import REBUILD, Piece, sha256_of
from etlink.json_file import fields_of, read_object, write_json

from etbundle import pages
from etbundle.entries import check_name

BINARY = "runner"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Program:
    """A program of an app.

    Attributes:
        label: target that makes it.
        name: of the program in the app.
        file: the .pte.
        manifest: of the linker, JSON.
    """

    label: str
    name: str
    file: Path
    manifest: Path


@dataclass
class App:
    """The contents of an app's directory.

    Attributes:
        identity: label, name, platform and versions, as the manifest has them.
        fit: the output of EtFit.
        files: path in the app to the file that is copied there.
        executables: paths of the files that can be run.
        aligned: paths of the libraries that are aligned to Android's largest pages.
    """

    identity: Mapping[str, Any]
    fit: Mapping[str, Any]
    files: dict[str, Path] = field(default_factory=dict)
    executables: set[str] = field(default_factory=set)
    aligned: set[str] = field(default_factory=set)

    def add(self, path: str, file: Path) -> str:
        """Puts a file into the app.

        Raises:
            BuildError: another file has that path, or the path leads out of the app.
        """
        check_name(path)
        if self.files.setdefault(path, file) != file:
            raise BuildError(
                f'{self.identity["label"]}: two files would be "{path}" in the app: '
                f"{self.files[path]} and {file}.",
                "Rename one of them.",
            )
        return path


def unique_names(targets: Sequence[tuple[str, str]]) -> list[str]:
    """File names for targets: their own, with the package in front where two are equal.

    Args:
        targets: (label, name) of each.
    """
    count = Counter(name for _, name in set(targets))
    return [name if count[name] == 1 else f"{_package(label)}_{name}" for label, name in targets]


def _package(label: str) -> str:
    package = label.rsplit(":", 1)[0].lstrip("@").replace("//", "/").strip("/")
    return package.replace("/", "_").replace("~", "_") or "root"


def add_programs(
    app: App, programs: Sequence[Program], data: Sequence[tuple[str, Path]]
) -> list[dict[str, Any]]:
    """Adds programs and the data files that they load, each once.

    Args:
        app: what they are added to.
        programs: the programs.
        data: target and file of every data file that one of them may load.

    Returns:
        What the app's manifest says of each program.

    Raises:
        BuildError: a data file that a program needs is not among those.
    """
    files = dict(data)
    data_names = dict(
        zip(files, unique_names([(label, f.name) for label, f in files.items()]), strict=True)
    )
    names = unique_names([(p.label, p.name) for p in programs])
    described = []
    for program, name in zip(programs, names, strict=True):
        manifest = program_manifest.read(program.manifest)
        loads = {}
        for entry in manifest["data"]:
            label = entry["label"]
            if label not in files:
                raise BuildError(
                    f"{program.label}: data file of {label} not found among the app's files.",
                    "Report this: the manifest and the target disagree.",
                )
            loads[label] = app.add(f"data/{data_names[label]}", files[label])
        with fields_of("The output of EtFit", REBUILD):
            methods = app.fit["programs"].get(program.label, {})
            uses = {
                kind: sorted({name for m in methods.values() for name in m[kind]})
                for kind in ("backends", "operators")
            }
        described.append(
            {
                "name": name,
                "label": program.label,
                "file": app.add(f"programs/{name}.pte", program.file),
                "manifest": app.add(f"programs/{name}.manifest.json", program.manifest),
                "data": loads,
                "methods": sorted(methods),
                **uses,
            }
        )
    return described


def add_libraries(app: App, libraries: Iterable[Sequence[str]]) -> list[str]:
    """Adds the shared libraries that the app needs, with what belongs to them.

    Args:
        app: what they are added to.
        libraries: label, folder and files of each that the app may need; the library first.

    Returns:
        Their paths in the app.
    """
    with fields_of("The output of EtFit", REBUILD):
        needed = {library["label"] for library in app.fit["libraries"]}
    paths = []
    for label, folder, library, *resources in libraries:
        if label in needed:
            root = Path(library).parent
            paths.append(app.add(f"{folder}/{Path(library).name}", Path(library)))
            for resource in resources:
                app.add(f"{folder}/{_below(Path(resource), root)}", Path(resource))
    return sorted(paths)


def _below(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name


def describe_files(files: Mapping[str, Path]) -> dict[str, Any]:
    """Describes files for a manifest, given by their paths in the app."""
    pieces = {path: Piece.of_file(file) for path, file in sorted(files.items())}
    return {
        path: {"size": piece.size, "sha256": sha256_of(piece)} for path, piece in pieces.items()
    }


def write(app: App, manifest: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Copies all files of an app and writes its manifest.

    Returns:
        The manifest.

    Raises:
        BuildError: the directory cannot be written.
    """
    try:
        for path, file in sorted(app.files.items()):
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if path in app.aligned:
                _write_aligned(file, target)
            else:
                shutil.copyfile(file, target)
            os.chmod(target, 0o755 if path in app.executables else 0o644)
        written = {path: directory / path for path in app.files}
        described = describe_files(written)
    except OSError as error:
        raise BuildError(
            f"{app.identity['label']}: the app cannot be written to {directory}: "
            f"{error.strerror or error}.",
            "Check that there is space left on the disk.",
        ) from error
    complete = {"format": 1, **app.identity, **manifest, "files": described}
    write_json(directory / MANIFEST, complete)
    return complete


def _write_aligned(file: Path, target: Path) -> None:
    data = file.read_bytes()
    try:
        target.write_bytes(pages.aligned(data))
    except pages.CannotAlign:
        # Devices with small pages load it. An APK refuses it.
        target.write_bytes(data)


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtApp."""
    parser = ToolParser(prog="etbundle.app", description=__doc__)
    for name in ("label", "name", "platform", "exporter_version", "runtime_version"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--fit", type=Path, required=True, help="output of EtFit")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--library", nargs="+", action="append", default=[])
    parser.add_argument("--program", nargs=4, action="append", default=[])
    parser.add_argument("--data", nargs=2, action="append", default=[])
    for name in ("asset", "license"):
        parser.add_argument(f"--{name}", type=split_pair, action="append", default=[])
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, required=True, help="a copy to write")
    args = parser.parse_args(arguments)
    identity = {
        "app": args.name,
        "label": args.label,
        "platform": args.platform,
        "executorch": {
            "exporter": args.exporter_version,
            "runtime": args.runtime_version,
        },
    }
    app = App(identity, read_object(args.fit, "does not say what programs use", REBUILD))
    app.executables.add(app.add(BINARY, args.binary))
    libraries = add_libraries(app, args.library)
    app.executables.update(libraries)
    if args.platform.startswith("android"):
        app.aligned.update(libraries)
    programs = [Program(a, b, Path(c), Path(d)) for a, b, c, d in args.program]
    data = [(label, Path(file)) for label, file in args.data]
    described = add_programs(app, programs, data)
    assets = [app.add(f"assets/{path}", file) for path, file in args.asset]
    for path, file in args.license:
        app.add(f"licenses/{path}", file)
    manifest = {
        "binary": BINARY,
        "libraries": libraries,
        "programs": described,
        "data": sorted(p for p in app.files if p.startswith("data/")),
        "assets": sorted(assets),
    }
    write(app, manifest, args.directory)
    shutil.copyfile(args.directory / MANIFEST, args.manifest)


if __name__ == "__main__":
    sys.exit(main())
