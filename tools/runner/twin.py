"""Notices of twins: programs that run here in place of those for the device.

An emulator may refuse what methods share on the device (`not_emulated` of et_backend). Scripts that
start programs then name two files: the one that runs, lowered without it, and the target's own,
which is built as well. Where both have the same bytes, there is nothing to say.
"""

from __future__ import annotations

import filecmp
import os
from pathlib import Path

# Set by the scripts that start programs: the target's own program, and what the twin lacks.
OF = "ET_TWIN_OF"
LACKS = "ET_TWIN_LACKS"


def notice(program: Path, label: str) -> str:
    """Says that a twin runs.

    Args:
      program: the .pte file that runs.
      label: of the target, for the text.

    Returns:
      A sentence; empty: the program runs itself.
    """
    own = os.environ.get(OF)
    if not own or filecmp.cmp(own, program, shallow=False):
        return ""
    return (
        f"{label}: runs a twin of the program, lowered without {os.environ[LACKS]}, which only the "
        "device takes. The program itself was built, and does not run here."
    )
