"""Calls that no kernel takes are refused when a program is built, and others run."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from etbuild import BuildError, Method, ModelSpec
from etlower.outputs import leaves
from executorch.export import ExportRecipe
from quiet_torch import outputs, run
from torch import nn

Pair = collections.namedtuple("Pair", "one other")


class Net(nn.Module):
    """A function of its inputs and of a layer."""

    def __init__(self, function: Callable[..., Any], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.function, self.layer = function, layer

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Those of the case."""
        return self.function(*inputs, *([self.layer] if self.layer else []))


def lowered(net: Net, *inputs: torch.Tensor) -> Any:
    """With portable kernels."""
    spec = ModelSpec({"forward": Method(net.eval(), inputs)})
    return run(spec, ExportRecipe(name="portable"))


ROWS = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("net", "inputs", "parts"),
    [
        (
            Net(lambda x, a: a(x), nn.Conv3d(2, 3, 2)),
            (torch.ones(1, 2, 4, 5, 6),),
            ["5 dimensions"],
        ),
        (Net(lambda x: F.pad(x, (-1, 2), value=0.7)), (ROWS,), ["[-1, 2]", "x[..., 1:]"]),
        (Net(lambda x: F.pad(x[None], (0, 0, 1, -2))), (ROWS,), ["[0, 0, 1, -2]"]),
        (Net(lambda x: x[1:3] * 2), (ROWS.t(),), ["[1, 0]", ".contiguous()"]),
    ],
)
def test_what_no_kernel_takes(net: Net, inputs: Any, parts: list[str]) -> None:
    with pytest.raises(BuildError) as raised:
        lowered(net, *inputs)
    text = str(raised.value)
    assert text.startswith('//m:net: the method "forward" calls ')
    assert "test_runnable.py:" in text
    assert "no kernel of ExecuTorch takes it: got " in text
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    "net",
    [
        Net(lambda x: torch.nonzero(x > 0)),
        Net(lambda x: torch.index_select(x, 0, torch.nonzero(x[:, 0] > 0)[:, 0])),
        Net(lambda x: torch.index_select(x, 0, (x[:, 0] > 0).nonzero().squeeze(1))),
        Net(lambda x: x[x > 0] * 2),
        Net(lambda x: torch.topk(x, 3, dim=1)),
        Net(lambda x: [torch.max(x, 1), x + 1]),
        Net(lambda x: {"pair": Pair(x + 1, x * 2)}),
        Net(lambda x: x.view(3, 3, 4).permute(2, 0, 1).clone()[1:].sum(0)),
    ],
)
def test_what_runs(net: Net, tmp_path: Path) -> None:
    """Results whose order is torch's own, and named tuples."""
    got = outputs(lowered(net, ROWS), tmp_path, "forward", ROWS)
    expected = leaves(net(ROWS))
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
