"""Makes QNN's payloads a function of their contents.

ExecuTorch 1.5.1 writes before each context of QNN: a magic number (32 bits), a signature (64 bits)
and the context's size. The signature is the clock in nanoseconds. The runtime keeps open contexts
by it: methods whose payloads have one signature share a context. So here it is a hash of all
contexts of a program and of a context's number: equal only where all of them are.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

_MAGIC = 0x5678ABCD
_HEAD = struct.Struct("<IQQ")
_SIGNATURE = slice(4, 12)


def signed(payloads: Sequence[bytes]) -> list[bytes]:
    """Gives payloads signatures that follow from their contents.

    Args:
      payloads: of a program, in the order of its partitions and methods; those that share a
        context are equal. Payloads of other kinds come back as they are.
    """
    contents = [_without_signature(payload) for payload in payloads]
    program = hashlib.sha256()
    for content in contents:
        program.update(hashlib.sha256(content).digest())
    # Equal signatures of upstream's mean one context.
    numbers: dict[bytes, int] = {}
    made = []
    for payload, content in zip(payloads, contents, strict=True):
        if content is payload:
            made.append(payload)
            continue
        number = numbers.setdefault(payload[_SIGNATURE], len(numbers))
        digest = hashlib.sha256(b"%d\0%s" % (number, program.digest())).digest()
        # The runtime takes it for a signed number.
        made.append(payload[:4] + digest[:7] + b"\0" + payload[12:])
    return made


def _without_signature(payload: bytes) -> bytes:
    """The payload with zeros for its signature; itself, if it has none."""
    if len(payload) < _HEAD.size:
        return payload
    magic, _, size = _HEAD.unpack_from(payload)
    if magic != _MAGIC or size > len(payload) - _HEAD.size:
        return payload
    return payload[:4] + bytes(8) + payload[12:]
