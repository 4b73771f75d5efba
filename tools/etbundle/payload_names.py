"""Names of what the payloads of a backend may call, as a library of a runtime registers them.

Only payloads that name their operators need it: Vulkan's. The graphs of XNNPACK, TOSA, VGF, Core ML
and others have numbers of a schema or names of a fixed specification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from etbuild import operator_versions

from etbundle.short_strings import short_strings

# aten.add.Tensor, sym_size.int; a whole string, with a zero at its end.
_NAME = re.compile(rb"(?<![!-~])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*){1,2})\0", re.ASCII)
_DEFAULT = "default"
# Bytes that one instruction copies: copies of longer strings begin and end with these.
_REGISTER = 16


_FIRST_VERSIONS = {"VulkanBackend": operator_versions.VULKAN}


def first_version(backend: str, name: str) -> str:
    """Returns the first version of ExecuTorch whose backend has an operator; empty: unknown."""
    return _FIRST_VERSIONS.get(backend, {}).get(name, "")


def payload_names(data: bytes, backends: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The operators that payloads may name, by backend.

    Args:
      data: bytes of a library, an object file or an archive.
      backends: that it registers.

    Returns:
      Of those whose payloads name operators: the names, sorted.
    """
    return {backend: _READERS[backend](data) for backend in backends if backend in _READERS}


def _vulkan(data: bytes) -> tuple[str, ...]:
    """Vulkan's operators are called like those of edge programs: namespace, name and overload.

    Other strings have dots, too. So namespaces are those that have a default overload, and
    overloads those that such a namespace has.
    """
    found = list(_NAME.finditer(data))
    known = {match[1] for match in found}
    texts = {match[1] for match in found if not _is_part(match, known)}
    texts |= {text for text in short_strings(data) if _NAME.fullmatch(text + b"\0")}
    parts = [text.decode().split(".") for text in texts]
    namespaces = {name[0] for name in parts if len(name) == 3 and name[2] == _DEFAULT}
    whole = [name for name in parts if len(name) == 3 and name[0] in namespaces]
    overloads = {name[2] for name in whole}
    bare = [name for name in parts if len(name) == 2 and name[1] in overloads]
    return tuple(sorted(".".join(name) for name in whole + bare))


def _is_part(match: re.Match[bytes], known: set[bytes]) -> bool:
    """Tells whether a text is the end of a longer name, in a register's 16 bytes."""
    text = match[1]
    fills = match.start() % _REGISTER == 0 and len(text) % _REGISTER == 0
    return fills and any(name != text and name.endswith(text) for name in known)


_READERS: dict[str, Callable[[bytes], tuple[str, ...]]] = {"VulkanBackend": _vulkan}
