"""EtApp: writes the manifest of programs with all that they load, and the directory of an app.

Contract: `etbundle.app --label L --exporter_version V --program PTE MANIFEST … --data LABEL FILE …
[--variants NAME TABLE.json]… --asset PATH=FILE … --manifest OUT.json [--platform P]…
[--runtime_version V] [--directory OUT --fit FIT.json --binary FILE
--library LABEL FOLDER FILE RESOURCE …
--license PATH=FILE …]`

Without `--directory`, the files become part of another package.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser, split_pair
from etbuild.command import tool_main
from etbuild.errors import BuildError
from etlink import manifest as manifests
from etlink.container import REBUILD, sha256_of
from etlink.json_file import decode, fields_of, read_object
from etlink.manifest import File, Manifest, unique_names
from etlink.variants import Condition, Variant

from etbundle import pages
from etbundle.entries import check_name

BINARY = "runner"
MANIFEST = "manifest.json"


@dataclass
class App:
    """Files of an app, while they are collected.

    Attributes:
        label: its target.
        files: path in the app to the file that is there.
        executables: paths of the files that can be run.
        aligned: paths of the libraries that are aligned to Android's largest pages.
    """

    label: str
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
                f'{self.label}: two files would be "{path}" in the app: '
                f"{self.files[path]} and {file}.",
                "Rename one of them.",
            )
        return path


def add_programs(
    app: App, programs: Sequence[tuple[Path, Path]], data: Sequence[tuple[str, Path]]
) -> Manifest:
    """Adds programs and the data files that they load, each once.

    Args:
        app: what they are added to.
        programs: the .pte and the manifest of each.
        data: target and file of every data file that one of them may load.

    Returns:
        The union of the programs' manifests.

    Raises:
        BuildError: a data file that a program needs is not among those.
    """
    files = dict(data)
    data_names = dict(
        zip(files, unique_names([(label, f.name) for label, f in files.items()]), strict=True)
    )
    known = [(file, manifests.read(path)) for file, path in programs]
    owned = [(m.label, name) for _, m in known for name in m.programs]
    names = dict(zip(owned, unique_names(owned), strict=True))
    all_moved = []
    for file, manifest in known:
        paths = {}
        for program in manifest.programs.values():
            name = names[manifest.label, Path(program.file).stem]
            paths[program.file] = app.add(f"programs/{name}.pte", file)
            for path in program.data:
                label = manifest.files[path].label
                if label not in files:
                    raise BuildError(
                        f"{manifest.label}: data file of {label} not found among the app's files.",
                        "Report this: the manifest and the target disagree.",
                    )
                paths[path] = app.add(f"data/{data_names[label]}", files[label])
        new_names = {name: names[manifest.label, name] for name in manifest.programs}
        all_moved.append(manifests.moved(manifest, paths, new_names))
    return manifests.union(app.label, all_moved)


def add_variants(label: str, programs: Manifest, name: str, table: Path) -> Manifest:
    """Adds variants, of which the interface chooses.

    Args:
        label: of the app.
        programs: of `add_programs`.
        name: of the variants.
        table: what their proof wrote.

    Raises:
        BuildError: a program has that name.
    """
    names = {program.label: name for name, program in programs.programs.items()}
    with fields_of(table, REBUILD):
        listed = tuple(
            Variant(
                program=names[row["program"]],
                conditions=decode(tuple[Condition, ...], row["conditions"]),
            )
            for row in read_object(table, "is not a table of variants", REBUILD)["variants"]
            if row["program"] in names
        )
    if name in names.values() or name in programs.variants:
        raise BuildError(
            f'{label}: two programs would be "{name}": variants have the name of their target.',
            "Rename one of the targets.",
        )
    variants = {**programs.variants, name: listed} if listed else programs.variants
    return dataclasses.replace(programs, variants=variants)


def add_libraries(
    app: App, fit: Mapping[str, Any], libraries: Iterable[Sequence[str]]
) -> list[str]:
    """Adds the shared libraries that the app needs, with what belongs to them.

    Args:
        app: what they are added to.
        fit: the output of EtFit.
        libraries: label, folder and files of each that the app may need; the library first.

    Returns:
        Their paths in the app.
    """
    with fields_of("The output of EtFit", REBUILD):
        needed = {library["label"] for library in fit["libraries"]}
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


def describe(app: App, programs: Manifest, files: Mapping[str, Path], **more: Any) -> Manifest:
    """Describes an app.

    Args:
        app: the app.
        programs: of `add_programs`.
        files: the app's files by path, as they are in the app.
        **more: members of the manifest.

    Raises:
        BuildError: a program is not the one of its manifest.
    """
    hashed = {
        path: File(size=file.stat().st_size, sha256=sha256_of(file))
        for path, file in sorted(files.items())
    }
    union = manifests.union(app.label, [programs, Manifest(label=app.label, files=hashed)])
    return dataclasses.replace(union, **more)


def write(app: App, directory: Path) -> dict[str, Path]:
    """Copies all files of an app.

    Returns:
        The copies by path.

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
    except OSError as error:
        raise BuildError(
            f"{app.label}: the app cannot be written to {directory}: {error.strerror or error}.",
            "Check that there is space left on the disk.",
        ) from error
    return {path: directory / path for path in app.files}


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
    for name in ("label", "exporter_version"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--runtime_version", default="", help="of the runtime that comes along")
    parser.add_argument("--platform", action="append", default=[], help="that it is for")
    parser.add_argument("--program", nargs=2, type=Path, action="append", default=[])
    parser.add_argument("--data", nargs=2, action="append", default=[])
    parser.add_argument("--variants", nargs=2, action="append", default=[])
    parser.add_argument("--asset", type=split_pair, action="append", default=[])
    parser.add_argument("--manifest", type=Path, required=True, help="JSON to write")
    parser.add_argument("--directory", type=Path, help="of the app, to write")
    parser.add_argument("--fit", type=Path, help="output of EtFit")
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--library", nargs="+", action="append", default=[])
    parser.add_argument("--license", type=split_pair, action="append", default=[])
    args = parser.parse_args(arguments)
    app = App(args.label)
    programs = add_programs(app, args.program, [(label, Path(file)) for label, file in args.data])
    for name, table in args.variants:
        programs = add_variants(args.label, programs, name, Path(table))
    for path, file in args.asset:
        app.add(f"assets/{path}", file)
    versions = {"exporter": args.exporter_version, "runtime": args.runtime_version}
    more: dict[str, Any] = {
        "platforms": tuple(args.platform),
        "executorch": {name: version for name, version in versions.items() if version},
    }
    if not args.directory:
        # The target's files are packed even if the programs need none of their weights.
        for _, file in args.data:
            app.add(f"data/{Path(file).name}", Path(file))
        manifests.write(args.manifest, describe(app, programs, app.files, **more))
        return
    app.executables.add(app.add(BINARY, args.binary))
    fit = read_object(args.fit, "does not say what programs use", REBUILD)
    libraries = add_libraries(app, fit, args.library)
    app.executables.update(libraries)
    if any(platform.startswith("android") for platform in args.platform):
        app.aligned.update(libraries)
    for path, file in args.license:
        app.add(f"licenses/{path}", file)
    copies = write(app, args.directory)
    manifest = describe(app, programs, copies, binary=BINARY, libraries=tuple(libraries), **more)
    manifests.write(args.directory / MANIFEST, manifest)
    shutil.copyfile(args.directory / MANIFEST, args.manifest)


if __name__ == "__main__":
    sys.exit(main())
