"""Refuses what an export would keep in silence: numbers of the example, dropout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from etbuild import BuildError, Method
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
