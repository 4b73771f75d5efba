"""Numbers for people."""

from __future__ import annotations


def human_flops(count: int) -> str:
    """Floating-point operations for people: "1.5 GFLOP"."""
    number = float(count)
    for unit in ("", "k", "M", "G", "T"):
        if number < 1000 or unit == "T":
            return f"{number:.1f} {unit}FLOP" if unit else f"{count} FLOP"
        number /= 1000
    return str(count)


def percent(share: float | None) -> str:
    """A share: "99.3%"; "–": of nothing."""
    return "–" if share is None else f"{share:.1f}%"
