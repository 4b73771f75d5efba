"""Parts for the builders of recipes: a layer filter, shared state, a refusal of dynamic shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from etbuild.errors import BuildError

if TYPE_CHECKING:
    import torch
    from executorch.export import ExportRecipe
    from torch.export import ExportedProgram
    from torch.fx import GraphModule


@dataclass
class LayerFilter:
    """A torchao filter that leaves small layers alone and remembers why.

    Attributes:
      multiple: the columns of a layer (`in_features`) must be a multiple of this.
      also: a further condition; None: none.
      skipped: what was left alone: qualified name to reason.
      taken: qualified names of the layers that were quantized.
    """

    multiple: int
    also: Callable[[torch.nn.Module, str], bool] | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)

    def __call__(self, module: torch.nn.Module, name: str) -> bool:
        """Tells whether torchao may quantize this layer."""
        from torchao.quantization.quant_api import _is_linear

        if not _is_linear(module):
            return False
        columns = module.in_features
        if self.also is not None and not self.also(module, name):
            self.skipped[name] = "left out by the recipe's own filter"
        elif columns % self.multiple:
            self.skipped[name] = f"in_features = {columns} is not a multiple of {self.multiple}"
        else:
            self.taken.append(name)
            return True
        return False


def groups_fit(multiple: int) -> LayerFilter:
    """A filter for `AOQuantizationConfig` that selects the linear layers whose columns fit.

    Args:
      multiple: columns in a group, or the step that a backend's kernels need: a layer whose
        `in_features` is not a multiple of it stays unquantized.

    Returns:
      The filter. A program's report lists the layers that stayed unquantized.

    Example:

        AOQuantizationConfig(config, filter_fn=groups_fit(32))
    """
    return LayerFilter(multiple)


def share_mutable_buffers(recipe: ExportRecipe, label: str) -> ExportRecipe:
    """Lets the methods of a program share their mutable buffers, for example a KV cache.

    All methods that change a buffer use the same memory for it. The runtime must share that
    memory between methods, too: `Module(…, share_memory_arenas = true)` in
    C++.

    Args:
      recipe: an executorch.export.ExportRecipe; it is changed.
      label: of the recipe, for messages.

    Returns:
      The recipe.

    Raises:
      BuildError: the recipe plans memory in a way that can't be combined with this.

    Example (a recipe's builder):

        def fp32(ctx: RecipeContext) -> ExportRecipe:
            recipe = ExportRecipe.get_recipe(XNNPackRecipeType.FP32)
            if ctx.options.boolean("share_mutable_buffers", False):
                share_mutable_buffers(recipe, ctx.label)
            return recipe
    """
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    config = recipe.executorch_backend_config or ExecutorchBackendConfig()
    planning = config.memory_planning_pass
    # Exactly this class: one that extends it, or a dict by method, has a plan of its own.
    if type(planning) is not MemoryPlanningPass or not planning.alloc_mutable_buffers:
        raise BuildError(
            f'{label}: option "share_mutable_buffers": the recipe has a memory planning of its own '
            f"({type(planning).__name__}), expected ExecuTorch's MemoryPlanningPass that allocates "
            "mutable buffers.",
            "Leave the option out, and let that planning share the buffers.",
        )
    # A new pass: upstream's default one is an object that all configurations have in common.
    shared = MemoryPlanningPass(
        memory_planning_algo=planning.memory_planning_algo,
        allow_lifetime_and_storage_overlap=planning.allow_lifetime_and_storage_overlap,
        alloc_graph_input=planning.alloc_graph_input,
        alloc_graph_output=planning.alloc_graph_output,
        share_mutable_buffers=True,
        alignment=planning.alignment,
    )
    recipe.executorch_backend_config = dataclasses.replace(config, memory_planning_pass=shared)
    return recipe


def static_shapes(label: str, backend: str) -> Callable[[str, ExportedProgram], ExportedProgram]:
    """A pass for `ExportRecipe.aten_transform_passes` that refuses dynamic shapes.

    Args:
      label: of the recipe, for messages.
      backend: its name, for messages.

    Returns:
      The pass: raises BuildError for a method with dynamic shapes.

    Example:

        ExportRecipe(name="npu", aten_transform_passes=[static_shapes(ctx.label, "our NPU")], …)
    """

    def check(method: str, program: ExportedProgram) -> ExportedProgram:
        if program.range_constraints:
            ranges = ", ".join(
                f"{symbol} in {bounds.lower} to {bounds.upper}"
                for symbol, bounds in sorted(program.range_constraints.items(), key=str)
            )
            raise BuildError(
                f'{label}: the method "{method}" has dynamic shapes ({ranges}), and {backend} '
                "takes static ones only.",
                "Give the model methods of fixed sizes (without dynamic_shapes), for example one "
                "for reading a prompt and one for a single token.",
            )
        return program

    return check


def static_captured(label: str, backend: str) -> Callable[[GraphModule], GraphModule]:
    """A pass for `QuantizationRecipe.pre_prepare_passes` that refuses dynamic shapes.

    Quantizers whose passes fail with them otherwise do so before `static_shapes` is asked.

    Args:
      label: of the recipe, for messages.
      backend: its name, for messages.

    Returns:
      The pass: raises BuildError for a graph with inputs, or results of operators, of sizes that
      vary.
    """

    def check(graph: GraphModule) -> GraphModule:
        for node in graph.graph.nodes:
            value = node.meta.get("val")
            tensors = value if isinstance(value, tuple | list) else [value]
            sizes = [size for each in tensors for size in getattr(each, "shape", ())]
            if all(isinstance(size, int) for size in sizes):
                continue
            if node.op == "placeholder":
                raise BuildError(
                    f"{label}: a method has dynamic shapes, and {backend} takes static ones only.",
                    "Give the model methods of fixed sizes (without dynamic_shapes).",
                )
            raise BuildError(
                f"{label}: a method calls {node.target}, whose result's size follows from values, "
                f"and {backend} takes static sizes only.",
                "Use operators that keep their sizes (torch.where with three arguments, products "
                "with a mask), or move that part out of the model.",
            )
        return graph

    return check
