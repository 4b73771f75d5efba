"""EtExtract: extracts a file from the first archive that has it.

Contract: `etbundle.extract --label L --archive FILE.aar… --member PATH --output FILE`
"""

from __future__ import annotations

import shutil
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etbuild.errors import BuildError, listed
from etbuild.zip_check import UNREADABLE
from etlink.container import write_atomically

# The latter for archives that are encrypted, too large, or packed in an unknown way.
_DAMAGED = (*UNREADABLE, RuntimeError, zipfile.LargeZipFile, zlib.error)


def extract(label: str, archives: Sequence[Path], member: str, output: Path) -> None:
    """Writes a member of the first zip archive that has it.

    Args:
        label: target, for messages.
        archives: zip files, such as AARs.
        member: path in them.
        output: the file to write.

    Raises:
        BuildError: an archive is damaged, or none has it.
    """
    beside: set[str] = set()
    folder = member.rsplit("/", 1)[0] + "/"
    for archive in archives:
        try:
            with zipfile.ZipFile(archive) as opened:
                names = opened.namelist()
                beside.update(n for n in names if n.startswith(folder) and n != folder)
                if member in names:
                    if names.count(member) > 1:
                        raise zipfile.BadZipFile(f"it has {member} twice")
                    with opened.open(member) as source:
                        write_atomically(output, lambda out, s=source: shutil.copyfileobj(s, out))
                    return
        except BuildError:
            raise
        except _DAMAGED as error:
            raise BuildError(
                f"{label}: {archive} is damaged: {error}.", "Fetch it again."
            ) from error
    raise BuildError(
        f"{label}: {member} not found in any archive. Available in {folder}: "
        f"{listed(sorted(beside))}.",
        "Correct the name, or give the archive that has it.",
    )


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtExtract."""
    parser = ToolParser(prog="etbundle.extract", description=__doc__)
    parser.add_argument("--label", required=True)
    parser.add_argument("--archive", type=Path, action="append", default=[])
    parser.add_argument("--member", required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(arguments)
    extract(args.label, args.archive, args.member, args.output)


if __name__ == "__main__":
    sys.exit(main())
