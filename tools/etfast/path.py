"""The fast path: its units, and their installation for one lowering.

Lowering is graph bookkeeping: a hundred passes that take a graph apart and make it anew. A unit
replaces some functions of torch or ExecuTorch by ones that do the same bookkeeping with less work.
The programs stay the same, byte for byte: that is the only promise, and each unit's docstring
argues why it holds. `tests/unit/fastpath` compares programs over nets and recipes, and
`--//rules:lowering=stock` lowers anything with upstream's own functions.

A unit relies on sources, not on version numbers: it knows the functions that it replaces, and those
whose behavior its argument needs, by the sha256 of their source. If one differs, the unit is
skipped, upstream's function runs, and the report says so. All sources are compared before any unit
is installed, as one unit may replace what another one relies on. With the locked versions no unit
is skipped and each one's code runs: `test_skipped.py` fails otherwise, so that an update of torch
cannot lose the speed unseen.

What would break the promise: a unit that keeps results by keys that leave out something that they
depend on; a replaced function that upstream has imported by value elsewhere (`from x import f`), so
that two versions of it run; state that outlives the context. So units keep what they know on the
objects that it is about, or in caches whose keys are values, and everything is put back on leaving,
after an error too.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from etfast.unit import Unit

# In the order in which they are installed. Their modules are imported on use: torch is slow.
UNITS = (
    "conv_bn_annotation",
    "coreml_patterns",
    "conv_bn_folding",
    "histogram_search",
    "create_arg",
    "recompile",
    "garbage_collection",
    "composite_decompositions",
    "aten_ir_make_fx",
    "node_source",
    "create_partitions",
    "hqq",
    "dependency_viewer",
    "config_partitioner",
    "fake_tensor_cache",
    "noop_passes",
    "export_pass",
    "captured_traceback",
    "sym_node",
    "vulkan_patterns",
)
# As ExecuTorch is imported, it imports torch's compiler and reads its table.
_IMPORTING = ("compiler_import", "operator_table")
# Embeddings are quantized as they are loaded.
_LOADING = ("hqq",)
# The choices that are in force, the innermost last: what they have replaced, and their units.
_active: list[tuple[contextlib.ExitStack, Sequence[Unit]]] = []


@dataclass
class Used:
    """The outcome of each unit.

    Attributes:
      lowering: "fast" or "stock".
      active: names of the installed units.
      skipped: by name of a unit the reason why.
    """

    lowering: str = "fast"
    active: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return {"lowering": self.lowering, "units": self.active, "skipped": dict(self.skipped)}


def units(names: Sequence[str] = UNITS) -> list[Unit]:
    """The units of these names."""
    return [importlib.import_module(f"etfast.{name}").UNIT for name in names]


def chosen(lowering: str) -> contextlib.AbstractContextManager[Used]:
    """Installs the units that a request asks for.

    Args:
      lowering: "fast", or "stock": nothing is installed.
    """
    return installed(()) if lowering == "stock" else installed()


def import_executorch(lowering: str) -> None:
    """Imports what all lowerings need of ExecuTorch.

    Args:
      lowering: "fast", or "stock": nothing is installed.
    """
    with installed(() if lowering == "stock" else units(_IMPORTING)):
        importlib.import_module("executorch.exir")


def while_loading(lowering: str) -> contextlib.AbstractContextManager[Used]:
    """Installs those of a request's units that do not touch graphs, for the model's own code.

    Args:
      lowering: "fast", or "stock": nothing is installed.
    """
    return installed(() if lowering == "stock" else units(_LOADING))


@contextlib.contextmanager
def installed(requested: Sequence[Unit] | None = None) -> Iterator[Used]:
    """Installs units; one that does not know upstream's sources is skipped.

    Within another choice this one stands alone, and that one is in force again behind it.

    Args:
      requested: the units; default: all.

    Yields:
      What became of them.
    """
    used = Used("fast" if requested is None or requested else "stock")
    with _outer_removed():
        checked = [
            (unit, unit.mismatches())
            for unit in (units() if requested is None else requested)
            if all(name in sys.modules for name in unit.needs)
        ]
        # The sources that were read to compare them take a few MB.
        linecache.clearcache()
        used.skipped = {unit.name: "; ".join(why) for unit, why in checked if why}
        chosen = [unit for unit, why in checked if not why]
        used.active = [unit.name for unit in chosen]
        with contextlib.ExitStack() as stack:
            _install(stack, chosen)
            _active.append((stack, chosen))
            try:
                yield used
            finally:
                _active.pop()


def _install(stack: contextlib.ExitStack, chosen: Sequence[Unit]) -> None:
    for unit in chosen:
        stack.enter_context(unit.install())


@contextlib.contextmanager
def _outer_removed() -> Iterator[None]:
    """Puts back what a choice around this one has replaced, so that each stands alone."""
    if not _active:
        yield
        return
    stack, chosen = _active[-1]
    stack.close()
    try:
        yield
    finally:
        _install(stack, chosen)
