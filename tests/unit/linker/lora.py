"""Tiny nets with LoRA adapters, lowered with real XNNPACK recipes. Needs torch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from etbuild import Method, ModelSpec
from etfast import path as fast_path
from etlink.lowered import Lowered
from etlink.split import split
from etlower import capture, declared_sizes, lower, stages
from etlower.progress import Progress
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.exir import ExecutorchBackendConfig
from executorch.export import ExportRecipe

WIDTH = 32
X = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(1))


class Lora(torch.nn.Module):
    """A linear layer with a low-rank adapter; its scaling is a buffer."""

    def __init__(self, rank: int, alpha: float) -> None:
        super().__init__()
        self.base = torch.nn.Linear(WIDTH, WIDTH)
        self.lora_a = torch.nn.Linear(WIDTH, rank, bias=False)
        self.lora_b = torch.nn.Linear(rank, WIDTH, bias=False)
        self.register_buffer("scaling", torch.full((1,), alpha / rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The base's output and the adapter's."""
        return self.base(x) + self.lora_b(self.lora_a(x)) * self.scaling


class Net(torch.nn.Module):
    """Two such layers.

    Args:
      seed: of the adapters.
      rank: of the adapters.
      alpha: of the adapters.
      base: seed of the base weights.
      zero: whether every lora_b is zero, as before training.
    """

    def __init__(
        self, seed: int, rank: int = 4, alpha: float = 8, base: int = 0, zero: bool = False
    ) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Lora(rank, alpha), Lora(rank, alpha)])
        torch.manual_seed(base)
        for layer in self.layers:
            layer.base.reset_parameters()
        torch.manual_seed(1000 + seed)
        for layer in self.layers:
            torch.nn.init.normal_(layer.lora_a.weight)
            torch.nn.init.normal_(layer.lora_b.weight)
            if zero:
                torch.nn.init.zeros_(layer.lora_b.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, WIDTH)."""
        return self.layers[1](torch.relu(self.layers[0](x)))


def lowered(
    net: torch.nn.Module,
    folder: Path,
    label: str,
    kind: XNNPackRecipeType = XNNPackRecipeType.FP32,
    **config: Any,
) -> Lowered:
    """Lowers a net as the exporter does."""
    return of_recipe(net, (X,), folder, label, ExportRecipe.get_recipe(kind), **config)


def portable(
    net: torch.nn.Module, x: torch.Tensor, folder: Path, label: str = "//m:p", **config: Any
) -> Lowered:
    """Lowers a net without a backend."""
    return of_recipe(net, (x,), folder, label, ExportRecipe(name="portable"), **config)


def of_recipe(
    net: torch.nn.Module | ModelSpec,
    inputs: tuple[Any, ...],
    folder: Path,
    label: str,
    recipe: ExportRecipe,
    **config: Any,
) -> Lowered:
    """Lowers a net as the exporter does, beside what upstream writes: `upstream.pte`."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = net if isinstance(net, ModelSpec) else ModelSpec({"forward": Method(net.eval(), inputs)})
    names = capture.WeightNames(method.module for method in spec.methods.values())
    backend = recipe.executorch_backend_config or ExecutorchBackendConfig()
    recipe.executorch_backend_config = dataclasses.replace(backend, **config)
    sizes: dict[str, Any] = {}

    def exported(programs: Any) -> None:
        for name, program in programs.items():
            sizes[name] = declared_sizes.declared(program, spec.methods[name].dynamic_shapes)

    with fast_path.chosen("fast"), names.watching():
        watch = stages.Watch(exported=exported)
        manager = stages.run(spec, recipe, Progress(), label, etrecord=False, watch=watch)
    path = folder / "upstream.pte"
    with open(path, "wb") as out:
        manager.write_to_file(out)
    hints = capture.hints(manager, names, path, folder, recipe.executorch_backend_config)
    hints = dataclasses.replace(hints, sizes=sizes)
    split(path, folder / "lowered", label, lower.versions(), hints)
    return Lowered(folder / "lowered")
