"""Common parts of tests of the exporter's stages; needs torch and executorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import xnnpack_recipes
from etbuild import Method, ModelSpec, Options, RecipeContext
from etlower import lower, stages
from etlower.progress import Progress
from executorch.export import ExportRecipe
from executorch.runtime import Runtime

lower.make_deterministic()


def xnnpack(name: str, **options: str) -> ExportRecipe:
    """One of the recipes of //backends/xnnpack."""
    label = f"//backends/xnnpack:{name}"
    context = RecipeContext(Options(options, label), label)
    return getattr(xnnpack_recipes, name)(context)


def lowered(methods: Mapping[str, Method], recipe: ExportRecipe | None = None, **spec: Any) -> Any:
    """Upstream's program manager of a model; without a recipe a portable one."""
    return run(ModelSpec(methods, **spec), recipe or ExportRecipe(name="portable"))


def run(spec: ModelSpec, recipe: ExportRecipe, watch: stages.Watch | None = None) -> Any:
    """Upstream's program manager of the model //m:net, lowered as the exporter does by default."""
    return stages.run(spec, recipe, Progress(), "//m:net", etrecord=False, watch=watch)


def outputs(manager: Any, folder: Path, method: str, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Runs a method of a program in ExecuTorch's runtime."""
    path = folder / "program.pte"
    with open(path, "wb") as out:
        manager.write_to_file(out)
    program = Runtime.get().load_program(path)
    loaded = program.load_method(method)
    assert loaded is not None
    return [value.clone() for value in loaded.execute(list(inputs))]


def noise(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference in proportion to the largest wanted value."""
    assert got.shape == expected.shape
    return float((got - expected).abs().max() / expected.abs().max())
