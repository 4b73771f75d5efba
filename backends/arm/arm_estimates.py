"""Vela's estimates for Ethos-U: cycles, time, memory and traffic of each payload.

Vela writes them to a table beside its output, in a temporary folder that upstream removes. So
upstream's call of vela gets a folder of ours, which changes no byte of a payload.
"""

from __future__ import annotations

import csv
import functools
import tempfile
from pathlib import Path
from typing import Any

from etbuild import keep_estimate

# Of vela's table, whose sizes are in KiB.
_MEMORIES = ("sram", "dram", "on_chip_flash", "off_chip_flash")
_SETTINGS = {
    "accelerator": "accelerator_configuration",
    "system_config": "system_config",
    "memory_mode": "memory_mode",
}


def keep_estimates() -> None:
    """Keeps vela's estimates of all payloads that this process makes from now on."""
    from executorch.backends.arm.ethosu import backend

    upstream = backend.vela_compile
    if hasattr(upstream, "__wrapped__"):
        return

    @functools.wraps(upstream)
    def compiled(
        tosa: bytes, flags: list[str], *, intermediate_path: str | None = None, **others: Any
    ) -> Any:
        with tempfile.TemporaryDirectory() as scratch:
            folder = intermediate_path or scratch
            result = upstream(tosa, flags, intermediate_path=folder, **others)
            [table] = Path(folder, "output").glob("*_summary_*.csv")
            keep_estimate(result.processed_bytes, figures(table.read_text(encoding="utf-8")))
        return result

    backend.vela_compile = compiled


def figures(table: str) -> dict[str, float | str]:
    """Reads vela's table of a network.

    Args:
      table: CSV: a line of titles, and one of values.

    Returns:
      Figures as `keep_estimate` takes them. Memories that the network doesn't use are left out.
    """
    [row] = csv.DictReader(table.splitlines())
    clock, cycles = float(row["core_clock"]), float(row["cycles_total"])
    found: dict[str, float | str] = {name: row[title] for name, title in _SETTINGS.items()}
    found |= {
        "clock_hz": int(clock),
        "cycles": int(cycles),
        "seconds": cycles / clock,
        "macs": int(float(row["nn_macs"])),
    }
    for memory in _MEMORIES:
        sizes = {
            f"{memory}_bytes": round(1024 * float(row[f"{memory}_memory_used"])),
            f"{memory}_read_write_bytes": int(float(row[f"{memory}_total_bytes"])),
        }
        found |= {name: size for name, size in sizes.items() if size}
    return found
