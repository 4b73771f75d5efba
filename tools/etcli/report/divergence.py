"""The page of a divergence: the tree of modules with a column for each stage.

It takes what `et divergence` writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etcli.report.modules import above
from etcli.report.page import render

# What bars show of a ratio: more is as good as none.
_MOST_DB = 80.0
_WHOLE = "the model"


def page(
    result: Mapping[str, Any],
    columns: Sequence[str] = (),
    changes: Sequence[Sequence[str]] = (),
) -> str:
    """The page.

    Args:
      result: what `et divergence` writes.
      columns: of the table of changes.
      changes: rows of what another build has otherwise.

    Raises:
      ValueError: a member is missing.
    """
    return render(
        "divergence.html.jinja",
        result=result,
        columns=columns,
        changes=changes,
        methods=[
            {"name": name, **method, "tree": tree(method)}
            for name, method in result["methods"].items()
        ],
    )


def tree(method: Mapping[str, Any]) -> dict[str, Any]:
    """The model as a row with the rows of its modules in it."""
    columns = method["columns"]
    compared = {module["name"]: module for module in method["modules"]}
    names = dict.fromkeys(part for name in compared for part in above(name))
    fallen = {fall["module"] for fall in method["firsts"].values()}
    rows: dict[str, dict[str, Any]] = {"": _row("", {}, columns, fallen)}
    for name in names:
        rows[name] = _row(name, compared.get(name, {}), columns, fallen)
        outer = name.rpartition(".")[0]
        if name:
            rows[outer]["rows"].append(rows[name])
    for name in reversed(list(rows)):
        row = rows[name]
        row["open"] = row["fallen"] or any(inner["open"] for inner in row["rows"])
    return rows[""]


def _row(
    name: str, module: Mapping[str, Any], columns: Sequence[str], fallen: set[str]
) -> dict[str, Any]:
    return {
        "name": name.rpartition(".")[2] or _WHOLE,
        "title": name,
        "cells": [_cell(module.get(column)) for column in columns],
        "fallen": name in fallen,
        "rows": [],
    }


def _cell(compared: Mapping[str, Any] | None) -> dict[str, Any]:
    if compared is None:
        return {"text": "–", "title": "", "width": 0.0}
    ratio, largest = compared["sqnr_db"], compared["largest_difference"]
    part = 1.0 if compared["note"] == "the same" else min(max((ratio or 0.0) / _MOST_DB, 0.0), 1.0)
    return {
        "text": compared["note"] if ratio is None else f"{ratio:.1f} dB",
        "title": "" if largest is None else f"largest difference {largest:.3g}",
        "width": round(100 * part, 1),
    }
