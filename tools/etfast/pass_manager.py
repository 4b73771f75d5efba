"""Checks a program once between two passes of a delegate, where upstream checks it twice.

Replaces `check` and `__call__` of ExecuTorch's `ExportedProgramPassManager`. XNNPACK runs each of
its passes by a manager of its own, which checks the program before the pass and after it, so that
what one manager has checked last is what the next one checks first.

Why it is equivalent: a check changes nothing but the text of a graph module, which is made anew
here, too. What is left out is the check of a graph that this manager's predecessor found right and
that nobody has had in between; all that a pass makes is checked after the pass, as ever.
"""

from __future__ import annotations

import contextlib
from typing import Any

from etlower.replacing import replaced

from etfast.unit import Unit

# The attribute of a graph that says what of it was found right.
_CHECKED = "_etfast_checked"


def _state(program: Any) -> tuple[Any, ...]:
    graph = program.graph_module.graph
    return (program.graph_module, program.graph_signature, len(graph.nodes), *program.verifiers)


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.exir import pass_manager

    manager = pass_manager.ExportedProgramPassManager
    upstream_check, upstream_call = manager.check, manager.__call__
    before_passes = False

    def check(self: Any, exported_program: Any) -> None:
        nonlocal before_passes
        first, before_passes = before_passes, False
        graph = exported_program.graph_module.graph
        if first and graph.__dict__.get(_CHECKED) == _state(exported_program):
            exported_program.graph_module.recompile()
            return
        upstream_check(self, exported_program)
        graph.__dict__[_CHECKED] = _state(exported_program)

    def call(self: Any, exported_program: Any, override_verifiers: Any = None) -> Any:
        nonlocal before_passes
        before_passes = True
        return upstream_call(self, exported_program, override_verifiers)

    return replaced((manager, "check", check), (manager, "__call__", call))


UNIT = Unit(
    name="pass_manager",
    relies_on={
        "executorch.exir.pass_manager": {
            "ExportedProgramPassManager": "a99c4d82f4714459",
        },
    },
    install=_install,
)
