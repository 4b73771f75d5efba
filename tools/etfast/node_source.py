"""Shares a node's origin among its copies, where upstream copies all of it each time.

Adds `NodeSource.__deepcopy__`, and replaces `copy.deepcopy` where a NodeSource is made. Each
retracing of a graph puts a NodeSource around the ones before it, and copies these deeply: the
hundredth retracing copies a hundred for each node.

Why it is equivalent: nothing changes a NodeSource once it is made, but for what it keeps of its own
text (`_dict`, `_action_string`), which is computed from it.
"""

from __future__ import annotations

import contextlib
import copy
from types import SimpleNamespace
from typing import Any

from etlower.replacing import replaced
from torch.fx import traceback

from etfast.unit import Unit


def _itself(source: Any, memo: dict[int, Any]) -> Any:
    return source


def _deepcopy(value: Any) -> Any:
    """As `copy.deepcopy`; at once where a list holds nothing but sources."""
    if type(value) is list and all(type(item) is traceback.NodeSource for item in value):
        return list(value)
    return copy.deepcopy(value)


def _install() -> contextlib.AbstractContextManager[None]:
    return replaced(
        (traceback.NodeSource, "__deepcopy__", _itself),
        (traceback, "copy", SimpleNamespace(copy=copy.copy, deepcopy=_deepcopy)),
    )


UNIT = Unit(
    name="node_source",
    relies_on={
        "torch.fx.traceback": {
            "NodeSource": "0e29c3d55d6345c3",
        },
    },
    install=_install,
)
