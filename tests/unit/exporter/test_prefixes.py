"""Prefixes of buffers are read where they lie, and others are slices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import Method, ModelSpec, share_mutable_buffers
from etlower.prefixes import length, prefix
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.export import ExportRecipe, LoweringRecipe
from executorch.runtime import Runtime
from quiet_torch import run, xnnpack
from torch import nn

ROWS, WIDTH = 12, 4


def rounded(position: torch.Tensor, count: int) -> Any:
    """The end of some rows, in steps of 4."""
    return length((position + count + 3) // 4 * 4, ROWS)


class Cache(nn.Module):
    """Products of rows with all that were written so far.

    Args:
      read: what is read of the buffer, the buffer after the write, and the number of rows.
    """

    def __init__(self, read: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.read = read
        self.register_buffer("cache", torch.zeros(ROWS, WIDTH))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Rows (n, 4) at an int64 position (1,); (1, n, length)."""
        rows, old = rounded(position, x.shape[0]), self.cache.clone()
        self.cache.index_copy_(0, torch.arange(x.shape[0]) + position, x)
        read = self.read(old, self.cache, rows).unsqueeze(0)
        return torch.bmm(x.unsqueeze(0), read.permute(0, 2, 1))


def method(net: Cache) -> Method:
    count = torch.export.Dim("count", min=1, max=5)
    inputs = (torch.ones(3, WIDTH, dtype=net.cache.dtype), torch.tensor([0]))
    return Method(net.eval(), inputs, {"x": {0: count}, "position": {}}, strict=False)


def operators_of(manager: Any, name: str = "forward") -> list[str]:
    return [str(node.target) for node in manager.exported_program(name).graph.nodes]


def check(manager: Any, folder: Path, calls: list[tuple[str, Cache]]) -> None:
    """Compares calls in turn, which write 4 rows, 1, 5 and 2."""
    path = folder / "program.pte"
    with open(path, "wb") as out:
        manager.write_to_file(out)
    program = Runtime.get().load_program(path)
    loaded = {name: program.load_method(name) for name, _ in calls}
    position, generator = 0, torch.Generator().manual_seed(0)
    for number, count in enumerate((4, 1, 5, 2)):
        name, net = calls[number % len(calls)]
        x = torch.randn(count, WIDTH, generator=generator).to(net.cache.dtype)
        at = torch.tensor([position])
        [got] = loaded[name].execute([x, at])
        torch.testing.assert_close(got.clone(), net(x, at))
        position += count


def recipe(name: str) -> ExportRecipe:
    return ExportRecipe(name="portable") if name == "portable" else xnnpack(name)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["portable", "fp32"])
@pytest.mark.parametrize(
    ("read", "in_place"),
    [
        (lambda old, new, rows: prefix(new, rows), True),
        (lambda old, new, rows: prefix(new, rows) + prefix(new, rows), True),
        # What the method does not write, or not before.
        (lambda old, new, rows: prefix(old, rows), False),
        (lambda old, new, rows: prefix(new * 2, rows), False),
    ],
)
def test_a_prefix(read: Callable[..., Any], in_place: bool, name: str, tmp_path: Path) -> None:
    net = Cache(read)
    manager = run(ModelSpec({"forward": method(net)}), recipe(name))
    names = operators_of(manager)
    assert any("aten.empty" in each for each in names) == in_place
    assert any("slice" in each for each in names) != in_place
    check(manager, tmp_path, [("forward", net)])


class Parts(nn.Module):
    """Products of rows with all that were written so far, in each part of a cache.

    Args:
      doubled: whether what is read is not the buffer.
    """

    def __init__(self, doubled: bool) -> None:
        super().__init__()
        self.doubled = doubled
        self.register_buffer("cache", torch.zeros(3, ROWS, WIDTH))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Rows (n, 4) at an int64 position (1,); (3, n, length)."""
        rows = rounded(position, x.shape[0])
        written = torch.stack([x, x * 2, x + 1])
        self.cache.index_copy_(1, torch.arange(x.shape[0]) + position, written)
        read = self.cache * 2 if self.doubled else self.cache
        parts = [prefix(read, rows, part) for part in range(3)]
        return torch.cat([torch.bmm(x.unsqueeze(0), part.permute(0, 2, 1)) for part in parts])


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["portable", "fp32"])
@pytest.mark.parametrize("doubled", [False, True])
def test_a_prefix_of_a_part(doubled: bool, name: str, tmp_path: Path) -> None:
    net = Parts(doubled)
    manager = run(ModelSpec({"forward": method(net)}), recipe(name))
    names = operators_of(manager)
    assert sum("aten.empty" in each for each in names) == (0 if doubled else 3)
    assert any("slice" in each for each in names) == doubled
    check(manager, tmp_path, [("forward", net)])


def test_a_delegate_takes_the_sizes() -> None:
    """Upstream's partitioner leaves out sizes that follow from values."""
    net = Cache(lambda old, new, rows: prefix(new, rows))
    names = operators_of(run(ModelSpec({"forward": method(net)}), xnnpack("fp32")))
    assert not any("aten.bmm" in each or "permute" in each for each in names)


def test_delegates_that_need_fixed_sizes_get_all_rows(tmp_path: Path) -> None:
    net = Cache(lambda old, new, rows: prefix(new, rows))
    upstreams = ExportRecipe(
        name="upstream",
        lowering_recipe=LoweringRecipe(partitioners=[XnnpackPartitioner()]),
    )
    manager = run(ModelSpec({"forward": method(net)}), upstreams)
    names = operators_of(manager)
    assert not any("aten.empty" in each or "slice" in each for each in names)
    path = tmp_path / "program.pte"
    with open(path, "wb") as out:
        manager.write_to_file(out)
    x, at = torch.randn(2, WIDTH), torch.tensor([0])
    [got] = Runtime.get().load_program(path).load_method("forward").execute([x, at])
    assert got.shape == (1, 2, ROWS)
    torch.testing.assert_close(got[..., :4], net(x, at))


def test_methods_that_share_a_buffer(tmp_path: Path) -> None:
    net = Cache(lambda old, new, rows: prefix(new, rows))
    chosen = ExportRecipe(name="portable")
    share_mutable_buffers(chosen, "//m:recipe")
    manager = run(ModelSpec({"one": method(net), "two": method(net)}), chosen)
    assert any("aten.empty" in each for each in operators_of(manager, "two"))
    check(manager, tmp_path, [("one", net), ("two", net)])


def test_a_buffer_of_16_bits(tmp_path: Path) -> None:
    net = Cache(lambda old, new, rows: prefix(new, rows)).half()
    manager = run(ModelSpec({"forward": method(net)}), recipe("portable"))
    assert any("aten.empty" in each for each in operators_of(manager))
    check(manager, tmp_path, [("forward", net)])
