"""Numbers for people."""

from __future__ import annotations

from etlink.amounts import human_bytes as size

__all__ = ["change", "shape", "shortened", "size"]


def change(before: int, after: int) -> str:
    """A difference of bytes: "+1.5 kB", "−20 B", "0 B"."""
    difference = after - before
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    return sign + size(abs(difference))


def shape(dtype: str, sizes: object) -> str:
    """A tensor's type and shape: "float32 [1, 64]"; empty: nothing is known."""
    numbers = list(sizes) if isinstance(sizes, (list, tuple)) else []
    return f"{dtype} [{', '.join(str(n) for n in numbers)}]" if dtype else ""


def shortened(name: str, most: int = 60) -> str:
    """A name that may be very long, such as a key of two hashes."""
    return name if len(name) <= most else f"{name[: most - 13]}…{name[-12:]}"
