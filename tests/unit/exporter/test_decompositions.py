"""Operators without a kernel run as others that have one, and give eager's values."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import xnnpack_recipes
from etbuild import Method, ModelSpec, RecipeContext
from etbuild.options import Options
from etfast import path as fast_path
from etlower import arrays, decompositions, kernels, stages
from etlower.cases import outputs_of
from etlower.progress import Progress
from executorch.exir import EdgeCompileConfig
from executorch.exir.backend.partitioner import Partitioner, PartitionResult
from executorch.export import ExportRecipe, LoweringRecipe
from runner.runtime import Program

Function = Callable[..., Any]
Case = tuple[Function, tuple[torch.Tensor, ...]]
torch.manual_seed(0)
NAN, INF = math.nan, math.inf
ODD = torch.tensor([0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, 3e-5, 1e10, -0.5])
OTHER = torch.tensor([NAN, 1.0, -0.0, 2.5, 1.0, INF, 1.0, -3e-5, -1e10, 0.5])
WHOLE = torch.tensor([[3, -1, 4, 1, -5], [2, 2, -6, 2, 2], [0, 0, 0, -1, 1]])
# Few values, so that many are equal.
EQUAL = torch.randint(0, 4, (3, 17, 5)).float()
ROW = torch.randn(2, 37)
BOX = torch.randn(1, 2, 7, 8, 9)
INDEX = torch.tensor([[0, 2, 2, 1], [1, 1, 0, 2]])
SORTED = torch.tensor([-2.0, -1.0, -1.0, 0.5, 3.0])

POINTWISE: dict[str, Case] = {
    **{
        f"addmv {beta} {alpha}": (
            lambda b, x, y, beta=beta, alpha=alpha: torch.addmv(b, x, y, beta=beta, alpha=alpha),
            (
                torch.tensor([NAN, 1.0, 2.0]) if beta == 0 else torch.randn(3),
                ROW[:1].expand(3, 37),
                ROW[0],
            ),
        )
        for beta, alpha in ((1, 1), (0, 1), (0.5, 2.5))
    },
    "addbmm": (
        lambda b, x, y: torch.addbmm(b, x, y, beta=0.5, alpha=3),
        (torch.randn(3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
    ),
    "signbit": (torch.signbit, (torch.where(torch.isnan(ODD), 1.0, ODD),)),
    "sign": (torch.sign, (ODD,)),
    "signbit of whole numbers": (torch.signbit, (WHOLE,)),
    "copysign": (torch.copysign, (ODD, torch.where(torch.isnan(OTHER), 1.0, OTHER))),
    "copysign of whole numbers": (torch.copysign, (WHOLE, -WHOLE)),
    "copysign of -0.0": (lambda x: torch.copysign(x, -0.0), (ODD[:4],)),
    "fmax": (torch.fmax, (ODD, OTHER)),
    "fmin": (torch.fmin, (ODD, OTHER)),
    "fmax of whole numbers": (torch.fmax, (WHOLE, -WHOLE)),
    "hypot": (torch.hypot, (ODD, OTHER)),
    "hypot of two types": (torch.hypot, (WHOLE[0] > 0, ROW[0, :5])),
    "erfc": (lambda x: torch.erfc(x), (torch.linspace(-4, 9, 53),)),
    "erfc of others": (lambda x, y: (torch.erfc(x), torch.erfc(y), y.erfc()), (ODD, WHOLE)),
    "renorm of halves": (lambda x: x.half().renorm(2, 0, 1.0).float(), (ROW,)),
    "exp2": (torch.exp2, (torch.tensor([-3.0, 0.5, 10.0, -INF, INF]),)),
    "exp2 of whole numbers": (torch.exp2, (WHOLE,)),
    "ldexp": (torch.ldexp, (ODD[:5], torch.tensor([1, 2, 3, -4, 5]))),
    "angle": (torch.angle, (ODD,)),
    "round to 2 digits": (lambda x: torch.round(x, decimals=2), (ROW,)),
    "round to hundreds": (lambda x: torch.round(x, decimals=-2), (ROW * 1000,)),
    "dist": (lambda x, y: torch.dist(x, y, 3), (ROW, ROW * 0.5)),
    "i0": (torch.i0, (torch.linspace(-20, 20, 41),)),
    "copysign of two types": (torch.copysign, (torch.tensor(2.5, dtype=torch.float16), ROW)),
    "sums of a number": (lambda x: (x.logsumexp(0), x.norm(), x.nansum()), (torch.tensor(2.5),)),
    "mean and variance of one": (
        lambda x: (
            *torch.var_mean(x[:, :1], 1),
            *torch.std_mean(x[0, 0]),
            *torch.var_mean(x, 1),
        ),
        (ROW,),
    ),
    "rrelu": (lambda x: F.rrelu(x, 0.1, 0.4, training=False), (ROW,)),
    **{
        f"multilabel margin {reduction}": (
            lambda x, t, reduction=reduction: F.multilabel_margin_loss(x, t, reduction=reduction),
            (torch.randn(3, 4), torch.tensor([[1, 2, -1, 0], [0, -1, 1, 2], [3, 2, 1, 0]])),
        )
        for reduction in ("none", "mean", "sum")
    },
    "multilabel margin of a row": (
        F.multilabel_margin_loss,
        (torch.randn(4), torch.tensor([2, -1, 0, 0])),
    ),
    "xlogy of a number": (lambda x: (torch.xlogy(2, x), torch.xlogy(x, 3)), (ROW.abs(),)),
    **{
        f"{name} of a number": (lambda x, name=name: getattr(torch, name)(-3, x), (WHOLE.abs(),))
        for name in (
            *("bitwise_and", "bitwise_or", "bitwise_xor"),
            *("bitwise_left_shift", "bitwise_right_shift"),
        )
    },
    "bilinear": (
        lambda x, y, w: F.bilinear(x, y, w),
        (torch.randn(4, 3), torch.randn(4, 5), torch.randn(2, 3, 5)),
    ),
}
SCANS: dict[str, Case] = {
    **{f"cumprod {dim}": (lambda x, dim=dim: x.cumprod(dim), (ROW,)) for dim in (0, 1, -1)},
    "cumprod of whole numbers": (lambda x: x.cumprod(1), (WHOLE,)),
    "cumprod of one": (lambda x: x.cumprod(0), (torch.tensor(3.0),)),
    **{
        f"{name} {dim}": (lambda x, f=f, dim=dim: f(x, dim), (EQUAL,))
        for name, f in (("cummax", torch.cummax), ("cummin", torch.cummin))
        for dim in (0, 1, 2)
    },
    "cummax with NaN": (lambda x: torch.cummax(x, 0), (ODD,)),
    "cummin with NaN": (lambda x: torch.cummin(x, 0), (OTHER,)),
    **{f"logcumsumexp {dim}": (lambda x, d=dim: x.logcumsumexp(d), (ROW,)) for dim in (0, 1, -1)},
    "logcumsumexp of infinities": (
        lambda x: torch.logcumsumexp(x, 0),
        (torch.tensor([-INF, -INF, 1.0, 200.0, -3.0, INF, 2.0]),),
    ),
    "cummax of whole numbers": (lambda x: torch.cummax(x, 1), (WHOLE,)),
}
SORTING: dict[str, Case] = {
    **{
        f"sort {dim} {descending}": (
            lambda x, dim=dim, descending=descending: torch.sort(
                x, dim=dim, descending=descending, stable=True
            ),
            (EQUAL,),
        )
        for dim in (0, 1, -1)
        for descending in (False, True)
    },
    "sort of NaN": (lambda x: torch.sort(x, stable=True), (torch.cat([ODD, OTHER]),)),
    "sort of whole numbers": (lambda x: torch.sort(x, dim=1, stable=True), (WHOLE,)),
    "sort of booleans": (lambda x: torch.sort(x > 0, dim=1, stable=True), (WHOLE,)),
    "sort of one": (lambda x: torch.sort(x), (torch.tensor(2.0),)),
    "argsort": (lambda x: torch.argsort(x, dim=1, stable=True), (EQUAL,)),
    "msort": (torch.msort, (ROW,)),
    "kthvalue": (lambda x: torch.kthvalue(x, 5), (ROW,)),
    "kthvalue, kept": (lambda x: torch.kthvalue(x, 2, 0, True), (ROW,)),
    "median": (torch.median, (ROW,)),
    "median of a dimension": (lambda x: torch.median(x, 1), (ROW,)),
    "median with NaN": (lambda x: torch.median(x, 0), (ODD,)),
    "nanmedian": (torch.nanmedian, (ODD,)),
    "nanmedian of a dimension": (lambda x: torch.nanmedian(x, 0, True), (ODD,)),
    "mode": (lambda x: torch.mode(x, 1)[0], (EQUAL,)),
    "quantile": (lambda x: torch.quantile(x, 0.3, dim=1), (ROW,)),
    "isin": (lambda x, y: torch.isin(x, y), (EQUAL, torch.tensor([1.0, 3.0]))),
    **{
        f"searchsorted {side}": (
            lambda b, x, side=side: torch.searchsorted(b, x, side=side),
            (SORTED, torch.tensor([[-3.0, -1.0], [NAN, 3.0]])),
        )
        for side in ("left", "right")
    },
    "searchsorted in rows": (
        lambda b, x: torch.searchsorted(b, x, out_int32=True),
        (ROW.sort(1)[0], ROW[:, :4]),
    ),
    "bucketize": (lambda x, b: torch.bucketize(x, b, right=True), (ODD, SORTED)),
    "histc": (lambda x: torch.histc(x, 8), (ROW,)),
    "histc in limits": (lambda x: torch.histc(x, 5, -1, 1), (ROW,)),
}
SCATTERING: dict[str, Case] = {
    **{
        f"diagonal {offset}": (
            lambda x, y, offset=offset: torch.diagonal_scatter(x, y, offset, 0, 2),
            (EQUAL, torch.randn(EQUAL.diagonal(offset, 0, 2).shape)),
        )
        for offset in (0, 1, -1)
    },
    "as strided": (
        lambda x, y: torch.as_strided_scatter(x, y, (2, 2), (6, 2), 1),
        (torch.randn(3, 5), torch.randn(2, 2)),
    ),
    **{
        f"put {accumulate}": (
            lambda x, i, y, accumulate=accumulate: torch.Tensor.put(x, i, y, accumulate),
            (ROW, torch.tensor([0, -1, 40]), torch.tensor([7.0, 8.0, 9.0])),
        )
        for accumulate in (False, True)
    },
    **{
        f"scatter_reduce {reduce} {include_self} {dim}": (
            lambda x, i, y, reduce=reduce, own=include_self, dim=dim: torch.scatter_reduce(
                x, dim, i, y, reduce, include_self=own
            ),
            (torch.randn(3, 6), INDEX, torch.randn(3, 5)),
        )
        for reduce in ("sum", "mean", "prod", "amax", "amin")
        for include_self in (True, False)
        for dim in (0, 1)
    },
    **{
        f"scatter {reduce}": (
            lambda x, i, y, reduce=reduce: torch.scatter(x, 1, i, y, reduce=reduce),
            (torch.randn(3, 6), INDEX, torch.randn(2, 4)),
        )
        for reduce in ("add", "multiply")
    },
    "index_reduce": (
        lambda x, i, y: torch.index_reduce(x, 1, i, y, "amax"),
        (torch.randn(2, 6), torch.tensor([1, 1, 3]), torch.randn(2, 3)),
    ),
}
POOLING: dict[str, Case] = {
    **{
        f"adaptive maximum {size}": (
            lambda x, size=size: F.adaptive_max_pool2d(x, size, return_indices=True),
            (BOX[0],),
        )
        for size in ((3, 4), (1, 1), (5, 7))
    },
    "adaptive maximum of a row": (lambda x: F.adaptive_max_pool1d(x, 5), (ROW,)),
    "adaptive maximum of a box": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 4)), (BOX,)),
    "adaptive average of a box": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)), (BOX,)),
    **{
        f"maximum of a box {options}": (
            lambda x, options=options: F.max_pool3d(x, return_indices=True, **options),
            (BOX,),
        )
        for options in (
            {"kernel_size": 2},
            {"kernel_size": 3, "stride": 2, "padding": 1},
            {"kernel_size": (2, 3, 2), "stride": (1, 2, 3), "ceil_mode": True},
            {"kernel_size": 2, "dilation": (2, 1, 3), "padding": 1},
        )
    },
    **{
        f"average of a box {options}": (
            lambda x, options=options: F.avg_pool3d(x, **options),
            (BOX,),
        )
        for options in (
            {"kernel_size": 2},
            {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
            {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
            {"kernel_size": (3, 2, 2), "ceil_mode": True, "divisor_override": 5},
        )
    },
    "maximum of a box of whole numbers": (
        lambda x: F.max_pool3d(x.long() - 9, 2, padding=1, return_indices=True),
        (BOX,),
    ),
    "average beside an infinity": (
        lambda x: F.avg_pool3d(torch.where(x == x.max(), INF, x), 2, 1),
        (BOX,),
    ),
    "area": (lambda x: F.interpolate(x, size=(3, 5, 4), mode="area"), (BOX,)),
    "instance norm with statistics": (
        lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False),
        (torch.randn(2, 3, 4), torch.randn(3), torch.rand(3) + 1),
    ),
}
CONVOLUTIONS: dict[str, Case] = {
    f"{'transposed' if transposed else 'plain'} {sizes} {groups}": (
        lambda x, w, b, s=sizes, t=transposed, g=groups: torch.convolution(
            x, w, b if g == 1 else None, s[0], s[1], s[2], t, [int(t), 0, 0], g
        ),
        (BOX, torch.randn(2, 2 // groups, *sizes[3]), torch.randn(2)),
    )
    for transposed in (False, True)
    for groups in (1, 2)
    for sizes in (
        ([1, 1, 1], [0, 0, 0], [2, 1, 1], (2, 3, 1)),
        ([2, 1, 3], [1, 2, 0], [1, 1, 2], (3, 2, 3)),
    )
}
WORDS = torch.tensor([1, 2, 0, 4, 3, 1, 5])
MEANINGS = torch.randn(6, 4)
EMBEDDINGS: dict[str, Case] = {
    **{
        f"bags {mode} {padding} {has_end}": (
            lambda i, o, mode=mode, padding=padding, has_end=has_end: F.embedding_bag(
                i, MEANINGS, o, mode=mode, padding_idx=padding,
                include_last_offset=has_end,
            ),
            (WORDS, torch.tensor([0, 2, 2, 7] if has_end else [0, 2, 2, 6])),
        )
        for mode in ("sum", "mean", "max")
        for padding, has_end in ((None, False), (2, True))
    },
    **{
        f"bags that end early {mode} {padding}": (
            lambda i, o, mode=mode, padding=padding: F.embedding_bag(
                i, MEANINGS, o, mode=mode, padding_idx=padding, include_last_offset=True
            ),
            (WORDS, torch.tensor([0, 2, 2, 5])),
        )
        for mode in ("sum", "mean", "max")
        for padding in (None, 2)
    },
    "bags of one size": (lambda i: F.embedding_bag(i, MEANINGS), (WORDS[:6].view(2, 3),)),
    "weighted bags": (
        lambda i, o, w: F.embedding_bag(
            i, MEANINGS, o, mode="sum", per_sample_weights=w
        ),
        (WORDS.int(), torch.tensor([0, 3], dtype=torch.int32), torch.randn(7)),
    ),
}  # fmt: skip
GROUPS = {
    "convolutions": CONVOLUTIONS,
    "embeddings": EMBEDDINGS,
    "pointwise": POINTWISE,
    "pooling": POOLING,
    "scans": SCANS,
    "scattering": SCATTERING,
    "sorting": SORTING,
}


class Together(torch.nn.Module):
    """Calls many functions, each with its own inputs, so that one lowering has all."""

    def __init__(self, cases: dict[str, Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """All results, one after the other."""
        rest, results = list(inputs), []
        for function, example in self.cases.values():
            own, rest = rest[: len(example)], rest[len(example) :]
            results += as_list(function(*own))
        return tuple(results)


def as_list(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def portable() -> ExportRecipe:
    return ExportRecipe(name="portable")


def xnnpack() -> ExportRecipe:
    return xnnpack_recipes.fp32(RecipeContext(Options({}, "//x:r"), "//x:r"))


def lowered(method: Method, recipe: ExportRecipe, path: str = "fast") -> Any:
    with fast_path.chosen(path):
        return stages.run(
            ModelSpec({"forward": method}), recipe, Progress(), "//x:m", etrecord=False
        )


def run(manager: Any, inputs: tuple[torch.Tensor, ...], to: Path) -> list[torch.Tensor]:
    file = to / "p.pte"
    file.write_bytes(manager.buffer)
    with Program(file) as program:
        arguments = [arrays.of_torch(x.contiguous()) for x in inputs]
        return [arrays.to_torch(x) for x in outputs_of(program, "forward", arguments)]


@pytest.mark.few(1)
@pytest.mark.parametrize("recipe", [portable, xnnpack])
@pytest.mark.parametrize("group", sorted(GROUPS))
def test_the_runtime_gives_eagers_values(
    group: str, recipe: Callable[[], ExportRecipe], tmp_path: Path
) -> None:
    cases = GROUPS[group]
    net = Together(cases)
    inputs = tuple(x.contiguous() for _, own in cases.values() for x in own)
    got = run(lowered(Method(net, inputs), recipe()), inputs, tmp_path)
    wrong = {}
    for name, (function, own) in cases.items():
        for number, want in enumerate(as_list(function(*own))):
            value = got.pop(0)
            try:
                torch.testing.assert_close(value, want, equal_nan=True, rtol=2e-5, atol=1e-5)
            except AssertionError as error:
                wrong[f"{name}, output {number}"] = str(error)
    assert not wrong
    assert not got


class Sorted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, places = torch.sort(x, dim=1, stable=True)
        return values, places, x.cumprod(1), *torch.cummax(x, 1), torch.median(x, 1)[0]


@pytest.mark.few(1)
@pytest.mark.parametrize("path", ["fast", "stock"])
def test_dynamic_sizes(path: str, tmp_path: Path) -> None:
    """The number of steps is that of the largest size, and all sizes are right."""
    size = torch.export.Dim("size", min=2, max=70)
    method = Method(Sorted(), (torch.randn(3, 9),), dynamic_shapes=({1: size},))
    manager = lowered(method, xnnpack(), path)
    for count in (2, 9, 64, 65, 70):
        x = torch.randint(-3, 4, (3, count)).float() / 2
        for value, want in zip(run(manager, (x,), tmp_path), Sorted()(x), strict=True):
            torch.testing.assert_close(value, want)


class InBranches(torch.nn.Module):
    def forward(self, x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        return torch.cond(first, lambda x: x.cumprod(0), lambda x: torch.sort(x)[0], (x,))


def test_branches(tmp_path: Path) -> None:
    x = torch.randn(7)
    inputs = (x, torch.tensor(True))
    manager = lowered(Method(InBranches(), inputs), xnnpack())
    for first in (True, False):
        want = x.cumprod(0) if first else x.sort()[0]
        [got] = run(manager, (x, torch.tensor(first)), tmp_path)
        torch.testing.assert_close(got, want)


def test_all_have_no_kernel() -> None:
    """An operator with a kernel must not lose it."""
    registry = kernels.registered()
    for op in decompositions.TABLE:
        base = op._schema.name
        own = [name for name in registry if name.split(".")[0] == base]
        has_one = any(name.endswith(("out", "values")) for name in own)
        overloads = ("decimals", "reduce", "value_reduce", "Scalar_Tensor")
        lacks_one = op in decompositions.LACKING or op._overloadname in overloads
        assert not has_one or lacks_one, (op, own)


def _asked(taken: list[Any]) -> ExportRecipe:
    """A recipe whose partitioner lists nothing, takes nothing, and sees the graph."""

    class Looking(Partitioner):
        def partition(self, exported_program: Any) -> PartitionResult:
            taken.append({str(n.target) for n in exported_program.graph.nodes})
            return PartitionResult(tagged_exported_program=exported_program, partition_tags={})

    config = EdgeCompileConfig(_check_ir_validity=False)
    return ExportRecipe(
        name="looking", lowering_recipe=LoweringRecipe([Looking()], edge_compile_config=config)
    )


def test_partitioners_come_first() -> None:
    """One that lists nothing is shown the operator; what it leaves is decomposed afterwards."""
    seen: list[set[str]] = []
    net = Together({"cumprod": (lambda x: x.cumprod(0), (ROW,))})
    manager = lowered(Method(net, (ROW,)), _asked(seen))
    assert any("cumprod" in name for name in seen[0])
    assert not any("cumprod" in name for name in seen[-1])
    assert kernels.missing(manager) == []


def test_an_app_keeps_its_own_kernel() -> None:
    """An operator that the recipe preserves stays, for the app to register."""
    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.cumprod.default])
    recipe = ExportRecipe(name="own", lowering_recipe=LoweringRecipe(edge_compile_config=config))
    net = Together({"cumprod": (lambda x: x.cumprod(0), (ROW,))})
    [call] = kernels.missing(lowered(Method(net, (ROW,)), recipe))
    assert call["operator"] == "aten::cumprod.out"
