"""Buffers are written in place where that is proven right, and hold what eager's hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
    """A cache that reads what was written, but whose buffer keeps something else."""

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        written = self.rows.index_copy(0, at + torch.arange(2), x)
        self.rows.copy_(x.repeat(3, 1).tanh())
        return torch.ops.aten.view_copy(written, [18])


Inputs = Sequence[tuple[torch.Tensor, ...]]
CALLS = [(torch.full((2, 3), float(n + 1)), torch.tensor([n])) for n in range(3)]


def operators(net: torch.nn.Module, program: Path, calls: Inputs = CALLS) -> list[str]:
    """Lowers a net and compares calls in a row with eager's."""
    recipe = ExportRecipe(name="portable", executorch_backend_config=ExecutorchBackendConfig())
    program.write_bytes(run(ModelSpec({"forward": Method(net, calls[0])}), recipe).buffer)
    method = Runtime.get().load_program(program).load_method("forward")
    with torch.no_grad():
        for call in calls:
            outputs = net(*call)
            expected = list(outputs) if isinstance(outputs, tuple) else [outputs]
            torch.testing.assert_close(list(method.execute(list(call))), expected)
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


# Writes into h (6, 4), g (6, 5, 4), n (6 integers) or b (6 flags): of x (2, 4), y (6, 2), i and j
# (2 different rows or columns), p (one column) and m (6 flags), which differ in each call.
IN_PLACE = """\
h[torch.arange(2)] = x
h[torch.arange(2) + j.abs()] = x
h[i.abs()] = x
h[i.clamp(min=0)] = x
h.index_copy_(0, i, x)
h.index_copy_(1, j, y)
h[torch.where(m[:2], i.relu(), 3)] = x
h[[4, 1]] = x
g[:, i.clamp(min=0, max=4)] = x[None].expand(6, 2, 4)""".splitlines()
NORMALIZED = """\
h[i] = x
h[i - 6] = x
h.index_fill_(0, i, 0.5)
h[torch.arange(2) + j] = x
h[i.int()] = x
h[i ^ 1] = x
h[:, j] = y
h[..., j - 4] = y
h[i.clamp(max=4) - 5] = x
n[i - 6] = i * 2
b[i] = m[:2]
g[:, :, j] = y[:, None, :].expand(6, 5, 2)""".splitlines()
COPIED = """\
h[i] += x
h[i] = x[:1]
h[i] = x[0]
h[i] = 0.5
h[i - 6] = x; h[i] = x * 2
h[i] = h[i.flip(0)] + 1
h[[0, 1]] = h[[1, 0]] + x
h[i, j] = x[:, 0]
h[i, j - 4] = 2.5
h[i[:, None], j] = x[:, :2]
h[:, j] = y[:, :1]
h[p] = x[:1]; h[p - 4, j] = 1.5
h[-1] = x[0]
h[:, -1] = 0.25
h[1:5:2] = x
h[2, 1:3] = x[0, :2]
h[m] = x[0]
h[h > 0.3] = 0.125
h.masked_fill_(m[:, None], 0.75)
h.masked_scatter_(m[:, None].expand(6, 4), torch.arange(24.0))
h.index_add_(0, i, x, alpha=2)
h.index_add_(1, j, y)
h.index_put_((i,), x, accumulate=True)
h.index_put_((i - 6, j), x[:, 0], accumulate=True)
h.scatter_(0, i[:, None].expand(2, 4), x)
h.scatter_add_(0, i[:, None].expand(2, 4), x)
h.copy_(torch.select_scatter(h, x[0], 0, 3))
h.copy_(torch.slice_scatter(h, x, 0, 2, 4))
h.t()[j] = y.t()
h.view(-1)[i] = x[:, 0]
h.view(3, 8)[1] = 0.5
h.copy_(torch.roll(h, 1, 0) + x.sum(0))
h[i] = x; h.mul_(2)
g[i, :, j] = x[:, :1]
g[:, i.clamp(max=4) - 5, j] = y
g[m, :, 1] = 0.5
g[:, 2][:, j] = y
n[m] = 7
n.index_add_(0, i, i)
b[m] = ~b[m]""".splitlines()


class Written(torch.nn.Module):
    """Runs one of the lines above, and returns all buffers."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self.register_buffer("h", torch.zeros(6, 4))
        self.register_buffer("g", torch.zeros(6, 5, 4))
        self.register_buffer("n", torch.zeros(6, dtype=torch.int64))
        self.register_buffer("b", torch.zeros(6, dtype=torch.bool))
        scope = {"torch": torch}
        exec(f"def write(h, g, n, b, x, y, i, j, p, m):\n    {line}", scope)
        self.write: Any = scope["write"]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.write(self.h, self.g, self.n, self.b, *inputs)
        return self.h * 1, self.g * 1, self.n * 1, self.b ^ False


def calls() -> Iterator[tuple[torch.Tensor, ...]]:
    """Inputs of four calls in a row; one has no flag set, and one has all."""
    generator = torch.Generator().manual_seed(3)
    for call, threshold in enumerate([0.5, 2.0, -1.0, 0.3]):
        yield (
            torch.randn(2, 4, generator=generator),
            torch.randn(6, 2, generator=generator),
            torch.randperm(6, generator=generator)[:2],
            torch.randperm(4, generator=generator)[:2],
            torch.tensor([call]),
            torch.rand(6, generator=generator) > threshold,
        )


def lines(all_lines: Sequence[str], first: int) -> list[Any]:
    return [
        line if number < first else pytest.param(line, marks=pytest.mark.release)
        for number, line in enumerate(all_lines)
    ]


@pytest.mark.parametrize("line", lines(IN_PLACE, 2))
def test_writes_that_are_right_as_they_are(line: str, tmp_path: Path) -> None:
    used = operators(Written(line), tmp_path / "net.pte", list(calls()))
    assert "aten::index_put_" in used and "aten::index_put" not in used
    assert "aten::lt" not in used


@pytest.mark.parametrize("line", lines(NORMALIZED, 3))
def test_an_index_that_may_be_negative(line: str, tmp_path: Path) -> None:
    used = operators(Written(line), tmp_path / "net.pte", list(calls()))
    assert {"aten::index_put_", "aten::lt"} <= set(used) and "aten::index_put" not in used


@pytest.mark.few(2)
@pytest.mark.parametrize("line", lines(COPIED, 6))
def test_all_other_writes_are_copied_back(line: str, tmp_path: Path) -> None:
    used = operators(Written(line), tmp_path / "net.pte", list(calls()))
    assert "aten::index_put_" not in used and "aten::copy_" in used


def test_the_memory_of_a_cache_is_planned_once(tmp_path: Path) -> None:
    """Upstream plans it again for the output that says what the buffer holds afterwards."""
    rows, program = 1000, tmp_path / "net.pte"
    operators(Cache(rows), program)
    [plan] = pte.read(program).program.executionPlan
    cache = rows * 3 * 4
    assert cache < sum(plan.nonConstBufferSizes) < 1.1 * cache
