"""Operators that are written out give eager's values in the runtime, also where others differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import xnnpack_recipes
from etbuild import Method, ModelSpec, RecipeContext, write_out
from etbuild.options import Options
from etfast import path as fast_path
from etlower import arrays, stages
from etlower.cases import outputs_of
from etlower.progress import Progress
from executorch.export import ExportRecipe
from runner.runtime import Program


class Function(torch.nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """The function's result."""
        return self.function(*inputs)


def portable() -> ExportRecipe:
    """ExecuTorch's own kernels, with what OpenVINO's recipes write out."""
    return ExportRecipe(name="portable", aten_transform_passes=[write_out("reflection_pad")])


def xnnpack() -> ExportRecipe:
    """The recipe that ships."""
    return xnnpack_recipes.fp32(RecipeContext(Options({}, "//x:r"), "//x:r"))


def differences(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], recipe: ExportRecipe, to: Path
) -> list[float]:
    """Largest difference of each output to eager's."""
    net = Function(function).eval()
    model = ModelSpec({"forward": Method(net, inputs)})
    with fast_path.chosen("fast"):
        manager = stages.run(model, recipe, Progress(), "//x:m", etrecord=False)
    path = to / "p.pte"
    path.write_bytes(manager.buffer)
    wanted = net(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    with Program(path) as program:
        got = outputs_of(program, "forward", [arrays.of_torch(x) for x in inputs])
    pairs = zip(map(arrays.to_torch, got), wanted, strict=True)
    assert all(g.shape == w.shape and g.dtype == w.dtype for g, w in pairs)
    pairs = zip(map(arrays.to_torch, got), wanted, strict=True)
    return [(g.double() - w.double()).abs().max().item() for g, w in pairs]


X, Y, B = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)
WHOLE = torch.tensor([-7, -4, -3, -1, 0, 1, 3, 4, 7])
PICTURE = torch.randn(1, 2, 9, 11)

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    **{
        f"addmm {beta} {alpha}": (
            lambda b, x, y, beta=beta, alpha=alpha: torch.addmm(b, x, y, beta=beta, alpha=alpha),
            (B, X, Y),
        )
        for beta in (0, 0.5, 1)
        for alpha in (1, 2.5)
    },
    **{
        f"remainder {dtype} {divisor}": (
            lambda x, divisor=divisor: x % divisor,
            (WHOLE.to(dtype),),
        )
        for dtype in (torch.int32, torch.int64)
        for divisor in (3, -3, 1)
    },
    "remainder of tensors": (lambda x, y: x % y, (WHOLE, torch.tensor([3, -2, 5] * 3))),
    **{
        f"reflect {padding}": (
            lambda x, padding=padding: F.pad(x, padding, mode="reflect") * 1.0,
            (PICTURE,),
        )
        for padding in ((1, 2, 3, 0), (0, 0, 1, 1), (10, 10, 8, 8), (4, -1, -2, 3))
    },
    "reflect of a row": (lambda x: F.pad(x, (3, 5), mode="reflect"), (torch.randn(1, 2, 12),)),
    **{
        f"bilinear {factor} {align}": (
            lambda x, factor=factor, align=align: F.interpolate(
                x, scale_factor=factor, mode="bilinear", align_corners=align
            ),
            (PICTURE,),
        )
        for factor in (0.6, 1.7, 2.0, (2.0, 1.3))
        for align in (False, True)
    },
    "bilinear to a size": (
        lambda x: F.interpolate(x, size=(5, 17), mode="bilinear"),
        (PICTURE,),
    ),
    "gelu": (lambda x: F.gelu(x, approximate="tanh"), (torch.randn(64),)),
}


@pytest.mark.parametrize("recipe", [portable, xnnpack])
@pytest.mark.parametrize("case", sorted(CASES))
def test_the_runtime_gives_eagers_values(
    case: str, recipe: Callable[[], ExportRecipe], tmp_path: Path
) -> None:
    function, inputs = CASES[case]
    assert max(differences(function, inputs, recipe(), tmp_path)) < 1e-5


def test_other_nodes_stay() -> None:
    """Nothing changes for who uses no such operator, nor for factors of 1."""
    net = Function(lambda b, x, y: F.gelu(torch.addmm(b, x, y)))
    program = torch.export.export(net, (B, X, Y))
    before = str(program.graph)
    write_out("addmm", "gelu", "integer_remainder", "reflection_pad")("forward", program)
    assert str(program.graph) == before


def test_an_unknown_rule() -> None:
    with pytest.raises(KeyError, match="sinus"):
        write_out("sinus")
