"""Decomposes operators that no partitioner takes and that no library has a kernel for.

A delegate comes first: it may take an operator whole that the runtime lacks. Partitioners that list
what they take are asked for their lists. What others take is seen in the lowered program: if it
still has such operators, the model is lowered once more, with their decompositions. Programs that
have none are lowered once, with upstream's own table.

A recipe's partitioner may ask for another attempt, too (`LowerAgain`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from typing import Any

import torch
from etbuild import LowerAgain
from executorch.exir.program import _program
from executorch.export import ExportRecipe
from torch._ops import OpOverload
from torch.export import ExportedProgram

from etlower import operators
from etlower.decompositions import LACKING, TABLE
from etlower.partitioners import partitioners_of_recipe
from etlower.replacing import replaced


def lowered(
    lower: Callable[[], Any], recipe: ExportRecipe, programs: Collection[ExportedProgram] = ()
) -> Any:
    """Lowers a model, with decompositions of what would have no kernel.

    Args:
      lower: runs upstream's stages; it may be called several times.
      recipe: whose partitioners come first; operators of its `preserve_ops` are left to the app.
      programs: that it lowers. Upstream drops from their tables what a delegate has taken; each
        attempt gets them whole.

    Returns:
      Upstream's EdgeProgramManager.
    """
    lowering = recipe.lowering_recipe
    config = lowering and lowering.edge_compile_config
    kept = {str(op) for op in (config.preserve_ops if config else ())}
    ours = {op for op in TABLE if str(op) not in kept}
    # What upstream's table has, too, is decomposed in any case, unless a partitioner keeps it.
    upstreams = _program._default_decomposition_table()
    chosen = {op for op in ours if op in upstreams or not _may_take(recipe, op)}
    tables = [program.constants for program in programs]
    if ours - chosen:
        # A backend whose partitioner lists what it takes never asks again, and its weights may go.
        tables += [program.state_dict for program in programs]
    whole = [(table, dict(table)) for table in tables]

    def restore() -> None:
        for table, values in whole:
            table.clear()
            table.update(values)

    def attempt() -> Any:
        try:
            return lower()
        except Exception:
            restore()
            raise

    edge = _with(chosen, attempt)
    while more := (ours - chosen) & _called(edge):
        chosen |= more
        restore()
        edge = _with(chosen, attempt)
    return edge


def _with(chosen: Collection[OpOverload], lower: Callable[[], Any]) -> Any:
    upstreams = _program._default_decomposition_table

    def table() -> dict[Any, Any]:
        return {**upstreams(), **{op: TABLE[op] for op in chosen}}

    with replaced((_program, "_default_decomposition_table", table)):
        while True:
            with contextlib.suppress(LowerAgain):
                return lower()


def _may_take(recipe: ExportRecipe, op: OpOverload) -> bool:
    """Tells whether a partitioner of the recipe may take an operator; some list none.

    With upstream's check of the graph, partitioners see operators of core ATen only.
    """
    lowering = recipe.lowering_recipe
    config = lowering and lowering.edge_compile_config
    checked = config is None or config._check_ir_validity
    if checked and torch.Tag.core not in op.tags:
        return False
    chosen = partitioners_of_recipe(recipe)
    lists = [getattr(each, "target_partitioner_configs", None) for each in chosen]
    name = str(op).removeprefix("aten.")
    return any(known is None or name in known for known in lists)


def _called(edge: Any) -> set[OpOverload]:
    graphs = (edge.exported_program(name).graph_module for name in sorted(edge.methods))
    by_name = {str(op): op for op in TABLE}
    called = set()
    for graph in graphs:
        for _, node in operators.walk(graph):
            op = by_name.get(operators.name(node))
            if op is not None and (op not in LACKING or LACKING[op](node)):
                called.add(op)
    return called
