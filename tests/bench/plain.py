"""A typical export script: one export in a separate process, with upstream's API.

`plain.py KIND WIDTH RECIPE OUTPUT`
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def export(kind: str, width: int, recipe: str, output: str) -> None:
    """Exports a network of nets.py with one of upstream's XNNPACK recipes.

    Args:
      kind: of network.
      width: of network.
      recipe: name of ours for upstream's recipe.
      output: the .pte to write.
    """
    import executorch.export
    import torch
    from executorch.backends.xnnpack.recipes import XNNPackRecipeType
    from nets import make

    types = {
        "fp32": XNNPackRecipeType.FP32,
        "int8_dynamic_act_int4_weight": (
            XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
        ),
        "int8_dynamic_per_channel": XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL,
        "int8_static_per_channel": XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL,
    }
    # As our exports have it: torch's fused attention is an operator without a kernel.
    torch.backends.mha.set_fastpath_enabled(False)
    net, inputs = make(kind, width)
    export_recipe = executorch.export.ExportRecipe.get_recipe(types[recipe])
    executorch.export.export(net, [inputs], export_recipe).save_to_pte(output)


if __name__ == "__main__":
    export(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
