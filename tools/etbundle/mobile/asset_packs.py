"""EtPackage: writes asset packs of Apple's Background Assets: a device gets those of its variant.

Contract: `etbundle.mobile.asset_packs --label L --prefix ID --folder NAME --manifest MANIFEST.json
--file PATH=FILE… --output DIR`

The folder has all files once, below `<folder>/`, and for each pack a manifest of `ba-package`,
`<id>.json`. No file is in two packs: `<prefix>.common` has what all devices need, with the manifest
by which the app's interface chooses; `<prefix>.program.<name>` a variant's program; and
`<prefix>.data.<name>` a data file, which several variants may load.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from etbuild.arguments import ToolParser, split_pair
from etbuild.command import tool_main
from etbuild.errors import BuildError
from etlink import manifest as manifests
from etlink.json_file import write_json
from etlink.manifest import Manifest
from etlink.variants import OF_PLATFORM

from etbundle.variants.devices import of_platform

_PHONES = of_platform({"platform": ("ios_arm64",)})
# The part of an identifier that is not App Store Connect's to refuse.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def packs_of(prefix: str, manifest: Manifest) -> dict[str, list[str]]:
    """Divides files into packs.

    Args:
      prefix: of the packs' identifiers.
      manifest: of the assets.

    Returns:
      Identifier to paths, both sorted.
    """
    variants = [variant for choices in manifest.variants.values() for variant in choices]
    of_phones = {
        variant.program
        for variant in variants
        if all(c.holds(_PHONES) for c in variant.conditions if c.fact in OF_PLATFORM)
    }
    chosen = {variant.program for variant in variants}
    always = {
        path
        for name, program in manifest.programs.items()
        if name not in chosen
        for path in (program.file, *program.data)
    }
    packs: dict[str, set[str]] = {}
    for name in chosen:
        program = manifest.programs[name]
        ids = {program.file: f"{prefix}.program.{name}"}
        ids |= {path: f"{prefix}.data.{PurePosixPath(path).name}" for path in program.data}
        for path, identifier in ids.items():
            if path not in always and name in of_phones:
                packs.setdefault(identifier, set()).add(path)
    of_variants = {
        path
        for name in chosen
        for path in (manifest.programs[name].file, *manifest.programs[name].data)
    }
    packs[f"{prefix}.common"] = {"manifest.json", *manifest.files} - (of_variants - always)
    return {identifier: sorted(paths) for identifier, paths in sorted(packs.items())}


def pack_manifest(identifier: str, folder: str, paths: Sequence[str]) -> dict[str, object]:
    """Describes a pack, as `xcrun ba-package` reads it."""
    return {
        "assetPackID": identifier,
        # The system cannot know which variant a device takes: the app asks.
        "downloadPolicy": {"onDemand": {}},
        "fileSelectors": [{"file": f"{folder}/{path}"} for path in paths],
        "platforms": ["iOS"],
    }


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the packs."""
    parser = ToolParser(prog="etbundle.mobile.asset_packs", description=__doc__)
    for name in ("label", "prefix", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--file", type=split_pair, action="append", default=[])
    args = parser.parse_args(arguments)
    manifest = manifests.read(args.manifest)
    files = {path: Path(file) for path, file in args.file}
    for identifier, paths in packs_of(args.prefix, manifest).items():
        if not _ID.fullmatch(identifier):
            raise BuildError(
                f'{args.label}: the identifier of an asset pack would be "{identifier}", expected '
                "letters, digits, dots, hyphens and underscores.",
                "Rename the program or the data file.",
            )
        for path in paths:
            target = args.output / args.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(files[path], target)
        described = pack_manifest(identifier, args.folder, paths)
        write_json(args.output / f"{identifier}.json", described)


if __name__ == "__main__":
    sys.exit(main())
