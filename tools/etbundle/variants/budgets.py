"""Budgets of classes of devices: which programs each of them bounds.

A class is a condition, such as "ram_gb = 4". Its bounds are for each program that a device of the
class may run: the best one, and those to fall back to. `etlower/budgets.py` compares runs with
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etbuild.errors import BuildError
from etlink.json_file import decode
from etlink.variants import Condition

from etbundle.variants.devices import Device


@dataclass(frozen=True)
class Budget:
    """Bounds of a class.

    Attributes:
      condition: which devices are of the class.
      bounds: attribute of et_program_test to the most.
    """

    condition: Condition
    bounds: Mapping[str, float]


def parse(condition: str, bounds: str) -> Budget:
    """Reads both from JSON, as //rules:variants.bzl writes them."""
    [only] = decode(tuple[Condition, ...], json.loads(condition))
    return Budget(only, decode(dict[str, float], json.loads(bounds)))


def rows(
    label: str,
    budgets: Sequence[Budget],
    fleet: Sequence[Device],
    programs: Sequence[Sequence[str]],
) -> list[dict[str, Any]]:
    """Describes budgets for the table of variants.

    Args:
      label: of the target, for messages.
      budgets: of classes.
      fleet: all devices.
      programs: of each device the labels of programs that it may run.

    Raises:
      BuildError: no device is of a class.
    """
    found = []
    for budget in budgets:
        of_class = [
            labels
            for device, labels in zip(fleet, programs, strict=True)
            if budget.condition.holds(device.facts)
        ]
        if not of_class:
            raise BuildError(
                f"{label}: budgets: {budget.condition}: no device of the table is of this class.",
                "Change the class, or add its devices to a table of your own: devices.",
            )
        found.append(
            {
                "class": str(budget.condition),
                "devices": len(of_class),
                "bounds": dict(budget.bounds),
                "programs": sorted({name for labels in of_class for name in labels}),
            }
        )
    return found
