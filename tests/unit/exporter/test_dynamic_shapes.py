"""Dynamic shapes that do not fit are refused in the words of who declared them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from etbuild import BuildError, Method
from etlower import methods
from torch import nn

N, M = torch.export.Dim("n", min=2, max=16), torch.export.Dim("m", min=2, max=16)
ROW, WIDE = torch.ones(1, 8), torch.ones(1, 20)


class Net(nn.Module):
    """A function of rows."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any = None) -> torch.Tensor:
        return self.function(x) if y is None else self.function(x, y)


REFUSED: dict[str, tuple[Callable[..., torch.Tensor], tuple[Any, ...], Any, str]] = {
    "no such dimension": (
        lambda x: x + 1,
        (ROW,),
        ({2: N},),
        'have a dimension of the input "x" that its example has not: got 2, expected 0 to 1.',
    ),
    "a number from the end": (
        lambda x: x["a"][0] + 1,
        ({"a": [ROW]},),
        {"x": {"a": [{-1: N}]}},
        "the input \"x['a'][0]\" that its example has not: got -1, expected 0 to 1.",
    ),
    "of a number": (lambda x: x + 1, (ROW[0, 0],), ({0: N},), "got 0, expected none."),
    "beyond the range": (
        lambda x: x + 1,
        (WIDE,),
        ({1: N},),
        'dimension 1 of the input "x" is 20 in its example, expected n from 2 to 16',
    ),
    "fixed": (
        lambda x: x.reshape(1, 2, 4),
        (ROW,),
        ({1: N},),
        "do not fit the model: the model fixes n at 8, {file}.\n"
        "Leave n out of dynamic_shapes, or change the model.",
    ),
    "one": (
        lambda x: x + 1,
        (torch.ones(1, 8),),
        ({0: torch.export.Dim("b", max=4)},),
        "the model fixes b at 1.\nGive an example of more than 1 there or leave b out of",
    ),
    "multiples": (
        lambda x: x.reshape(-1, 4) + 1,
        (ROW,),
        ({1: N},),
        ": not all n <= 16 satisfy (n % 4) == 0; ",
    ),
    "multiples are declared": (
        lambda x: x.reshape(-1, 4) + 1,
        (ROW,),
        ({1: N},),
        "\nDeclare _n = Dim('_n', min=1, max=4), n = 4*_n in dynamic_shapes, or change the model.",
    ),
    "equal": (
        lambda x, y: x + y,
        (ROW, ROW + 1),
        ({1: N}, {1: M}),
        "must always be equal.\nDeclare",
    ),
    "at least": (
        lambda x: x[:, :5] + torch.ones(1, 5),
        (ROW,),
        ({1: N},),
        ": not all n <= 16 satisfy 5 <= n and n <= 16.\nDeclare n = Dim('n', min=5, max=16) in",
    ),
    "another structure": (
        lambda x: x + 1,
        (ROW,),
        ({1: N}, {1: N}),
        "do not fit the model: Detected mismatch between the structure of `inputs` and",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit(case: str) -> None:
    function, inputs, shapes, said = REFUSED[case]
    method = Method(Net(function).eval(), inputs, dynamic_shapes=shapes)
    with pytest.raises(BuildError) as refused:
        methods.export_module("forward", method.module, method, True, "//m:net")
    text = re.sub(r"\S*(test_dynamic_shapes\.py):\d+", "{file}", str(refused.value))
    assert text.startswith("//m:net: the dynamic shapes of the method ")
    assert said in text
    assert not re.search(r"TORCH_LOGS|L\[|draft_export|http|mark_dynamic|Traceback", text)


@pytest.mark.parametrize(
    "shapes",
    [({1: N},), [{1: N}], {"x": {1: N, 0: None}}, ({0: 1, 1: torch.export.Dim.AUTO},), ((1, N),)],
)
def test_what_fits(shapes: Any) -> None:
    method = Method(Net(lambda x: x + 1).eval(), (ROW,), dynamic_shapes=shapes)
    program = methods.export_module("forward", method.module, method, True, "//m:net")
    assert program.module()(WIDE[:, :9]).shape == (1, 9)
