"""Checks variants on all devices of a table, and writes which device gets which.

Contract: `etbundle.variants.proof --label L --variant LABEL PTE MANIFEST CONDITIONS …
--devices TABLE.json [--platform P]… [--budget CONDITION BOUNDS]… --table OUT.json --page OUT.md`

Variants come in their order, the best first; CONDITIONS are a JSON list. Proven is:

- each device gets a variant: the first whose conditions it meets;
- the last that a device meets runs on all devices of its platform, so that there is always one to
  fall back to, whatever does not load;
- each variant is the first of some device.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etbuild.errors import BuildError
from etlink import manifest as manifests
from etlink.container import write_text
from etlink.json_file import decode, encode, write_json
from etlink.manifest import Manifest
from etlink.variants import OF_PLATFORM, Condition

from etbundle.variants import budgets, devices, needs
from etbundle.variants.devices import Device

# How many devices an error names.
_LISTED = 3


@dataclass(frozen=True)
class Choice:
    """A variant.

    Attributes:
      label: of its program.
      conditions: those that the target names.
      needs: those that follow from its payloads.
      manifest: of the program.
    """

    label: str
    conditions: tuple[Condition, ...]
    needs: tuple[Condition, ...]
    manifest: Manifest

    def all(self) -> tuple[Condition, ...]:
        """All conditions, each once."""
        return tuple(dict.fromkeys(self.conditions + self.needs))

    def fits(self, device: Device) -> bool:
        """Returns whether a device meets all conditions."""
        return all(condition.holds(device.facts) for condition in self.all())

    def unmet(self, device: Device) -> str:
        """The conditions that a device does not meet; empty: it meets all."""
        return ", ".join(str(c) for c in self.all() if not c.holds(device.facts))

    def is_fallback(self) -> bool:
        """Returns whether it runs on all devices of a platform."""
        return all(condition.fact in OF_PLATFORM for condition in self.all())


def prove(label: str, choices: Sequence[Choice], fleet: Sequence[Device]) -> list[list[Choice]]:
    """Chooses for each device.

    Args:
      label: of the target, for messages.
      choices: the best first.
      fleet: all devices.

    Returns:
      For each device the variants whose conditions it meets, in their order.

    Raises:
      BuildError: a device gets none, or none to fall back to; or a variant has no device.
    """
    chosen = [[choice for choice in choices if choice.fits(device)] for device in fleet]
    without = [d for d, fits in zip(fleet, chosen, strict=True) if not fits]
    if without:
        reasons = "; ".join(f"{c.label} needs {c.unmet(without[0])}" for c in choices)
        raise BuildError(
            f"{label}: no program is for {_listed(without)}: {reasons}.",
            "Add one without conditions, or name the platforms that the target is for: platforms.",
        )
    firsts = {fits[0].label for fits in chosen}
    for choice in choices:
        if choice.label not in firsts:
            raise BuildError(
                f"{label}: no device gets {choice.label}: {_why_dead(choice, fleet, chosen)}.",
                "Remove it, change the order, or add the devices that it is for: devices.",
            )
    unsafe = [
        d for d, fits in zip(fleet, chosen, strict=True) if fits and not fits[-1].is_fallback()
    ]
    if unsafe:
        last = next(f for d, f in zip(fleet, chosen, strict=True) if d is unsafe[0])[-1]
        beyond = ", ".join(str(c) for c in last.all() if c.fact not in OF_PLATFORM)
        raise BuildError(
            f"{label}: {_listed(unsafe)} can have nothing to fall back to: the last program for it "
            f"is {last.label}, which needs {beyond}.",
            f"Add a program that runs on all devices of {unsafe[0].platform}.",
        )
    return chosen


def _why_dead(choice: Choice, fleet: Sequence[Device], chosen: Sequence[Sequence[Choice]]) -> str:
    fitting = [fits for fits in chosen if choice in fits]
    if fitting:
        better = Counter(fits[0].label for fits in fitting)
        return f"all {len(fitting)} that could get {' and '.join(sorted(better))}, which is better"
    never = [str(c) for c in choice.all() if not any(c.holds(d.facts) for d in fleet)]
    return f"none has {' or '.join(never)}" if never else f"none has {choice_text(choice)}"


def choice_text(choice: Choice) -> str:
    """A variant's conditions, to read."""
    return ", ".join(map(str, choice.all())) or "any device"


def _listed(fleet: Sequence[Device]) -> str:
    names = [device.name for device in fleet[:_LISTED]]
    more = len(fleet) - len(names)
    return " / ".join(names) + (f" and {more} more devices" if more else "")


def bytes_of(choices: Sequence[Choice]) -> list[tuple[int, int]]:
    """Sizes of variants.

    Returns:
      For each the bytes of all its files, and of those that no earlier variant has.
    """
    seen: set[tuple[str, str]] = set()
    sizes = []
    for choice in choices:
        files = {
            (file.label, file.sha256 or path): file.size
            for path, file in choice.manifest.files.items()
        }
        added = sum(size for key, size in files.items() if key not in seen)
        sizes.append((sum(files.values()), added))
        seen |= files.keys()
    return sizes


def table(
    label: str,
    choices: Sequence[Choice],
    fleet: Sequence[Device],
    chosen: Sequence[Sequence[Choice]],
) -> dict[str, Any]:
    """Outputs, as JSON."""
    counts = Counter(fits[0].label for fits in chosen)
    return {
        "label": label,
        "variants": [
            {
                "program": choice.label,
                "conditions": encode(choice.all()),
                "from_payloads": encode(choice.needs),
                "bytes": total,
                "added_bytes": added,
                "devices": counts[choice.label],
            }
            for choice, (total, added) in zip(choices, bytes_of(choices), strict=True)
        ],
        "devices": [
            {
                "device": device.name,
                "platform": device.platform,
                "program": fits[0].label,
                "then": [choice.label for choice in fits[1:]],
                "not": {c.label: c.unmet(device) for c in choices if c not in fits},
            }
            for device, fits in zip(fleet, chosen, strict=True)
        ],
    }


def page(described: dict[str, Any], choices: Sequence[Choice]) -> str:
    """The same to read."""
    lines = [f"# Variants of {described['label']}", ""]
    lines += ["| program, best first | for | devices | bytes | added |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['program']} | {choice_text(choice)} | {row['devices']} | "
        f"{row['bytes']:,} | {row['added_bytes']:,} |"
        for row, choice in zip(described["variants"], choices, strict=True)
    ]
    lines += ["", "Added are bytes of files that no program above has.", ""]
    lines += ["| device | gets | else | because |", "|---|---|---|---|"]
    for row in described["devices"]:
        reasons = "; ".join(f"{label} needs {unmet}" for label, unmet in row["not"].items())
        cells = (row["device"], row["program"], ", ".join(row["then"]), reasons)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the proof."""
    parser = ToolParser(prog="etbundle.variants.proof", description=__doc__)
    parser.add_argument("--label", required=True)
    parser.add_argument("--variant", nargs=4, action="append", default=[])
    parser.add_argument("--devices", type=Path, required=True)
    parser.add_argument("--platform", action="append", default=[])
    parser.add_argument("--budget", nargs=2, action="append", default=[])
    parser.add_argument("--table", type=Path, required=True, help="JSON to write")
    parser.add_argument("--page", type=Path, required=True, help="Markdown to write")
    args = parser.parse_args(arguments)
    fleet = devices.devices_of(devices.read(args.devices))
    for platform in args.platform:
        if not any(device.platform == platform for device in fleet):
            raise devices.missing_platform(platform, args.devices, args.label)
    if args.platform:
        fleet = [device for device in fleet if device.platform in args.platform]
    choices = [
        Choice(
            label,
            decode(tuple[Condition, ...], json.loads(conditions)),
            needs.of_program(Path(program)),
            manifests.read(Path(manifest)),
        )
        for label, program, manifest, conditions in args.variant
    ]
    chosen = prove(args.label, choices, fleet)
    described = table(args.label, choices, fleet, chosen)
    if args.budget:
        labels = [[choice.label for choice in fits] for fits in chosen]
        given = [budgets.parse(*texts) for texts in args.budget]
        described["budgets"] = budgets.rows(args.label, given, fleet, labels)
    write_json(args.table, described)
    write_text(args.page, page(described, choices))


if __name__ == "__main__":
    sys.exit(main())
