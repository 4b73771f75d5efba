"""Which units there are, and how they are put in place."""

from __future__ import annotations

import contextlib
import importlib
import linecache
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from etfast.unit import Unit

# In the order in which they are put in place. Their modules are imported on use: torch is slow.
UNITS = (
    "arguments",
    "codegen",
    "collecting",
    "decomposing",
    "node_sources",
    "extraction",
    "merging",
    "ordering",
    "patterns",
    "quantizers",
    "repeating",
    "retracing",
    "symbols",
)


@dataclass
class Used:
    """What became of the units.

    Attributes:
      lowering: "fast" or "stock".
      active: names of those in place.
      aside: name of a unit to why it stands aside.
    """

    lowering: str = "fast"
    active: list[str] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return {"lowering": self.lowering, "units": self.active, "stood_aside": dict(self.aside)}


def units(names: Sequence[str] = UNITS) -> list[Unit]:
    """The units of these names."""
    return [importlib.import_module(f"etfast.{name}").UNIT for name in names]


def chosen(lowering: str) -> contextlib.AbstractContextManager[Used]:
    """What a request asks for.

    Args:
      lowering: "fast", or "stock": nothing is put in place.
    """
    return installed(()) if lowering == "stock" else installed()


@contextlib.contextmanager
def installed(wanted: Sequence[Unit] | None = None) -> Iterator[Used]:
    """Puts units in place; one that upstream doesn't suit stands aside.

    Args:
      wanted: the units; default: all.

    Yields:
      What became of them.
    """
    used = Used("fast" if wanted is None or wanted else "stock")
    # All before any is in place: one replaces what another one knows.
    checked = [
        (unit, unit.mismatches())
        for unit in (units() if wanted is None else wanted)
        if all(name in sys.modules for name in unit.needs)
    ]
    # The sources that were read for that: a few MB.
    linecache.clearcache()
    with contextlib.ExitStack() as stack:
        for unit, mismatches in checked:
            if mismatches:
                used.aside[unit.name] = "; ".join(mismatches)
                continue
            stack.enter_context(unit.install())
            used.active.append(unit.name)
        yield used
