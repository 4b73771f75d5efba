"""Lowers nets in this process, on the fast path or the stock one."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import torch
from etbuild import Method, ModelSpec
from etfast import path
from etlower import stages
from etlower.progress import Progress
from executorch.export import ExportRecipe


def digest(spec: ModelSpec, recipe: ExportRecipe, lowering: str, skipped: int = 0) -> str:
    """The sha256 of a net's program.

    Args:
      spec: the net.
      recipe: made anew for each call: partitioners keep state.
      lowering: "fast" or "stock".
      skipped: how many units must have been skipped.
    """
    torch.manual_seed(0)
    with path.chosen(lowering) as used:
        manager = stages.run(spec, recipe, Progress(), "//t:net", etrecord=False)
        out = io.BytesIO()
        manager.write_to_file(out)
    assert len(used.skipped) == skipped, used.skipped
    return hashlib.sha256(out.getvalue()).hexdigest()


def spec(module: torch.nn.Module, *inputs: Any, **more: Any) -> ModelSpec:
    """A net of one method."""
    return ModelSpec({"forward": Method(module.eval(), inputs, **more)})
