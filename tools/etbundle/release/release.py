"""EtRelease: writes the lists of a release: manifest, bill of materials, checksums.

Contract: `etbundle.release.release --description IN.json --origins IN.json --manifest OUT.json
--sbom OUT.cdx.json --checksums OUT [--repository LABEL LABEL]…
[--previous IN.json --changes OUT.json]
[--stable_status IN.txt --volatile_status IN.txt]`
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etlink.container import write_text

from etbundle.release import (
    contents,
    description,
    difference,
    listing,
    python_packages,
    sbom,
    status,
)
from etbundle.release.python_packages import Environment


def write(
    release: description.Release,
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
        release: its description, of Bazel's analysis.
        stamp: what a stamped build records of its source; None: it is not stamped.
        manifest: file to write; its name is its path in the release.
        bill: the same for the bill of materials.
        checksums: the same for the checksums of all others.
        previous: manifest of an earlier release; None: there is none.
        changes: the same for the files that changed since that.

    Raises:
        BuildError: apps of the release contradict each other, or a package's METADATA is malformed.
    """
    inventory = contents.read(release)
    environment = Environment(
        python=platform.python_version(),
        exporter=python_packages.read(release.exporter.metadata),
        layers={
            label: python_packages.read(files)
            for label, files in sorted(release.backend_packages.items())
        },
    )
    write_text(bill, sbom.make(release, inventory, environment, stamp))
    inventory.files[bill.name] = contents.digest(bill)
    _write_json(manifest, listing.make(release, inventory, environment, stamp))
    inventory.files[manifest.name] = contents.digest(manifest)
    if previous and changes:
        _write_json(changes, difference.of_releases(previous, manifest))
        inventory.files[changes.name] = contents.digest(changes)
    lines = [f"{digest['sha256']}  {path}\n" for path, digest in sorted(inventory.files.items())]
    write_text(checksums, "".join(lines))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtRelease."""
    parser = ToolParser(prog="etbundle.release.release", description=__doc__)
    parser.add_argument("--description", type=Path, required=True, help="of Bazel's analysis")
    parser.add_argument(
        "--origins", type=Path, required=True, help="where repositories with models come from"
    )
    parser.add_argument(
        "--repository",
        nargs=2,
        action="append",
        default=[],
        metavar="LABEL",
        help="a label as the description has it, and as manifests have it",
    )
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
        description.read(args.description, args.origins, args.repository),
        status.read(args.stable_status, args.volatile_status) if stamped else None,
        manifest=args.manifest,
        bill=args.sbom,
        checksums=args.checksums,
        previous=args.previous,
        changes=args.changes,
    )


if __name__ == "__main__":
    sys.exit(main())
