"""Each refusal that the matrix lists fails the lowering, with the sentence that it says there."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import more_nets
import pytest
from etbuild import BuildError, ModelContext, Options, RecipeContext
from etlower import stages
from etlower.progress import Progress

REFUSED = json.loads(Path("tests/backends/matrix.json").read_text())["refused"]


@pytest.mark.parametrize("row", REFUSED, ids=lambda r: f"{r['net']}_{r['backend']}_{r['recipe']}")
def test_refused(row: dict[str, Any]) -> None:
    context = RecipeContext(Options({}, "//:recipe"), "//:recipe")
    module = importlib.import_module(f"{row['backend']}_recipes")
    recipe = getattr(module, row["recipe"])(context)
    spec = more_nets.build(ModelContext({"net": row["net"]}))
    with pytest.raises(BuildError) as refused:
        stages.run(spec, recipe, Progress(), "//:net", etrecord=False)
    assert row["reason"] in refused.value.what
