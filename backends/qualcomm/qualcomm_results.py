"""Has parts for QNN give their results in the order in which QNN makes them.

The runtime (ExecuTorch 1.5.1) hands QNN's results out by their places. QNN makes all results of an
operator at once, for instance the pieces of a split; upstream sorts a part's nodes so that another
operator may stand between that one and what picks its results. Each then had another's numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from etlower.replacing import replace
from executorch.backends.qualcomm import qnn_preprocess
from executorch.backends.qualcomm.python import PyQnnManagerAdaptor
from executorch.exir import lowered_backend_module
from torch.export import ExportedProgram
from torch.fx import Node


def install() -> None:
    """Has, for this process, upstream sort parts so, and checks what QNN gets."""
    replace(lowered_backend_module, "topo_sort", _sorted)
    replace(qnn_preprocess, "_check_io_binding", _check)


def _sorted(inner: Callable[[Any], Iterable[Node]], nodes: Any) -> list[Node]:
    """Sorts a part's nodes; what picks an operator's results is right behind it."""
    own, found = set(nodes), []
    for node in inner(nodes):
        if node.target is operator.getitem and node.args[0] in own:
            continue
        picked = [u for u in node.users if u in own and u.target is operator.getitem]
        found += [node, *sorted(picked, key=lambda user: user.args[1])]
    return found


def _check(
    inner: Callable[..., None], program: ExportedProgram, wrappers: Mapping[str, Mapping[int, Any]]
) -> None:
    """Checks results as upstream does, and their order; what fails is searched for.

    Raises:
      RuntimeError: the runtime would take one result for another.
    """
    inner(program, wrappers)
    made = [
        (node, place)
        for node, of_node in wrappers.items()
        for place, wrapper in of_node.items()
        if _is_result(PyQnnManagerAdaptor.PyQnnTensorWrapper(wrapper).GetName())
    ]
    [output] = program.graph.find_nodes(op="output")
    changed = program.graph_signature.buffers_to_mutate
    expected = [_place(node) for node in output.args[0] if node.name not in changed]
    if made != expected:
        raise RuntimeError(f"QNN has the results {made}, expected {expected}.")


def _is_result(name: str) -> bool:
    return name.startswith("output_") and "mutbuf_" not in name


def _place(node: Node) -> tuple[str, int]:
    """The operator that makes a result, and its place among the operator's."""
    if node.target is operator.getitem:
        source, place = node.args
        return source.name, int(place)  # type: ignore[union-attr, arg-type]
    return node.name, 0
