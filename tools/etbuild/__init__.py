"""The API of rules_executorch for the code of models and recipes.

This package imports neither torch nor executorch, so that a model's file can be imported, linted
and tested where they are missing.

Example (the entry point of an `et_model`):

    from etbuild import Method, ModelContext, ModelSpec

    def build(ctx: ModelContext) -> ModelSpec:
        net = Net(ctx.file("weights.safetensors"))
        return ModelSpec(methods={"forward": Method(net, (torch.zeros(1, 8),))})
"""

from etbuild.checkpoint import load_checkpoint
from etbuild.context import ModelContext, RecipeContext
from etbuild.errors import BuildError, LowerAgain
from etbuild.estimates import keep_estimate
from etbuild.exact.writing import write_out
from etbuild.folding import fold_constants
from etbuild.gguf_check import check_gguf
from etbuild.options import Options
from etbuild.plain_weights import plain_weights, weight_only
from etbuild.recipes import groups_fit, share_mutable_buffers, static_shapes
from etbuild.spec import Method, ModelSpec

__all__ = [
    "BuildError",
    "LowerAgain",
    "Method",
    "ModelContext",
    "ModelSpec",
    "Options",
    "RecipeContext",
    "check_gguf",
    "fold_constants",
    "groups_fit",
    "keep_estimate",
    "load_checkpoint",
    "plain_weights",
    "share_mutable_buffers",
    "static_shapes",
    "weight_only",
    "write_out",
]
