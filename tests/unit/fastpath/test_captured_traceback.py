"""Nodes say the same of where they were made."""

from __future__ import annotations

import nets
import torch
from etfast import path
from torch.fx import proxy


def traces() -> list[str]:
    """Of each node of an exported net, without addresses."""
    method = nets.attention().methods["forward"]
    program = torch.export.export(method.module, method.example_inputs)
    return [str(node.meta.get("stack_trace")) for node in program.graph.nodes]


def test_same_traces() -> None:
    upstream = traces()
    with path.installed(path.units(["captured_traceback"])) as used:
        assert used.active == ["captured_traceback"]
        assert traces() == upstream
    assert any("in forward" in trace for trace in upstream)


def test_frames() -> None:
    """Files, lines and names of the caller's frames, also of code that has no file."""

    def both() -> tuple[list[object], list[object]]:
        here = [stacks.extract().summary(), upstream.extract().summary()]
        return tuple([(f.filename, f.lineno, f.name) for f in one] for one in here)

    upstream = proxy.CapturedTraceback
    with path.installed(path.units(["captured_traceback"])):
        stacks = proxy.CapturedTraceback
        names: dict[str, object] = {"both": both}
        exec("def synthetic():\n    return [both() for _ in range(1)][0]", names)
        mine, theirs = names["synthetic"]()
    assert mine == theirs
    assert ("<string>", 2, "synthetic") in mine
