"""EtPackage: packs XCFrameworks, programs and data as a Swift package.

Contract: `etbundle.mobile.swift_package --name N --module M --slice S… --framework NAME=OUT.plist…
--framework_info PLIST… --package OUT --source OUT --file PATH=FILE… --executable PATH… --zip OUT`
"""

from __future__ import annotations

import plistlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from etbuild.arguments import ToolParser, split_pair
from etbuild.command import tool_main
from etbuild.errors import BuildError

from etbundle.archives import write_zip
from etbundle.entries import Entry

# What the prebuilt runtimes are built for, if a framework does not say.
_OLDEST_IOS = "17.0"


def info_plist(framework: str, slices: Iterable[str]) -> bytes:
    """The Info.plist of an XCFramework.

    Args:
        framework: its name, without ".framework".
        slices: folders of its parts, which are also Apple's identifiers: "ios-arm64-simulator".
    """
    libraries: list[dict[str, Any]] = []
    for folder in sorted(slices):
        system, architecture, *variant = folder.split("-")
        library: dict[str, Any] = {
            "BinaryPath": f"{framework}.framework/{framework}",
            "LibraryIdentifier": folder,
            "LibraryPath": f"{framework}.framework",
            "SupportedArchitectures": [architecture],
            "SupportedPlatform": system,
        }
        if variant:
            library["SupportedPlatformVariant"] = variant[0]
        libraries.append(library)
    plist = {
        "AvailableLibraries": libraries,
        "CFBundlePackageType": "XFWK",
        "XCFrameworkFormatVersion": "1.0",
    }
    return plistlib.dumps(plist, sort_keys=True)


def minimum_ios(infos: Iterable[Path]) -> str:
    """The oldest iOS that all frameworks run on.

    Args:
        infos: the Info.plist of each framework.

    Raises:
        BuildError: one is not a property list, or its version is malformed.
    """
    versions = []
    for path in infos:
        try:
            content = plistlib.loads(path.read_bytes())
        except (plistlib.InvalidFileException, ValueError) as error:
            raise BuildError(f"{path} is not a property list: {error}.") from error
        version = str(content.get("MinimumOSVersion", _OLDEST_IOS))
        if not re.fullmatch(r"\d+(\.\d+)*", version):
            raise BuildError(
                f'{path}: MinimumOSVersion: got "{version}", expected numbers such as "17.0".'
            )
        versions.append(version)
    return max(versions, key=_numbers, default=_OLDEST_IOS)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def render(template: str, values: Mapping[str, Any]) -> bytes:
    """A file of the package, from its template."""
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    return environment.get_template(template).render(values).encode()


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtPackage."""
    parser = ToolParser(prog="etbundle.mobile.swift_package", description=__doc__)
    for name in ("name", "module"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--slice", action="append", required=True, help="folder of a part")
    parser.add_argument("--framework", action="append", default=[], help="NAME=Info.plist to write")
    parser.add_argument("--framework_info", action="append", default=[], type=Path)
    parser.add_argument("--package", type=Path, required=True, help="Package.swift to write")
    parser.add_argument("--source", type=Path, required=True, help="Swift source to write")
    parser.add_argument("--file", type=split_pair, action="append", default=[], metavar="PATH=FILE")
    parser.add_argument("--executable", action="append", default=[], metavar="PATH")
    parser.add_argument("--zip", type=Path, required=True, help="the whole package, to write")
    args = parser.parse_args(arguments)
    frameworks = dict(split_pair(item) for item in args.framework)
    values = {
        "name": args.name,
        "module": args.module,
        "frameworks": sorted(frameworks),
        "minimum_ios": minimum_ios(args.framework_info),
    }
    written = {
        "Package.swift": (args.package, render("Package.swift.jinja", values)),
        f"Sources/{args.module}/{args.module}.swift": (
            args.source,
            render("Files.swift.jinja", values),
        ),
    }
    for name, output in frameworks.items():
        plist = info_plist(name, args.slice)
        written[f"{name}.xcframework/Info.plist"] = (output, plist)
    for output, contents in written.values():
        output.write_bytes(contents)
    entries = [Entry(f"{args.name}/{path}", text) for path, (_, text) in written.items()]
    entries += [
        Entry(f"{args.name}/{path}", file, path in args.executable) for path, file in args.file
    ]
    write_zip(args.zip, entries)


if __name__ == "__main__":
    sys.exit(main())
