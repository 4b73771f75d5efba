"""Estimates of backends' compilers, summed up by method: for the report, and for limits of tests.

A call of a method runs its delegates one after the other. So their times and traffic add up, and
so do the weights that lie in flash memory; in RAM, each delegate takes the place of the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Limits of a test to the figure that they limit, and what they are called.
LIMITS = {"max_cycles": ("cycles", "cycles"), "max_sram": ("sram_bytes", "bytes of SRAM")}
# The most of a method's delegates, not their sum.
_MOST = ("sram_bytes", "dram_bytes")
# Properties of the device, not amounts.
_DEVICE = ("clock_hz",)


def of_program(methods: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Sums up the estimates of each method.

    Args:
      methods: as EtLower describes the delegation (`etlink.delegated.read`).

    Returns:
      By method, the figures of `etbuild.estimates` and the `delegates` that they are of. A delegate
      in a loop counts once. Methods without an estimate are left out.
    """
    estimates = {
        name: [part["estimate"] for part in method["delegates"] if "estimate" in part]
        for name, method in sorted(methods.items())
    }
    return {name: _united(given) for name, given in estimates.items() if given}


def _united(estimates: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    names = {
        name
        for estimate in estimates
        for name, value in estimate.items()
        if not isinstance(value, str) and name not in _DEVICE
    }
    united: dict[str, float] = {"delegates": len(estimates)}
    for name in sorted(names):
        values = [estimate.get(name, 0) for estimate in estimates]
        united[name] = max(values) if name in _MOST else sum(values)
    return united


def exceeded(
    label: str, program: str, estimates: Mapping[str, Any], limits: Mapping[str, float]
) -> list[str]:
    """Lists the limits that a method exceeds.

    Args:
      label: the test, for messages.
      program: its program.
      estimates: of `of_program`.
      limits: names of `LIMITS` to numbers.

    Returns:
      One sentence for each; empty: none.
    """
    problems = []
    for limit, most in limits.items():
        figure, unit = LIMITS[limit]
        found = {name: method[figure] for name, method in estimates.items() if figure in method}
        if not found:
            problems.append(
                f"{label}: {limit}: {program} has no delegate whose compiler estimates "
                f"{unit}. Lower it with a recipe for Ethos-U, or remove {limit}."
            )
        for name, number in found.items():
            print(f'{label}: method "{name}": {number:.0f} {unit}, {limit} = {most:.0f}')
            if number > most:
                problems.append(
                    f'{label}: {limit} is exceeded: method "{name}": got {number:.0f} {unit}, '
                    f"expected at most {most:.0f}. The report of {program} has the figures of "
                    "each delegate."
                )
    return problems
