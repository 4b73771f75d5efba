"""Names of a language model's methods, which say how many tokens a call reads.

`forward` and `prefill` read as many as they get, `prefill_8` exactly 8, `decode` one. In front may
stand an adapter's name: `poet_forward`. The runner's part is `tools/runner/llm/language_model.cc`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_NAME = re.compile(
    r"(?:([A-Za-z]\w*)_)??(forward|prefill|decode|prefill_([1-9][0-9]{0,6}))", re.ASCII
)


@dataclass(frozen=True)
class MethodName:
    """A method's name in its parts.

    Attributes:
      adapter: the name of the adapter that it is of; empty: of none.
      kind: "forward", "prefill", "prefill_8" or "decode".
      exact: how many tokens a call must have; None: any number.
    """

    adapter: str
    kind: str
    exact: int | None


def parse(name: str) -> MethodName | None:
    """Reads a method's name; None: it is no such name."""
    match = _NAME.fullmatch(name)
    if not match:
        return None
    exact = int(match[3]) if match[3] else 1 if match[2] == "decode" else None
    return MethodName(match[1] or "", match[2], exact)


def prompt_lengths(names: Collection[str]) -> list[int]:
    """Lists the numbers of tokens that methods `prefill_N` read, the least first."""
    parsed = filter(None, map(parse, names))
    return sorted(n.exact for n in parsed if n.exact and n.kind != "decode" and not n.adapter)


def prompt_method(names: Collection[str], count: int) -> str:
    """The method that reads a prompt of `count` tokens in one call; empty: there is none."""
    return next((n for n in (f"prefill_{count}", "prefill", "forward") if n in names), "")


def converse(names: Collection[str]) -> bool:
    """Returns whether a runner can read a prompt with these methods, and answer."""
    reads = "prefill" in names or prompt_lengths(names)
    return "forward" in names or ("decode" in names and bool(reads))
