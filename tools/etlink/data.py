"""The data of a lowered program that can lie outside of it: one list over delegates and tensors."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from etbuild.errors import BuildError

from etlink.lowered import Index, Lowered
from etlink.ptd import Entry, Layout
from etlink.tables import SCALAR_TYPES

# Names that export makes up by counting: another program has other tensors under them.
_COUNTED = re.compile(
    r"(^|\.)_?(frozen_param|tensor_constant|lifted_tensor|lifted_tensor_constant|"
    r"prop_tensor_constant|scale|zero_point|w_scale)_?\d+$"
)


def is_stable(name: str) -> bool:
    """Whether a qualified name is the model's own, and not one that export counted up."""
    return bool(name) and not _COUNTED.search(name)


@dataclass(frozen=True)
class Datum:
    """Bytes that a program loads by a key.

    Attributes:
      key: the key.
      blob: sha256 of the bytes, hex.
      size: bytes.
      crc32: of the bytes.
      alignment: bytes.
      layout: of a tensor that the runtime loads; None: a delegate loads it.
      names: qualified names of the weights that use it.
      dtype: "float32", "qcint4", "scale", …; empty: unknown.
      shape: elements per dimension; empty: unknown, or a scalar.
      by_name: whether the key is a name, which says nothing of the bytes.
      tensors: (plan, value) of the tensors that are loaded by it.
    """

    key: str
    blob: str
    size: int
    crc32: int
    alignment: int = 1
    layout: Layout | None = None
    names: tuple[str, ...] = ()
    dtype: str = ""
    shape: tuple[int, ...] = ()
    by_name: bool = False
    tensors: tuple[tuple[int, int], ...] = ()

    def entry(self, lowered: Lowered) -> Entry:
        """What stands for it in a .ptd file."""
        piece = lowered.piece(self.blob, self.size)
        return Entry(self.key, self.blob, piece, self.alignment, self.layout)

    def described(self) -> str:
        """Type, shape and size, for messages: "qcint4 [576, 576], 165888 bytes"."""
        shape = f" {list(self.shape)}" if self.shape else ""
        return f"{self.dtype or 'data'}{shape}, {self.size} bytes"

    def title(self) -> str:
        """What to call it in messages: a weight's name, else its key."""
        return self.names[0] if self.names else self.key


def data_of(index: Index) -> list[Datum]:
    """All data of a program that can lie outside of it, sorted by key.

    Raises:
      BuildError: two data of one key have different bytes.
    """
    found: dict[str, Datum] = {}
    for datum in [*_delegated(index), *_portable(index)]:
        before = found.get(datum.key)
        if before is not None and (before.blob, before.layout) != (datum.blob, datum.layout):
            raise BuildError(
                f'{index.label}: two data of the name "{datum.key}" have different bytes: '
                f"sha256 {before.blob} and {datum.blob}.",
                "Rename one of the parameters, or embed the weights.",
            )
        found.setdefault(datum.key, datum)
    return sorted(found.values(), key=lambda d: d.key)


def _delegated(index: Index) -> Iterable[Datum]:
    for item in index.named_data:
        yield Datum(
            item.key,
            item.blob,
            item.size,
            item.crc32,
            item.alignment,
            item.layout,
            item.names,
            item.dtype,
            item.shape,
            by_name=item.blob not in item.key,
        )


def _portable(index: Index) -> Iterable[Datum]:
    constants = {c.buffer: c for c in index.constants}
    users: dict[str, list[tuple[int, int]]] = {}
    found: dict[str, Datum] = {}
    for tensor in index.tensors:
        constant = constants[tensor.buffer]
        if not constant.size:
            continue
        key = tensor.name if tensor.by_name else content_key(constant.blob, tensor.layout)
        users.setdefault(key, []).append((tensor.plan, tensor.value))
        datum = Datum(
            key,
            constant.blob,
            constant.size,
            constant.crc32,
            index.tensor_alignment,
            tensor.layout,
            (tensor.name,) if tensor.name else (),
            SCALAR_TYPES[tensor.layout.scalar_type][0],
            tensor.layout.sizes,
            by_name=tensor.by_name,
        )
        before = found.setdefault(key, datum)
        if (before.blob, before.layout) != (datum.blob, datum.layout):
            raise BuildError(
                f'{index.label}: two tensors of the name "{key}" have different bytes: '
                f"sha256 {before.blob} ({before.described()}) and {datum.blob} "
                f"({datum.described()}).",
                "Rename one of the parameters, or embed the weights.",
            )
    for key, datum in found.items():
        yield Datum(**{**vars(datum), "tensors": tuple(sorted(users[key]))})


def unique_bytes(data: Iterable[Datum]) -> int:
    """Bytes of data, equal ones once."""
    return sum({d.blob: d.size for d in data}.values())


def content_key(blob: str, layout: Layout | None) -> str:
    """The key of a tensor without a name of its own: it says what the bytes are."""
    parts = [layout.scalar_type, layout.sizes, layout.dim_order] if layout else []
    text = json.dumps([blob, *parts])
    return "constant_" + hashlib.sha256(text.encode()).hexdigest()
