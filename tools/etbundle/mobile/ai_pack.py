"""EtPackage: writes an AI pack of Play for On-device AI: each device gets the files of its variant.

Contract: `etbundle.mobile.ai_pack --label L --pack NAME --folder NAME --manifest MANIFEST.json
--file PATH=FILE… --devices TABLE.json --output DIR`

The folder has `device_targeting_configuration.xml`, and for each group of devices all that an app
opens there: `<pack>/src/main/assets/<folder>#group_<group>/`, with `manifest.json`. Play takes off
the name's end, so an app reads `<folder>/manifest.json` on each device.
"""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from etbuild.arguments import ToolParser, split_pair
from etbuild.command import tool_main
from etbuild.errors import BuildError
from etlink import manifest as manifests
from etlink.container import write_text
from etlink.manifest import Manifest

from etbundle.mobile.play_groups import Group, configuration, groups_of
from etbundle.variants import devices

# "1.5GB, based on compressed download sizes": of what a device gets of a pack.
MAX_BYTES = 1_500_000_000
CONFIGURATION = "device_targeting_configuration.xml"
_CHUNK = 1 << 20


def files_of(group: Group, manifest: Manifest) -> list[str]:
    """Paths of the files that a group's devices get, sorted."""
    chosen = {variant.program for choices in manifest.variants.values() for variant in choices}
    left_out = chosen - set(group.programs)
    kept = {
        path
        for name, program in manifest.programs.items()
        if name not in left_out
        for path in (program.file, *program.data)
    }
    dropped = {
        path
        for name in left_out
        for path in (manifest.programs[name].file, *manifest.programs[name].data)
    }
    return sorted({"manifest.json", *manifest.files} - (dropped - kept))


def compressed(files: Iterable[Path], enough: int) -> int:
    """Bytes of files after compression, or of what was compressed when there were enough."""
    total = 0
    for path in files:
        squeeze = zlib.compressobj(6)
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                total += len(squeeze.compress(chunk))
                if total > enough:
                    return total
        total += len(squeeze.flush())
    return total


def check_size(label: str, group: Group, files: Mapping[str, Path], most: int = MAX_BYTES) -> None:
    """Compares what a group's devices get with Play's limit.

    Raises:
      BuildError: it is too large.
    """
    sizes = {path: file.stat().st_size for path, file in files.items()}
    # Compressing takes minutes where there is much, and hardly makes weights smaller.
    if sum(sizes.values()) <= most or compressed(files.values(), most) <= most:
        return
    largest = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:3]
    listed = ", ".join(f"{path} {size:,}" for path, size in largest)
    raise BuildError(
        f"{label}: group {group.name}: got {sum(sizes.values()):,} bytes, over {most:,} after "
        f"compression, and Play takes at most {most:,} for an AI pack on a device. The largest "
        f"are {listed}.",
        "Share weights between the programs (et_shared_data), quantize them, make two packs, or "
        "serve the files yourself (et_release).",
    )


def write(label: str, pack: Path, folder: str, group: Group, files: Mapping[str, Path]) -> None:
    """Writes a group's folder.

    Raises:
      BuildError: it is too large.
    """
    check_size(label, group, files)
    root = pack / "src/main/assets" / f"{folder}#group_{group.name}"
    for path, file in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(file, target, pack)


def _copy(file: Path, target: Path, pack: Path) -> None:
    """Copies a file once; other groups get links to the copy."""
    key = (pack, os.path.realpath(file))
    if key in _COPIES:
        os.link(_COPIES[key], target)
    else:
        shutil.copyfile(file, target)
        _COPIES[key] = target


_COPIES: dict[tuple[Path, str], Path] = {}


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the pack."""
    parser = ToolParser(prog="etbundle.mobile.ai_pack", description=__doc__)
    for name in ("label", "pack", "folder"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("manifest", "devices", "output"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--file", type=split_pair, action="append", default=[])
    args = parser.parse_args(arguments)
    manifest = manifests.read(args.manifest)
    table = devices.read(args.devices)
    if not manifest.variants:
        raise BuildError(
            f"{args.label}: assets: got no variants, expected programs that et_variants names.",
            "Give an et_assets whose programs have an et_variants; others go to the app itself.",
        )
    files = {path: Path(file) for path, file in args.file}
    groups = groups_of(args.label, manifest.variants, table)
    for group in groups:
        chosen = {path: files[path] for path in files_of(group, manifest)}
        write(args.label, args.output / args.pack, args.folder, group, chosen)
    write_text(args.output / CONFIGURATION, configuration(args.label, groups, table))


if __name__ == "__main__":
    sys.exit(main())
