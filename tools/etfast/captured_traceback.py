"""Reads a node's origin from Python's frames, where upstream has all of them described.

Replaces `CapturedTraceback` as `torch.fx.proxy` uses it: for each node of an export it describes a
hundred frames, nearly all of which it drops right away.

Why it is equivalent: the frames, their order, and their files, lines and names are the same. The
descriptions are shared by nodes of the same line; nothing changes them but for the text of the line
that each reads on first use, and that of a file on disk stays the same during a request. Code that
torch makes up as it goes has files that are none, which are described anew each time.
"""

from __future__ import annotations

import contextlib
import sys
from traceback import FrameSummary, StackSummary

from etlower.replacing import replaced

from etfast.unit import Unit


class _Stacks:
    """The replacement of `CapturedTraceback` in `torch.fx.proxy`."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], FrameSummary] = {}

    def extract(self) -> _Stack:
        """The frames of the caller, the innermost last."""
        frame = sys._getframe(1)
        frames = []
        while frame is not None:
            code = frame.f_code
            frames.append(self._described(code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        frames.reverse()
        return _Stack(frames)

    def _described(self, file: str, line: int, name: str) -> FrameSummary:
        if file.startswith("<"):
            return FrameSummary(file, line, name)
        key = (file, line, name)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = FrameSummary(file, line, name)
        return known


class _Stack:
    def __init__(self, frames: list[FrameSummary]) -> None:
        self._frames = frames

    def summary(self) -> StackSummary:
        """As upstream's `CapturedTraceback.summary`."""
        return StackSummary(self._frames)


def _install() -> contextlib.AbstractContextManager[None]:
    from torch.fx import proxy

    return replaced((proxy, "CapturedTraceback", _Stacks()))


UNIT = Unit(
    name="captured_traceback",
    relies_on={
        "torch.fx.proxy": {
            "TracerBase.create_node": "a31a10139c2e",
            "TracerBase._filter_traceback_frames": "5e043e2ced65",
        },
        "torch.utils._traceback": {
            "CapturedTraceback": "c8b902af3f82",
            "_extract_symbolized_tb": "7b565cf94c56",
        },
    },
    install=_install,
)
