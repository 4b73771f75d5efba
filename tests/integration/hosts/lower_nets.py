"""Lowers small networks in this process, and writes their programs.

`lower_nets.py FOLDER KIND-WIDTH-RECIPE…`: networks of tests/bench, with upstream's recipes.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(folder: Path, names: list[str]) -> None:
    """Writes `<name>.pte` for each name."""
    import torch
    from etbuild import Method, ModelSpec
    from etfast import path
    from etlower import stages
    from etlower.progress import Progress
    from executorch.backends.xnnpack.recipes import XNNPackRecipeType
    from executorch.export import ExportRecipe
    from nets import make

    types = {
        "fp32": XNNPackRecipeType.FP32,
        "int4": XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR,
        "int8": XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL,
    }
    torch.backends.mha.set_fastpath_enabled(False)
    for name in names:
        kind, width, recipe = name.split("-")
        torch.manual_seed(0)
        net, inputs = make(kind, int(width))
        spec = ModelSpec({"forward": Method(net, inputs)})
        with path.chosen("fast"):
            recipe_of_upstream = ExportRecipe.get_recipe(types[recipe])
            manager = stages.run(spec, recipe_of_upstream, Progress(), "//t:net", etrecord=False)
        with (folder / f"{name}.pte").open("wb") as out:
            manager.write_to_file(out)
        print(f"{name}: lowered", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
