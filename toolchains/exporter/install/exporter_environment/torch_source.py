"""Where torch comes from: the machine's own package index, or PyTorch's index of CPU builds.

The registry's torch for Linux is a CUDA build; the lock holds only the hashes of CPU builds. pip's
own settings are asked first, for a machine may have a CPU build already (a mirror, find-links) and
an additional index that can't be reached costs pip minutes of retries. The question is
`pip index versions`, since any that reads metadata may download half a gigabyte to answer it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .locks import Requirement


@dataclass(frozen=True)
class Decision:
    """Which options pip gets for a package, why (for the person who reads the output), and whether
    a CPU build is known to be found that way."""

    options: tuple[str, ...]
    reason: str
    found: bool

    def hint(self) -> str:
        """What else to do when the package can't be had this way."""
        if self.options:
            return "if this index can't be reached from here, name a mirror in `torch_index`"
        if not self.found:
            return "or name an index of CPU builds in `torch_index`: the lock allows no CUDA build"
        return ""


OWN_SETTINGS = Decision((), "pip's own settings", True)


def available_versions(said: str) -> tuple[str, ...] | None:
    """The versions in the output of `pip index versions`, or None when there is no answer in it."""
    found = re.search(r"^Available versions:\s*(.+)$", said, re.MULTILINE)
    return tuple(v.strip() for v in found[1].split(",") if v.strip()) if found else None


def decide(
    wanted: Requirement, versions: Sequence[str] | None, sys_platform: str, index: str
) -> Decision:
    """Chooses pip's options for torch from what pip's own settings offer."""
    release = wanted.version.partition("+")[0]
    builds = [v for v in versions or () if v.partition("+")[0] == release]
    cpu = [v for v in builds if v.partition("+")[2].startswith("cpu")]
    if "+" in wanted.version and wanted.version in builds:
        return Decision((), f"pip's own settings offer {wanted.version}", True)
    if cpu:
        return Decision((), f"pip's own settings offer {cpu[0]}", True)
    if sys_platform == "darwin" and builds:
        return Decision((), "the registry's build for macOS is a CPU build", True)
    if not index:
        reason = "no index of CPU builds is set: pip's own settings are all there is"
        return Decision((), reason, False)
    seen = f"offer only {', '.join(builds)}" if builds else f"offer no {wanted.name} {release}"
    return Decision(("--index-url", index), f"pip's own settings {seen}: using {index}", True)
