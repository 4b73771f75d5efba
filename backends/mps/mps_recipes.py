"""Recipes for Metal Performance Shaders (executorch/backends/apple/mps).

Upstream removed the backend after 1.4.1. What lowers is 1.4.1's Python, which works with the
exporter's ExecuTorch; a program needs a runtime of 1.4.1 or older, or another one that has the
backend still.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from etbuild import RecipeContext, static_shapes, write_out
from executorch.exir import EdgeCompileConfig
from executorch.exir.backend.backend_details import CompileSpec
from executorch.export import ExportRecipe, LoweringRecipe


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """32-bit floats."""
    return _made(ctx, "mps_fp32", use_fp16=False)


def fp16(ctx: RecipeContext) -> ExportRecipe:
    """16-bit floats; inputs and outputs keep their types."""
    return _made(ctx, "mps_fp16", use_fp16=True)


def _made(ctx: RecipeContext, name: str, use_fp16: bool) -> ExportRecipe:
    specs = [CompileSpec("use_fp16", bytes([use_fp16]))]
    return ExportRecipe(
        name=name,
        aten_transform_passes=[static_shapes(ctx.label, "MPS"), write_out("window_strides")],
        lowering_recipe=LoweringRecipe(
            partitioners=[_partition().MPSPartitioner(specs)],
            edge_compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
        ),
    )


def _partition() -> Any:
    """The module of 1.4.1, under the name that its parts import each other by."""
    apple = importlib.import_module("executorch.backends.apple")
    older = importlib.import_module("executorch_1_4_1.apple")
    for folder in older.__path__:
        if folder not in apple.__path__:
            apple.__path__.append(folder)
    with warnings.catch_warnings():
        # That it is deprecated is said in this file.
        warnings.simplefilter("ignore")
        return importlib.import_module("executorch.backends.apple.mps.partition")
