"""Answers what rules and passes ask about sizes that vary: for all of them, not for the example.

torch.export keeps the sizes of its example, and torch answers by them whatever code asks of a graph
later, such as `x.shape[1] == 64`. It takes the size for a constant then, or the code does what is
right for this size alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Graph


@contextlib.contextmanager
def answered_for_all(*graphs: Graph) -> Iterator[None]:
    """Has sizes differ that may differ, in what the body asks.

    Not where torch exports, as quantizers do with patterns: it compares what it learns with ranges.

    Args:
      graphs: whose inputs have the sizes; others, as of weights, are what they are.

    Example:

        with size_questions.answered_for_all(program.graph):
            is_square = x.shape[0] == x.shape[1]
    """
    import sympy
    import torch
    from torch.fx.experimental import symbolic_shapes

    varying = {symbol for graph in graphs for symbol in _symbols(graph)}
    env = symbolic_shapes.ShapeEnv
    upstream = env._evaluate_expr
    # Torch names the place that asked, which is not this one.
    symbolic_shapes.uninteresting_files().add(__file__)

    def evaluate(self: Any, question: Any, *args: Any, **kwargs: Any) -> Any:
        is_equation = isinstance(question, sympy.Eq | sympy.Ne)
        is_asked = is_equation and not torch.compiler.is_exporting()
        symbols = question.free_symbols if is_asked else set()
        if symbols and symbols <= varying & self.backed_var_to_val.keys():
            known = self._maybe_evaluate_static(question)
            return sympy.sympify(isinstance(question, sympy.Ne)) if known is None else known
        return upstream(self, question, *args, **kwargs)

    env._evaluate_expr = evaluate
    try:
        yield
    finally:
        env._evaluate_expr = upstream


def _symbols(graph: Graph) -> Iterator[Any]:
    """The symbols of the sizes of a graph's inputs."""
    import torch

    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        for size in sizes:
            if isinstance(size, torch.SymInt):
                yield from size.node.expr.free_symbols
