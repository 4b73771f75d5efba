"""Buffers are written in place where nothing else reads them, and hold what eager's hold."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from etbuild import Method, ModelSpec
from etlink import pte
from executorch.exir import ExecutorchBackendConfig
from executorch.export import ExportRecipe
from executorch.runtime import Runtime
from quiet_torch import run


class Cache(torch.nn.Module):
    """A cache that takes 2 rows at a time."""

    def __init__(self, rows: int = 6) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(rows, 3))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.rows.index_copy_(0, at + torch.arange(2), x)
        return self.read()

    def read(self) -> torch.Tensor:
        return self.rows.sum(0)


class Returned(Cache):
    def read(self) -> torch.Tensor:
        return self.rows.view(3, 6)


class ReadBefore(Cache):
    """A view of what the cache held, which must not see what is written."""

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        before = torch.ops.aten.view_copy(self.rows, [18])
        self.rows.index_copy_(0, at + torch.arange(2), x)
        return before + self.rows.view(18)


class WrittenTwice(Cache):
    def read(self) -> torch.Tensor:
        between = torch.ops.aten.view_copy(self.rows, [18])
        self.rows.index_copy_(0, torch.tensor([5]), torch.ones(1, 3))
        return between - self.rows.view(18)


class Replaced(Cache):
    """What was written is read, but the buffer keeps something else."""

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        written = self.rows.index_copy(0, at + torch.arange(2), x)
        self.rows.copy_(x.repeat(3, 1).tanh())
        return torch.ops.aten.view_copy(written, [18])


def operators(net: torch.nn.Module, program: Path) -> list[str]:
    """Lowers a net and compares three calls with eager's."""
    calls = [(torch.full((2, 3), float(n + 1)), torch.tensor([n])) for n in range(3)]
    recipe = ExportRecipe(name="portable", executorch_backend_config=ExecutorchBackendConfig())
    program.write_bytes(run(ModelSpec({"forward": Method(net, calls[0])}), recipe).buffer)
    method = Runtime.get().load_program(program).load_method("forward")
    with torch.no_grad():
        for call in calls:
            torch.testing.assert_close(method.execute(list(call))[0], net(*call))
    [plan] = pte.read(program).program.executionPlan
    return [operator.name.decode() for operator in plan.operators]


@pytest.mark.parametrize("net", [Cache(), Returned()])
def test_a_cache_is_written_in_place(net: torch.nn.Module, tmp_path: Path) -> None:
    used = operators(net, tmp_path / "net.pte")
    assert "aten::index_put_" in used
    assert "aten::copy_" not in used and "aten::index_put" not in used


@pytest.mark.parametrize("net", [ReadBefore(), WrittenTwice(), Replaced()])
def test_what_is_read_besides_is_kept(net: torch.nn.Module, tmp_path: Path) -> None:
    assert "aten::index_put" in operators(net, tmp_path / "net.pte")


def test_the_memory_of_a_cache_is_planned_once(tmp_path: Path) -> None:
    """Upstream plans it again for the output that says what the buffer holds afterwards."""
    rows, program = 1000, tmp_path / "net.pte"
    operators(Cache(rows), program)
    [plan] = pte.read(program).program.executionPlan
    cache = rows * 3 * 4
    assert cache < sum(plan.nonConstBufferSizes) < 1.1 * cache
