"""EtRelease: writes the lists of a release: manifest, bill of materials, checksums.

Contract: `etbundle.release.release --manifest OUT.json --sbom OUT.cdx.json --checksums OUT
[--previous IN.json --changes OUT.json] [--stable_status IN.txt --volatile_status IN.txt]`, and the
arguments of `inputs.py`.
"""

from __future__ import annotations

import dataclasses
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etlink import manifest as manifests
from etlink.container import write_text

from etbundle.release import inputs, python_packages, sbom, status, whole
from etbundle.release.python_packages import Environment


def write(
    release: inputs.Release,
    stamp: status.Stamp | None,
    *,
    manifest: Path,
    bill: Path,
    checksums: Path,
    previous: Path | None = None,
    changes: Path | None = None,
) -> None:
    """Writes all lists.

    Args:
        release: what it is made from.
        stamp: what a stamped build records of its source; None: it is not stamped.
        manifest: file to write; its name is its path in the release.
        bill: the same for the bill of materials.
        checksums: the same for the checksums of all others.
        previous: manifest of an earlier release; None: there is none.
        changes: the same for the files that changed since that.

    Raises:
        BuildError: apps of the release contradict each other, or a package's METADATA is malformed.
    """
    before = manifests.read(previous) if previous else None
    environment = Environment(
        python=platform.python_version(),
        exporter=python_packages.read(release.metadata),
        layers={
            label: python_packages.read(files)
            for label, files in sorted(release.backend_packages.items())
        },
    )
    contents = whole.read(release, environment, stamp)
    write_text(bill, sbom.make(release, contents, environment, stamp))
    files = {**contents.manifest.files, bill.name: whole.described(bill)}
    complete = dataclasses.replace(contents.manifest, files=files)
    manifests.write(manifest, complete)
    # The manifest cannot list itself, nor what follows from it.
    files = {**files, manifest.name: whole.described(manifest)}
    if before and changes:
        manifests.write(changes, manifests.difference(before, complete))
        files[changes.name] = whole.described(changes)
    lines = [f"{file.sha256}  {path}\n" for path, file in sorted(files.items())]
    write_text(checksums, "".join(lines))


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtRelease."""
    parser = ToolParser(prog="etbundle.release.release", description=__doc__)
    inputs.add_arguments(parser)
    parser.add_argument("--manifest", type=Path, required=True, help="JSON to write")
    parser.add_argument("--sbom", type=Path, required=True, help="CycloneDX to write")
    parser.add_argument("--checksums", type=Path, required=True, help="SHA256SUMS to write")
    parser.add_argument("--previous", type=Path, help="manifest of an earlier release")
    parser.add_argument("--changes", type=Path, help="JSON to write: files that changed since that")
    parser.add_argument("--stable_status", type=Path, help="of a stamped build")
    parser.add_argument("--volatile_status", type=Path, help="of a stamped build")
    args = parser.parse_args(arguments)
    stamped = args.stable_status and args.volatile_status
    write(
        inputs.read(args),
        status.read(args.stable_status, args.volatile_status) if stamped else None,
        manifest=args.manifest,
        bill=args.sbom,
        checksums=args.checksums,
        previous=args.previous,
        changes=args.changes,
    )


if __name__ == "__main__":
    sys.exit(main())
