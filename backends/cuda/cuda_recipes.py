"""Recipes for NVIDIA's GPUs by AOTInductor (executorch/backends/cuda); upstream has none for it.

They lower with a CUDA build of torch and Triton, which the default exporter lacks, on a
machine that has a GPU: the compiler measures kernels on it. What it chooses can differ from machine
to machine.
"""

from __future__ import annotations

from typing import Any

import torch
from etbuild import BuildError, RecipeContext
from executorch.exir import EdgeCompileConfig
from executorch.exir.backend.backend_details import CompileSpec
from executorch.export import ExportRecipe, LoweringRecipe
from vendor_sdk import Sdk

# Options that upstream takes as ON or OFF: name to upstream's, and the default.
_SWITCHES = {
    "emulate_precision_casts": ("emulate_precision_casts", True),
    "low_memory": ("low_memory_mode", False),
    "max_autotune": ("max_autotune", True),
    "triton_kernels": ("triton_kernel_mode", True),
}


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """The precision of the weights.

    Options:
      device: the GPU that the program runs on; default "cuda:0".
      emulate_precision_casts: whether intermediate values are rounded as PyTorch does it; default
        true.
      low_memory: whether compiling takes less of the GPU's memory; default false.
      max_autotune: whether kernels are chosen by measuring; default true.
      methods: names of the model's methods, with commas; default forward.
      platform: linux (default) or windows: what the program runs on.
      triton_kernels: whether upstream's own kernels in Triton are used; default true.
    """
    options = ctx.options
    device = options.text("device", "cuda:0")
    platform = options.text("platform", "linux")
    methods = [part.strip() for part in options.text("methods", "forward").split(",")]
    switches = {
        name: options.boolean(option, default=default)
        for option, (name, default) in _SWITCHES.items()
    }
    upstream = _upstream(ctx)
    specs = [
        CompileSpec("platform", platform.encode()),
        CompileSpec("target_device", device.encode()),
        *(CompileSpec(name, b"ON" if on else b"OFF") for name, on in switches.items()),
    ]

    def partitioner(method: str) -> Any:
        named = upstream["cuda_backend"].CudaBackend.generate_method_name_compile_spec(method)
        return upstream["cuda_partitioner"].CudaPartitioner([named, *specs])

    if len(methods) == 1:
        partitioners: Any = [partitioner(methods[0])]
    else:
        partitioners = {method: [partitioner(method)] for method in methods}
    return ExportRecipe(
        name="cuda_fp32",
        lowering_recipe=LoweringRecipe(
            partitioners=partitioners,
            edge_compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
        ),
    )


def _upstream(ctx: RecipeContext) -> dict[str, Any]:
    """Upstream's modules, if the exporter and the machine can compile for CUDA."""
    sdk = Sdk(ctx.label, "cuda", "NVIDIA's CUDA toolkit")
    sdk.file("bin/ptxas")
    if torch.version.cuda is None:
        raise BuildError(
            f"{ctx.label}: the exporter's torch {torch.__version__} is a CPU build; lowering for "
            "CUDA needs a CUDA build and Triton.",
            "Make an exporter of your own: executorch.exporter(locks = …) in MODULE.bazel, with a "
            "lock that has them.",
        )
    if not torch.cuda.is_available():
        raise BuildError(
            f"{ctx.label}: torch finds no GPU with CUDA on this machine, and lowering for CUDA "
            "compiles on one.",
            "Build where a GPU is; in a sandbox or on remote machines it must be visible.",
        )
    names = ("cuda_backend", "cuda_partitioner")
    return {name: sdk.imported("executorch.backends.cuda." + name) for name in names}
