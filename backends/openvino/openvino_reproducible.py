"""Makes OpenVINO's payloads the same on machines with other CPUs.

The CPU plugin of OpenVINO 2025.4 exports six 64-bit numbers (offset and size of its own data, of
constants and of the graph), then these. The graph is XML, XORed with a fixed key. Names that
OpenVINO makes up (`Constant_4966`) end in a counter of the process, which passes for the machine's
instruction set move on.
"""

from __future__ import annotations

import itertools
import re
import struct

_KEY = bytes.fromhex("3060700204083f6f7274787f")
_HEAD = struct.Struct("<6Q")
_GENERATED = re.compile(rb'name="([A-Z][A-Za-z0-9]*)_(\d+)"')


def normalized(payload: bytes) -> bytes:
    """A payload whose generated names do not depend on earlier work of the process.

    Args:
      payload: what OpenVINO exports; formats of other plugins and versions come back as they are.
    """
    if len(payload) < _HEAD.size:
        return payload
    *others, offset, size = _HEAD.unpack_from(payload)
    text = _xored(payload[offset : offset + size])
    if offset + size != len(payload) or not text.startswith(b"<?xml"):
        return payload
    numbers: dict[bytes, int] = {}

    def renamed(match: re.Match[bytes]) -> bytes:
        return b'name="%s_%d"' % (match[1], numbers.setdefault(match[0], len(numbers)))

    text = _GENERATED.sub(renamed, text)
    return _HEAD.pack(*others, offset, len(text)) + payload[_HEAD.size : offset] + _xored(text)


def _xored(data: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(data, itertools.cycle(_KEY), strict=False))
