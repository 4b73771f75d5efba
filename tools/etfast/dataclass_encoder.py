"""Looks the types of a payload's fields up once for each class.

Replaces `get_type_hints` where ExecuTorch writes dataclasses as JSON: upstream evaluates the
annotations of all fields of a class, for each field of each object of a delegate's payload.

Why it is equivalent: the hints depend on the class alone, and are only read.
"""

from __future__ import annotations

import contextlib
from typing import Any

from etlower.replacing import replaced
from executorch.exir._serialize import _dataclass

from etfast.unit import Unit


def _install() -> contextlib.AbstractContextManager[None]:
    upstream = _dataclass.get_type_hints
    known: dict[type, dict[str, Any]] = {}

    def hints(cls: type) -> dict[str, Any]:
        if cls not in known:
            known[cls] = upstream(cls)
        return known[cls]

    return replaced((_dataclass, "get_type_hints", hints))


UNIT = Unit(
    name="dataclass_encoder",
    relies_on={
        "executorch.exir._serialize._dataclass": {"_DataclassEncoder.default": "77bfb12b6e36dfdc"},
    },
    install=_install,
)
