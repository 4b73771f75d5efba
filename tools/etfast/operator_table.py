"""Reads ExecuTorch's table of operators by a parser in C, where upstream has one in Python.

Replaces `ruamel.yaml.YAML` while ExecuTorch is imported, which reads `edge.yaml` then.

Why it is equivalent: the text of the table is known by its digest, and a test compares what both
parsers make of it. Any other text goes to upstream's parser.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator
from typing import Any

from etlower.replacing import replaced

from etfast.unit import Unit

_MODULE = "executorch.exir.dialects.edge._ops"
# edge.yaml of ExecuTorch 1.0 and later.
_KNOWN = "5c599f3b58c6effd"


@contextlib.contextmanager
def _install() -> Iterator[None]:
    if _MODULE in sys.modules:
        yield
        return
    import ruamel.yaml

    upstream = ruamel.yaml.YAML
    with replaced((ruamel.yaml, "YAML", lambda typ: Parser(upstream(typ=typ)))):
        from executorch.exir.dialects.edge import _ops
    _ops.YAML = upstream
    yield


class Parser:
    """Parses the known table.

    Args:
      upstream: parses all else.
    """

    def __init__(self, upstream: Any) -> None:
        self._upstream = upstream

    def load(self, text: str) -> Any:
        """As the `load` of ruamel.yaml."""
        import yaml

        known = hashlib.sha256(text.encode()).hexdigest().startswith(_KNOWN)
        if known and yaml.__with_libyaml__:
            return yaml.load(text, yaml.CSafeLoader)
        return self._upstream.load(text)


UNIT = Unit(name="operator_table", relies_on={}, install=_install)
