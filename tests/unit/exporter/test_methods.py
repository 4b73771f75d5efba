"""Refuses what an export would keep in silence: numbers of the example, dropout, sizes of 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from etbuild import BuildError, Method
from etlower.methods import check_eager
from quiet_torch import lowered
from torch.nn import functional as F

X = torch.ones(1, 2, 4)


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, by: Any) -> torch.Tensor:
        return x * by


def test_a_number_that_would_be_a_constant() -> None:
    with pytest.raises(BuildError) as caught:
        lowered({"forward": Method(Scaled(), (X, 2.0))})
    assert caught.value.what == (
        '//m:net: the method "forward": input 1 ("by") is the number 2.0, which its program would '
        "keep in every call: got a float, expected a tensor."
    )
    assert "torch.tensor(2.0)" in caught.value.hint
    with pytest.raises(BuildError, match="is the number 2, which"):
        lowered({"forward": Method(Scaled(), (X, 2), test_inputs=[(X, 3)])})


@pytest.mark.parametrize("by", [torch.tensor(2.0), 2, True])
def test_what_may_be_an_input(by: Any) -> None:
    lowered({"forward": Method(Scaled(), (X, by), test_inputs=[(X, by)])})


class Drops(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.lstm = torch.nn.LSTM(4, 4, 2, dropout=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "dropout":
            return F.dropout(x, 0.5)
        if self.kind == "attention":
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)
        if self.kind == "body":
            return torch.cond(x.sum() > 0, lambda a: F.dropout(a, 0.5), lambda a: a + 1, (x,))
        return self.lstm(F.dropout(x, 0.5, self.training))[0]


@pytest.mark.parametrize("kind", ["dropout", "attention", "body"])
def test_dropout_that_is_left_on(kind: str) -> None:
    with pytest.raises(BuildError) as caught:
        lowered({"forward": Method(Drops(kind).eval(), (X,))})
    assert "is in training mode: its program would draw other numbers" in caught.value.what
    assert "test_methods.py" in caught.value.what or kind == "body"
    assert "self.training" in caught.value.hint


def test_dropout_that_is_off() -> None:
    lowered({"forward": Method(Drops("lstm").eval(), (X,))})


class Depends(torch.nn.Module):
    """Has sizes or branches that follow from values."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        row = x[0, 0]
        if self.kind == "combinations":
            return torch.combinations(row)
        if self.kind == "loss":
            return F.gaussian_nll_loss(row, row * 2, row.abs())
        if self.kind == "branch":
            return row * 2 if row.sum() > 0 else row
        lengths = row.long()[:1]
        log_probs = x.view(4, 1, 2).log_softmax(2)
        return F.ctc_loss(log_probs, lengths.view(1, 1), lengths * 4, lengths)


@pytest.mark.parametrize("kind", ["combinations", "loss", "branch", "ctc"])
def test_sizes_and_branches_by_values(kind: str) -> None:
    with pytest.raises(BuildError) as caught:
        lowered({"forward": Method(Depends(kind).eval(), (X,), strict=False)})
    assert "follows from the values of a tensor" in caught.value.what
    assert "test_methods.py:" in caught.value.what
    assert "torch._check" in caught.value.hint


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x[:2] + 1, r"aten\.slice\.Tensor \(\S+:\d+\) gives the shape \[1, 3\]"),
        (lambda x: x * 2 if x.shape[0] == 1 else x, "its result 0 has other numbers than"),
        (lambda x: x.sum(0) if x.shape[0] > 1 else x[0] * 5, "its result 0 has other numbers"),
        (lambda x: x.squeeze(0), r"aten\.squeeze\.dim \(\S+:\d+\) gives the shape \[3\]"),
        (
            lambda x: (x if x.shape[0] > 1 else x[0]) * 1,
            r"its result 0 has the shape \[1, 3\], and",
        ),
    ],
)
def test_a_size_of_one(function: Callable[..., Any], said: str) -> None:
    """torch.export takes sizes that vary for 2 or more, whatever their range says."""

    class Sized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    def built(least: int) -> None:
        size = torch.export.Dim("n", min=least, max=8)
        lowered({"forward": Method(Sized(), (torch.randn(4, 3),), dynamic_shapes=({0: size},))})

    built(2)
    begin = r'//m:net: the method "forward": where dimension 0 of input 0 has the size 1, '
    with pytest.raises(BuildError, match=begin + said):
        built(1)


def test_a_size_of_one_that_is_right() -> None:
    """State keeps its values, and the model's own refusals count for nothing."""

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return (x @ y.mT).softmax(0) + self.calls

    size = torch.export.Dim("n", max=8)
    net = Counting()
    inputs = (torch.randn(4, 3), torch.randn(2, 3))
    lowered({"forward": Method(net, inputs, dynamic_shapes=({0: size}, None))})
    assert net.calls.item() == 0


class Refusing(torch.nn.Module):
    """Stands for a net whose layer's quantized weight has no transposition."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("no aten.t")


def test_what_fails_with_quantized_weights_is_told_from_what_fails() -> None:
    """The example inputs of a model that runs need no correction."""
    net, inputs = torch.nn.Linear(2, 2), (torch.randn(1, 2),)
    with pytest.raises(BuildError, match=r"quantized the weights.*, \S*test_methods\.py:\d+: NotI"):
        check_eager("forward", Refusing(), Method(net, inputs), "//m:net")
    with pytest.raises(BuildError, match="does not run on its example inputs"):
        check_eager("forward", Refusing(), Method(Refusing(), inputs), "//m:net")
