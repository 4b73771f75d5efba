"""Where a node came from is shared by its copies, where upstream copies all of it each time.

Replaces nothing; adds `NodeSource.__deepcopy__`. Each retracing of a graph puts a NodeSource around
the ones before it, and copies these deeply: the hundredth retracing copies a hundred for each node.

Why it is equivalent: nothing changes a NodeSource once it is made, but for what it keeps of its own
text (`_dict`, `_action_string`), which is computed from it.
"""

from __future__ import annotations

import contextlib
from typing import Any

from torch.fx import traceback

from etfast.unit import Unit, replaced


def _itself(source: Any, memo: dict[int, Any]) -> Any:
    return source


def _install() -> contextlib.AbstractContextManager[None]:
    return replaced((traceback.NodeSource, "__deepcopy__", _itself))


UNIT = Unit(
    name="node_sources",
    relies_on={
        "torch.fx.traceback": {
            "NodeSource": "0e29c3d55d6345c3",
        },
    },
    install=_install,
)
