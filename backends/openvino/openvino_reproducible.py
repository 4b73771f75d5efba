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
from typing import Any

from etbuild import BuildError
from etlower import operators
from executorch.backends.openvino import preprocess as upstream

_KEY = bytes.fromhex("3060700204083f6f7274787f")
_HEAD = struct.Struct("<6Q")
_GENERATED = re.compile(rb'name="([A-Z][A-Za-z0-9]*)_(\d+)"')


def install() -> None:
    """Has, for this process, upstream's backend number such names by their order."""
    inner = upstream.OpenvinoBackend.preprocess
    if getattr(inner, "is_reproducible", False):
        return

    def preprocess(cls: Any, program: Any, specs: Any) -> Any:
        try:
            made = inner(program, specs)
        except RuntimeError as error:
            said = str(error).strip().splitlines()[-1].strip().rstrip(".")
            names = {operators.name(node) for node in program.graph.nodes}
            own = sorted(n.removeprefix("aten.") for n in names if n.startswith("aten."))
            raise BuildError(
                f"OpenVINO's compiler fails on a part with {', '.join(own)}: {said}. It "
                "depends on this machine's processor.",
                "Write the layer otherwise (nn.MultiheadAttention or scaled_dot_product_attention "
                "for attention), or use another recipe for it (overrides).",
            ) from error
        made.processed_bytes = normalized(made.processed_bytes)
        return made

    preprocess.is_reproducible = True  # type: ignore[attr-defined]
    upstream.OpenvinoBackend.preprocess = classmethod(preprocess)


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
