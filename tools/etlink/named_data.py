"""Named data: the bytes that a program loads by a key at run time.

`NamedData` is the one description of a keyed weight. Splitting a program makes it, the index of a
lowered program (`lowered.py`) and the manifest of a .ptd file (`manifest.py`) list it, matching
(`matching.py`) compares it, and the .ptd writer (`ptd.py`) takes it with the bytes.

A key has one of three forms. Delegates ask for the sha256 of the bytes, sometimes with a prefix. A
constant of the model has its qualified name. A constant without a name of its own gets
`content_key`, a hash of its bytes and its layout. The invariant: unless `by_name` is set, equal
keys mean equal bytes. A name says nothing of the bytes, and the runtime loads whatever a file holds
under it, so everything that pairs data by key must also compare `same_bytes`. A name that export
made by counting (`is_stable`) is never a key: in another program it names another tensor.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

# Names that export makes by counting.
_COUNTED = re.compile(
    r"(^|\.)_?(frozen_param|tensor_constant|lifted_tensor|lifted_tensor_constant|"
    r"prop_tensor_constant|scale|zero_point|w_scale)_?\d+$"
)
# How many dimensions and names a message shows.
_SHOWN_DIMENSIONS = 20


@dataclass(frozen=True)
class Layout:
    """Element type and shape of a tensor that the runtime itself loads.

    Attributes:
      scalar_type: number of the element type in scalar_type.fbs (6 is float32).
      sizes: elements per dimension.
      dim_order: dimensions from outer to inner.
    """

    scalar_type: int
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    def describe(self) -> str:
        """For messages: "type 6 [2, 3], dimensions [0, 1]"."""
        sizes, order = _shorten(self.sizes), _shorten(self.dim_order)
        return f"type {self.scalar_type} {sizes}, dimensions {order}"


@dataclass(frozen=True, kw_only=True)
class NamedData:
    """Bytes that a program loads by a key.

    Attributes:
      key: what the program looks it up by.
      sha256: of the bytes, hex; also the name of their blob in a lowered program.
      size: bytes.
      crc32: of the bytes: what a runner can check on every start.
      alignment: bytes, at least.
      dtype: how the program reads it ("float32", "qcint4", "scale", …); empty: unknown.
      shape: elements per dimension; empty: unknown, or a scalar.
      names: qualified names of the weights that use it, sorted.
      by_name: whether the key is a name, which says nothing of the bytes.
      layout: of a tensor that the runtime loads; None: a delegate loads it.
      target: the target whose lowering it comes from; empty in that target's own index.

    Example:
      NamedData(key="layers.0.weight", sha256="ab…", size=64, crc32=7, by_name=True)
    """

    key: str
    sha256: str
    size: int
    crc32: int
    alignment: int = 1
    dtype: str = ""
    shape: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    by_name: bool = False
    layout: Layout | None = None
    target: str = ""

    def same_bytes(self, other: NamedData) -> bool:
        """Tells whether a runtime would load the same tensor or blob from both."""
        return (self.sha256, self.layout) == (other.sha256, other.layout)

    def matches(self, patterns: Sequence[str]) -> bool:
        """Tells whether names or patterns ("layers.*.mask") cover every weight that uses it."""
        return bool(self.names) and all(
            any(_matches(name, pattern) for pattern in patterns) for name in self.names
        )

    def title(self) -> str:
        """Returns its name in messages: a weight's name, else its key."""
        return self.names[0] if self.names else self.key

    def describe(self) -> str:
        """Type, shape and size, for messages: "qcint4 [576, 576], 165888 bytes"."""
        shape = f" {list(self.shape)}" if self.shape else ""
        return f"{self.dtype or 'data'}{shape}, {self.size} bytes"


def titles(data: Iterable[NamedData]) -> dict[str, str]:
    """Key to what people call it, of data whose key says nothing; a title is of one key."""
    named = {d.key: d for d in data if d.names and d.key not in d.names}
    shared = Counter(d.title() for d in named.values())
    titled = {
        key: d.title() if shared[d.title()] == 1 else f"{d.title()} ({d.dtype or 'data'})"
        for key, d in named.items()
    }
    uses = Counter(titled.values())
    return {key: title for key, title in sorted(titled.items()) if uses[title] == 1}


def is_stable(name: str) -> bool:
    """Tells whether a qualified name is the model's own, not one that export made by counting."""
    return bool(name) and not _COUNTED.search(name)


def content_key(sha256: str, layout: Layout | None) -> str:
    """The key of a tensor without a name of its own: it says what the bytes are."""
    parts = [layout.scalar_type, layout.sizes, layout.dim_order] if layout else []
    text = json.dumps([sha256, *parts])
    return "constant_" + hashlib.sha256(text.encode()).hexdigest()


def unique_bytes(data: Iterable[NamedData]) -> int:
    """Bytes of data; equal ones count once."""
    return sum({d.sha256: d.size for d in data}.values())


def unmatched(patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    """The names or patterns that match none of some qualified names."""
    known = set(names)
    return [p for p in patterns if not any(_matches(name, p) for name in known)]


def _matches(name: str, pattern: str) -> bool:
    """Tells whether a pattern matches a name, which may hold special characters ("x[0]")."""
    return name == pattern or fnmatchcase(name, pattern)


def _shorten(numbers: Sequence[int]) -> str:
    """A list for messages; one of a malformed file may be endless."""
    shown = ", ".join(str(n) for n in numbers[:_SHOWN_DIMENSIONS])
    return f"[{shown}{', …' if len(numbers) > _SHOWN_DIMENSIONS else ''}]"
