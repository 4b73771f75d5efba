"""share_mutable_buffers: methods of a program that work on one state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError, Method, share_mutable_buffers
from etlink import pte, tables
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from executorch.export import ExportRecipe
from executorch.runtime import Runtime
from quiet_torch import lowered, xnnpack


class Memory(torch.nn.Module):
    """A buffer that two methods change, and a matrix that both read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.zeros(4, 8))
        self.register_buffer("weight", torch.eye(8) * 2)


class Store(torch.nn.Module):
    """Holds the sum of what it is given."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (n, 8); (4, 8)"""
        self.memory.held.copy_(torch.mm(x, self.memory.weight).sum(0).expand(4, 8))
        return self.memory.held + 0.0


class Add(torch.nn.Module):
    """Adds to what is held."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (1, 8); (4, 8)"""
        self.memory.held.add_(torch.mm(x, self.memory.weight))
        return self.memory.held + 0.0


def methods() -> dict[str, Method]:
    memory = Memory()
    return {
        "store": Method(Store(memory), (torch.ones(16, 8),)),
        "add": Method(Add(memory), (torch.ones(1, 8),)),
    }


def written(manager: Any, path: Path) -> Path:
    with open(path, "wb") as out:
        manager.write_to_file(out)
    return path


def arenas(path: Path) -> list[int]:
    """Counts the arenas that each method plans."""
    described = tables.describe_methods(pte.read(path).program)
    return [len(method["memory"]) for method in described]


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
def test_methods_share_their_state(backend: str, tmp_path: Path) -> None:
    """In ExecuTorch's Python runtime, which has one memory for all methods of a program."""
    if backend == "xnnpack":
        recipe = xnnpack("fp32", share_mutable_buffers="true")
    else:
        recipe = share_mutable_buffers(ExportRecipe(name="portable"), "//x:r")
    path = written(lowered(methods(), recipe), tmp_path / "program.pte")
    assert arenas(path) == [3, 3]
    program = Runtime.get().load_program(path)
    store, add = program.load_method("store"), program.load_method("add")
    for method, inputs, expected in (
        (store, torch.ones(16, 8), 32.0),
        (add, torch.ones(1, 8), 34.0),
        (add, torch.ones(1, 8), 36.0),
        (store, torch.full((16, 8), 2.0), 64.0),
        (add, torch.ones(1, 8), 66.0),
    ):
        assert torch.equal(method.execute([inputs])[0], torch.full((4, 8), expected))


@pytest.mark.release
def test_programs_are_as_upstreams_without_it_and_the_same_each_time_with_it(
    tmp_path: Path,
) -> None:
    plain = ExportRecipe.get_recipe(XNNPackRecipeType.FP32)
    made = {"upstream": plain, "default": xnnpack("fp32")}
    made["off"] = xnnpack("fp32", share_mutable_buffers="false")
    for name in ("one", "two"):
        made[name] = xnnpack("fp32", share_mutable_buffers="true")
    result = {
        name: written(lowered(methods(), recipe), tmp_path / name).read_bytes()
        for name, recipe in made.items()
    }
    assert result["upstream"] == result["default"] == result["off"]
    assert result["one"] == result["two"] != result["off"]


def test_each_recipe_takes_it() -> None:
    for name in ("int8_static_per_tensor", "int8_dynamic_act_int4_weight"):
        config = xnnpack(name, share_mutable_buffers="1").executorch_backend_config
        assert config.memory_planning_pass.share_mutable_buffers
    # Upstream's own default is one object; it stays as it is.
    assert not ExecutorchBackendConfig().memory_planning_pass.share_mutable_buffers


def test_other_settings_of_a_recipe_stay() -> None:
    planning = MemoryPlanningPass(alloc_graph_input=False, alignment=64)
    config = ExecutorchBackendConfig(memory_planning_pass=planning, segment_alignment=256)
    recipe = share_mutable_buffers(ExportRecipe(executorch_backend_config=config), "//x:r")
    result = recipe.executorch_backend_config
    assert result.segment_alignment == 256
    assert result.memory_planning_pass.alignment == 64
    assert not result.memory_planning_pass.alloc_graph_input
    assert not planning.share_mutable_buffers


@pytest.mark.parametrize(
    ("planning", "kind"),
    [
        ({"store": MemoryPlanningPass()}, "dict"),
        (MemoryPlanningPass(alloc_mutable_buffers=False), "MemoryPlanningPass"),
    ],
)
def test_a_planning_of_its_own_is_an_error(planning: Any, kind: str) -> None:
    config = ExecutorchBackendConfig(memory_planning_pass=planning)
    recipe = ExportRecipe(executorch_backend_config=config)
    expected = rf'//x:r: option "share_mutable_buffers": .* of its own \({kind}\), expected'
    with pytest.raises(BuildError, match=expected):
        share_mutable_buffers(recipe, "//x:r")


def test_a_value_that_is_no_boolean_is_an_error() -> None:
    with pytest.raises(BuildError, match='"share_mutable_buffers": got "maybe", expected true'):
        xnnpack("fp32", share_mutable_buffers="maybe")
