"""EtPackage: packs programs, data and the runtime as an Android library, for aar_import.

Contract: `etbundle.mobile.aar --output OUT.aar --label L --manifest AndroidManifest.xml
--classes JAR [--keep_rules FILE] --app ABI=DIR… [--library ABI=FILE…]`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main

from etbundle.apps import App, common, read
from etbundle.archives import write_zip
from etbundle.entries import Entry
from etbundle.mobile.apk import by_abi, native_libraries


def write_aar(
    output: Path,
    label: str,
    manifest: Path,
    classes: Path,
    apps: Mapping[str, App],
    libraries: Mapping[str, Path],
    keep_rules: Path | None = None,
) -> None:
    """Writes an AAR.

    Args:
        output: file to write.
        label: of the package, for the manifest of programs.
        manifest: the AndroidManifest.xml.
        classes: a .jar.
        apps: ABI to app.
        libraries: ABI to the native functions of the classes.
        keep_rules: what R8 must keep of the classes in an app's release build.

    Raises:
        BuildError: the apps differ in more than the platform.
    """
    entries = [
        Entry("AndroidManifest.xml", manifest),
        Entry("R.txt", b""),
        Entry("classes.jar", classes),
    ]
    if keep_rules:
        entries.append(Entry("proguard.txt", keep_rules))
    # An AAR has no targetSdk: that of the app decides.
    entries += native_libraries("jni", apps, libraries, must_align=False)
    entries += common(list(apps.values()), label, "assets")
    write_zip(output, entries)


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the AAR."""
    parser = ToolParser(prog="etbundle.mobile.aar", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    parser.add_argument("--label", required=True, help="of the package")
    parser.add_argument("--manifest", type=Path, required=True, help="AndroidManifest.xml")
    parser.add_argument("--classes", type=Path, required=True, help=".jar")
    parser.add_argument("--keep_rules", type=Path, help="for R8")
    parser.add_argument("--app", action="append", required=True, metavar="ABI=DIR")
    parser.add_argument("--library", action="append", default=[], metavar="ABI=FILE")
    args = parser.parse_args(arguments)
    libraries = by_abi(args.library)
    apps = {abi: read(path) for abi, path in by_abi(args.app).items()}
    write_aar(
        args.output, args.label, args.manifest, args.classes, apps, libraries, args.keep_rules
    )


if __name__ == "__main__":
    sys.exit(main())
