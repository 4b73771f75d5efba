"""Answers what rules and passes ask about sizes that vary: for all of them, not for the example.

torch.export keeps the sizes of its example, and torch answers by them whatever code asks of a graph
later, such as `x.shape[1] == 64`. It takes the size for a constant then, or the code does what is
right for this size alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def answered_for_all() -> Iterator[None]:
    """Has sizes differ that may differ, in what the body asks of a graph.

    Not while a model is exported, where torch compares what it learns with the ranges.

    Example:

        with size_questions.answered_for_all():
            is_square = x.shape[0] == x.shape[1]
    """
    import sympy
    from torch.fx.experimental import symbolic_shapes

    env = symbolic_shapes.ShapeEnv
    upstream = env._evaluate_expr
    # Torch names the place that asked, which is not this one.
    symbolic_shapes.uninteresting_files().add(__file__)

    def evaluate(self: Any, question: Any, *args: Any, **kwargs: Any) -> Any:
        is_equation = isinstance(question, sympy.Eq | sympy.Ne)
        symbols = question.free_symbols
        if is_equation and symbols and symbols <= self.backed_var_to_val.keys():
            known = self._maybe_evaluate_static(question)
            return sympy.sympify(isinstance(question, sympy.Ne)) if known is None else known
        return upstream(self, question, *args, **kwargs)

    env._evaluate_expr = evaluate
    try:
        yield
    finally:
        env._evaluate_expr = upstream
