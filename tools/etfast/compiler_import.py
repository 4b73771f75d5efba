"""Skips the import of torch's compiler for a pass that finds nothing to do.

ExecuTorch imports `torch.export._remove_auto_functionalized_pass`, which imports torch's compiler
for one function: 500 modules, 0.7 s and 20 MB of each process that lowers. Replaces that function,
`decompose_auto_functionalized`, as the pass sees it; the module that it comes from is not imported
then.

Why it is equivalent: upstream's function looks for three operators, and removes reads of attributes
that nothing uses. If a graph has any of these, the compiler is imported, and upstream's function
called. Else it only notes in the nodes what its own patterns ask for later, and checks the graph.
The sources of the pass and of the function's module are known by their digests; others are
imported as upstream does.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from etfast.unit import Unit

_PASS = "torch.export._remove_auto_functionalized_pass"
_COMPILER = "torch._inductor.fx_passes.post_grad"
# By module. Unit.relies_on would import them.
_KNOWN = {
    _PASS: "b6a697063b46b977",
    _COMPILER: "a1779017efc75841",
}
_LOOKED_FOR = frozenset({"auto_functionalized", "auto_functionalized_v2", "control_deps"})


def is_known(module: str) -> bool:
    """Tells whether a module of _KNOWN has the source that this unit was written for."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return False
    digest = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    return digest.startswith(_KNOWN[module])


def decompose_auto_functionalized(graph: Any) -> None:
    """As upstream's, which is imported if it has something to do."""
    for node in graph.nodes:
        is_unused = node.op == "get_attr" and not node.users
        is_operator = node.op == "call_function"
        if is_unused or is_operator and getattr(node.target, "__name__", "") in _LOOKED_FOR:
            importlib.import_module(_COMPILER).decompose_auto_functionalized(graph)
            return
    graph.lint()


@contextlib.contextmanager
def _install() -> Iterator[None]:
    if _PASS not in sys.modules and _COMPILER not in sys.modules and all(map(is_known, _KNOWN)):
        replacement = ModuleType(_COMPILER)
        replacement.decompose_auto_functionalized = decompose_auto_functionalized  # type: ignore[attr-defined]
        sys.modules[_COMPILER] = replacement
        try:
            importlib.import_module(_PASS)
        finally:
            del sys.modules[_COMPILER]
    yield


UNIT = Unit(name="compiler_import", relies_on={}, install=_install)
