"""EtPackage: packs an Android app that chats with programs, not yet signed.

Contract: `etbundle.mobile.apk --output OUT.apk --label L --base BASE.apk --dex DIR
--app ABI=DIR… --library ABI=FILE…`
"""

from __future__ import annotations

import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from etbuild.arguments import ToolParser, split_pair
from etbuild.command import tool_main
from etbuild.errors import BuildError
from etbuild.zip_check import UNREADABLE
from etlink.container import REBUILD

from etbundle import pages
from etbundle.apps import App, common, read
from etbundle.archives import stored_by_suffix, write_zip
from etbundle.entries import Entry, tree

# Larger zips need 64 bits, which neither apksigner nor older Androids read.
_LIMIT = 2**31 - 1
# The name that Native.java loads.
_LIBRARY = "libexecutorch_app.so"


def native_libraries(
    folder: str,
    apps: Mapping[str, App],
    libraries: Mapping[str, Path],
    *,
    must_align: bool,
) -> list[Entry]:
    """The shared libraries of a package by ABI, aligned to pages of 16 KiB.

    Args:
        folder: of the package.
        apps: ABI to app.
        libraries: ABI to the C interface as a library for Java.
        must_align: whether a library that cannot be aligned is an error; else it is a warning.

    Raises:
        BuildError: an app has no library, or one that cannot be aligned.
    """
    entries = []
    for abi, app in apps.items():
        paths = [path for path in app.below("lib") if path.endswith(".so")]
        if not paths:
            raise BuildError(
                f"{app.manifest.label}: no library found in lib/.",
                "Only an app for Android can be in an APK or AAR.",
            )
        entries += [
            Entry(f"{folder}/{abi}/{path.removeprefix('lib/')}", app.files[path]) for path in paths
        ]
    entries += [Entry(f"{folder}/{abi}/{_LIBRARY}", file) for abi, file in libraries.items()]
    return [_aligned(entry, must_align) for entry in entries]


def _aligned(entry: Entry, must_align: bool) -> Entry:
    """A library for pages of 16 KiB, which Google Play asks for from apps with targetSdk 35."""
    with entry.open() as file:
        data = file.read()
    try:
        changed = pages.aligned(data)
    except pages.CannotAlign as reason:
        error = BuildError(
            f"{entry.name}: cannot be aligned to pages of 16 KiB, which apps with targetSdk 35 "
            f"need: {reason}.",
            "Link it with -Wl,-z,max-page-size=16384, or use one that NDK r28 or later built.",
        )
        if must_align:
            raise error from None
        print(f"WARNING: {error}", file=sys.stderr)
        return entry
    return entry if changed is data else Entry(entry.name, changed)


def _stored(name: str) -> bool:
    """Tells whether a file is not compressed: it is mapped, or Android or the app requires it."""
    return stored_by_suffix(name) or name in ("resources.arsc", "assets/manifest.json")


def write_apk(
    output: Path,
    label: str,
    base: Path,
    dex: Path,
    apps: Mapping[str, App],
    libraries: Mapping[str, Path],
) -> None:
    """Writes an APK without a signature.

    Args:
        output: file to write.
        label: of the package, for the manifest of programs.
        base: output of aapt2: AndroidManifest.xml and resources.
        dex: folder of .dex files.
        apps: ABI to app.
        libraries: ABI to the C interface as a library for Java.

    Raises:
        BuildError: the apps differ in more than the platform, are too large, or have a library that
            cannot be aligned to pages of 16 KiB.
    """
    try:
        with zipfile.ZipFile(base) as archive:
            entries = [Entry(info.filename, archive.read(info)) for info in archive.infolist()]
    except (*UNREADABLE, zlib.error) as error:
        raise BuildError(f"{base} is damaged: {error}.", REBUILD) from error
    entries += tree(dex)
    entries += native_libraries("lib", apps, libraries, must_align=True)
    entries += common(list(apps.values()), label, "assets")
    size = sum(entry.size() for entry in entries)
    if size > _LIMIT:
        raise BuildError(
            f"{output.name} is too large: got {size / 2**30:.1f} GiB, expected at most 2 GiB.",
            "Let the app download the largest .ptd files itself, with et_assets.",
        )
    write_zip(output, entries, _stored)


def by_abi(items: Sequence[str]) -> dict[str, Path]:
    """Arguments "ABI=PATH"."""
    return dict(map(split_pair, items))


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the APK."""
    parser = ToolParser(prog="etbundle.mobile.apk", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    parser.add_argument("--label", required=True, help="of the package")
    parser.add_argument("--base", type=Path, required=True, help="output of aapt2")
    parser.add_argument("--dex", type=Path, required=True, help="folder of .dex files")
    parser.add_argument("--app", action="append", required=True, metavar="ABI=DIR")
    parser.add_argument("--library", action="append", required=True, metavar="ABI=FILE")
    args = parser.parse_args(arguments)
    apps = {abi: read(path) for abi, path in by_abi(args.app).items()}
    write_apk(args.output, args.label, args.base, args.dex, apps, by_abi(args.library))


if __name__ == "__main__":
    sys.exit(main())
