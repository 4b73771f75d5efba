"""Operators that are written out give eager's values in the runtime, also where others differ."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import xnnpack_recipes
from etbuild import Method, ModelSpec, RecipeContext, write_out
from etbuild.exact import CHOICES, REASONS, RULES
from etbuild.options import Options
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


NAN = torch.nan
ATEN = torch.ops.aten
# Of attention: the second row sees nothing.
SEEN = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
# Rules for delegates that the kernels need none of.
DELEGATES = (
    *(
        "attention_heads",
        "circular_padding",
        "counted_back",
        "einsum",
        "elu",
        "even_windows",
        "half_guard",
        "half_quotient",
        "half_range",
        "half_rms_norm",
        "half_root",
        "half_variance",
        "hard_sigmoid",
    ),
    *(
        "hardtanh",
        "instance_norm",
        "log_softmax",
        "many_dimensions",
        "no_batch",
        "norm_order",
        "norm_dimensions",
        "one_place",
        "padded_average",
        "power_root",
        "product_batches",
        "product_type",
        "rank",
        "reflection_pad",
        "scattered_number",
        "sum_factor",
        "swish",
        "uneven_padding",
    ),
)


def portable() -> ExportRecipe:
    """ExecuTorch's own kernels, with what recipes of OpenVINO and QNN write out."""
    return ExportRecipe(name="portable", aten_transform_passes=[write_out(*DELEGATES)])


def xnnpack() -> ExportRecipe:
    """The recipe that ships."""
    return xnnpack_recipes.fp32(RecipeContext(Options({}, "//x:r"), "//x:r"))


def differences(
    cases: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]],
    recipe: ExportRecipe,
    to: Path,
) -> dict[str, float]:
    """Largest difference of each case to eager's values."""
    inputs = tuple(x.contiguous() for _, own in cases.values() for x in own)

    def together(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest, results = list(given), []
        for function, example in cases.values():
            own, rest = rest[: len(example)], rest[len(example) :]
            results += _listed(function(*own))
        return tuple(results)

    model = ModelSpec({"forward": Method(Function(together).eval(), inputs)})
    manager = stages.run(model, recipe, Progress(), "//x:m", etrecord=False)
    path = to / "p.pte"
    path.write_bytes(manager.buffer)
    with Program(path) as program:
        got = [
            arrays.to_torch(x)
            for x in outputs_of(program, "forward", [*map(arrays.of_torch, inputs)])
        ]
    wrong = {}
    for name, (function, own) in cases.items():
        for want in _listed(function(*own)):
            value = got.pop(0)
            assert value.shape == want.shape and value.dtype == want.dtype, name
            wrong[name] = max(wrong.get(name, 0), _largest(value, want))
    assert not got
    return wrong


def _listed(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _largest(value: torch.Tensor, want: torch.Tensor) -> float:
    if not want.is_floating_point():
        return float((value != want).any())
    same = (value == want) | (value.isnan() & want.isnan())
    # NaN beside a number is as far off as can be.
    difference = (value.double() - want.double()).abs().where(~same, 0).nan_to_num(torch.inf)
    return max(difference.flatten().tolist(), default=0.0)


X, Y, B = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)
WHOLE = torch.tensor([-7, -4, -3, -1, 0, 1, 3, 4, 7])
PICTURE = torch.randn(1, 2, 9, 11)
WEIGHT = torch.randn(4, 4, 3, 3)
LAST = torch.randn(3, 2, 3, 3).to(memory_format=torch.channels_last)
FOUR = torch.linspace(-1, 1, 392).view(2, 4, 7, 7)
ONE_SIZE = (
    lambda x: F.conv2d(x, WEIGHT, padding="valid"),
    lambda x: F.conv2d(x, WEIGHT, stride=2, padding="valid", dilation=(2,)),
    lambda x: F.conv_transpose2d(x, WEIGHT, None, (2,), (1,)),
    lambda x: torch.convolution(x, WEIGHT, None, [2], [1], [1], True, [1], 1),
    lambda x: F.max_pool2d(x, [3], [2], [1]),
    lambda x: F.avg_pool2d(x, [3], padding=[1]),
)


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def _rows_of_groups(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:  # noqa: A002
    """As the library transformers has it for 32-bit floats: zeros behind the last group."""
    result = input.new_zeros(input.shape[0], weight.shape[2])
    ends = offs.tolist()
    for start, end, matrix in zip([0, *ends], ends, weight, strict=False):
        result[start:end] = input[start:end] @ matrix
    return result


@_rows_of_groups.register_fake
def _(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:  # noqa: A002
    return input.new_empty(input.shape[0], weight.shape[2])


def _shifted(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x <<= -1
    x %= 5
    return x


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    **{
        f"rows of groups that end at {ends}": (
            lambda x, w, ends=ends: _rows_of_groups(x, w, torch.tensor(ends, dtype=torch.int32)),
            (torch.randn(rows, 4), torch.randn(3, 4, 5)),
        )
        for rows, ends in ((2, (0, 1, 2)), (3, (2, 2, 2)), (7, (3, 3, 7)), (7, (0, 2, 6)))
    },
    "rows of groups, 16 bits": (
        lambda x, w: F.grouped_mm(
            x.bfloat16(), w.bfloat16(), offs=torch.tensor([1, 4, 6], dtype=torch.int32)
        ),
        (torch.arange(48.0).view(6, 8) - 20, torch.arange(192.0).view(3, 8, 8) % 7),
    ),
    "rows of more groups than 16 bits count": (
        lambda x, w: F.grouped_mm(
            x.bfloat16(), w.bfloat16(), offs=torch.tensor([0] * 301 + [2] * 2, dtype=torch.int32)
        ),
        (torch.arange(16.0).view(2, 8), torch.arange(303.0 * 64).view(303, 8, 8) % 7),
    ),
    "products in batches, 16 bits": (
        lambda x, w: F.grouped_mm(x.bfloat16(), w.bfloat16()),
        (torch.arange(48.0).view(3, 2, 8) % 5, torch.arange(192.0).view(3, 8, 8) % 7),
    ),
    "squares of booleans": (lambda x: (x > 0).square(), (torch.randn(3, 4),)),
    "products of one type": (
        lambda x: (x.int() * 0.5, (x > 0) * 3, x.to(torch.int8) * 100, 3 * x[0, 0], x.long() * 2),
        (torch.randn(3, 4) * 9,),
    ),
    **{
        f"one size for all dimensions {number}": (function, (FOUR,))
        for number, function in enumerate(ONE_SIZE)
    },
    **{
        f"without a batch {number}": (function, (torch.randn(4, 6, 5),))
        for number, function in enumerate(
            (
                lambda x: F.conv1d(x[:, 0], WEIGHT[..., 0], padding="same"),
                lambda x: F.conv2d(x, WEIGHT, padding=1),
                lambda x: F.conv_transpose1d(x[:, 0], WEIGHT[..., 0], stride=2),
                lambda x: F.conv_transpose2d(x, WEIGHT, stride=2),
                lambda x: F.avg_pool1d(x[0], 3, 2, 1),
                lambda x: F.avg_pool2d(x, 2, ceil_mode=True),
                lambda x: F.max_pool1d(x[0], 2),
                lambda x: F.max_pool2d(x, 3, 2, 1),
                lambda x: F.adaptive_avg_pool1d(x[0], 1),
                lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
                lambda x: F.linear(x[0, :4, 0], WEIGHT[..., 0, 0]),
            )
        )
    },
    "layer of five dimensions": (
        lambda x: F.linear(x, WEIGHT[0, 0], WEIGHT[0, 0, 0]),
        (torch.randn(2, 1, 3, 2, 3),),
    ),
    **{
        f"product {number}": (torch.matmul, (torch.randn(shape), torch.randn(other)))
        for number, (shape, other) in enumerate(
            (
                ((4,), (4,)),
                ((4,), (4, 3)),
                ((4,), (2, 4, 3)),
                ((3, 4), (4,)),
                ((2, 3, 4), (4,)),
                ((2, 3, 4), (4, 5)),
                ((2, 1, 3, 4), (3, 4, 5)),
            )
        )
    },
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
    **{
        f"uneven padding {padding} {value}": (
            lambda x, padding=padding, value=value: F.pad(x, padding, value=value) * 1.0,
            (PICTURE,),
        )
        for padding in ((2, 0, 1, 3), (0, 2), (0, 0, 3, 0), (1, 1, 0, 2))
        for value in (0.0, 1.5)
    },
    "uneven padding, read as other sizes": (
        lambda x: (
            F.pad(x, (1, 0)).view(1, 2, 12, 9)[:, :, 1:].view(1, 2, 9, 11),
            F.pad(x, (0, 1)).transpose(0, 1).view(2, 108).t(),
            F.pad(x, (2, 1)).unsqueeze(3).flatten(2).view(-1),
        ),
        (PICTURE,),
    ),
    **{
        f"replicated and cut {padding}": (
            lambda x, padding=padding: F.pad(x, padding, mode="replicate") * 1.0,
            (PICTURE,),
        )
        for padding in ((5, -4, -4, 3), (-2, 1, 0, 0), (12, -11, 1, -2))
    },
    **{
        f"einsum {equation}": (
            lambda x, y, equation=equation: torch.einsum(equation, x, y),
            (torch.randn(*first), torch.randn(*second)),
        )
        for equation, first, second in (
            ("ij,kj->ik", (3, 4), (5, 4)),
            ("ij,kj->ki", (3, 4), (5, 4)),
            ("...ij,kj->...ik", (2, 3, 4), (5, 4)),
            ("bqhd,bkhd->bhqk", (1, 3, 2, 4), (1, 5, 2, 4)),
            ("bhqk,bkhd->bqhd", (1, 2, 3, 5), (1, 5, 2, 4)),
            ("bcd,cde->be", (2, 3, 4), (3, 4, 5)),
            ("i,j->ij", (3,), (4,)),
        )
    },
    "within 16 bits": (
        lambda x, y: (
            *(torch.linalg.vector_norm(x, order, 1) for order in (2, 3, 1, torch.inf, 0)),
            torch.linalg.vector_norm(x * 0, 2, 0, keepdim=True),
            torch.linalg.vector_norm(x),
            F.normalize(x, dim=-1),
            F.cosine_similarity(x, y, 1),
            F.pairwise_distance(x, y, keepdim=True),
            torch.ops.aten.norm.ScalarOpt_dim(x, 2, [1], True),
            *(x.var(1), x.var(), x.std(1, correction=0, keepdim=True), x.std(0, False), x.std()),
            *(
                (x * x).mean(1).sqrt(),
                x * ((x**2).sum(1, True) + 0.1).rsqrt(),
                x.square().sum().sqrt(),
            ),
            *((x.var(1) + 1e-5).sqrt(), (x * x).mean((0, 1)) ** -0.5, (x * y).mean(1) ** 2),
            *(F.rms_norm(x, (4,)), F.rms_norm(x, (4,), y[0], 0.1)),
            *(
                x / (x.abs() + 1e-6),
                x * (x.abs() + 1e-9).rsqrt(),
                x / x.clamp(min=1e-8).sum(1, True),
            ),
            *(x * 20000 / (x * 9000).abs().amax(1, keepdim=True), x / y.abs().sum(1, keepdim=True)),
            x / y[:1].abs().expand_as(x).clamp(min=0.1),
            F.softplus(9 * x),
            F.softplus(x, 3, 2),
            F.mish(9 * x),
            2.0**x,
            0.3**x,
            torch.erfc(x),
        ),
        (X, X.flip(0) * 2),
    ),
    **{
        f"circular padding {padding}": (
            lambda x, padding=padding: F.pad(x, padding, mode="circular") * 1.0,
            (PICTURE,),
        )
        for padding in ((2, 1, 0, 3), (1, 0, 0, 0), (0, 2, 1, 1))
    },
    "sums of whole numbers": (
        lambda x, y: (
            x.sum(1),
            x.sum(-1, keepdim=True),
            x.T.sum(0),
            torch.nansum(x, 0),
            y.sum(1, dtype=torch.int32),
            y.sum(1),
            x.sum(),
        ),
        (
            torch.tensor([[387420489, 7, 16777217], [-387420489, 16777219, -3]]),
            torch.tensor([[387420489, 7], [1, 16777217]], dtype=torch.int32),
        ),
    ),
    "instance norms": (
        lambda x, w: (
            F.instance_norm(x),
            F.instance_norm(x, weight=w, bias=w, eps=0.1),
            F.instance_norm(x, w, w.abs(), w, use_input_stats=False, eps=0.1),
            F.instance_norm(x[..., 0], w, w.abs(), None, w, False),
        ),
        (PICTURE, torch.tensor([0.5, -2.0])),
    ),
    "attention of other lengths, some rows of which see nothing": (
        lambda x, y: (
            F.scaled_dot_product_attention(x, y, y),
            F.scaled_dot_product_attention(x, y, y, SEEN, scale=0.3),
            F.scaled_dot_product_attention(x[None], y[None], y[None], SEEN.float().log()),
            F.scaled_dot_product_attention(x[0], y[0], y[0], SEEN),
        ),
        (torch.randn(2, 3, 4), torch.randn(2, 5, 4)),
    ),
    "norms of several dimensions": (
        lambda x, w: (F.rms_norm(x, (3, 4)), F.rms_norm(x, (3, 4), w.exp(), 0.1)),
        (torch.randn(2, 3, 4), torch.randn(3, 4)),
    ),
    "sums with factors": (
        lambda x: (
            torch.add(x, x.exp(), alpha=-0.25),
            torch.sub(x, x.exp(), alpha=3),
            torch.rsub(x, 2.5, alpha=1.5),
            torch.rsub(x, x.exp(), alpha=1.5),
        ),
        (X,),
    ),
    **{
        f"padded average {settings}": (
            lambda x, settings=settings: F.avg_pool2d(x, *settings),
            (torch.randn(1, 2, 8, 9),),
        )
        # The last one has a window that would begin in the padding behind.
        for settings in (
            (3, 1, 1),
            (3, 2, 1, False, False),
            ((4, 2), (2, 3), (1, 0)),
            (2, 3, 1, True),
        )
    },
    "padded average of rows": (lambda x: F.avg_pool1d(x, 4, 3, 2, True), (torch.randn(2, 3, 9),)),
    "hard swish": (lambda x: F.hardswish(3 * x) + F.hardsigmoid(x - 2), (PICTURE,)),
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
    **{
        f"power {exponent}": (lambda x, exponent=exponent: x**exponent, (WHOLE * 1000003,))
        for exponent in (2, 3, 7)
    },
    "power of a number": (lambda x: (-3) ** x, (WHOLE.abs() * 7,)),
    "power of tensors": (
        lambda x, y: x**y,
        (WHOLE, torch.tensor([0, 3, 63, 64, 1, 127, 5, 200, 9])),
    ),
    "inverse powers": (
        lambda x, y: x**y,
        (torch.tensor([1, -1, -1, 2, 3]), torch.tensor([-5, -3, -128, -1, -128])),
    ),
    **{
        f"gather by {dtype}": (
            lambda x, i, dtype=dtype: x.gather(1, i.to(dtype)),
            (X, torch.tensor([[0, 1], [2, 2], [3, 0]])),
        )
        for dtype in (torch.int32, torch.int64)
    },
    "scatter by int32": (
        lambda x, i, y: (x.scatter(1, i, y), x.scatter(1, i, 2.5), x.scatter_add(1, i, y)),
        (X, torch.tensor([[0, 1], [2, 3], [3, 0]], dtype=torch.int32), torch.randn(3, 2)),
    ),
    "gradient of a maximum": (
        lambda x, g: torch.ops.aten.max_pool2d_with_indices_backward(
            g,
            x,
            [3, 3],
            [2, 2],
            [1, 1],
            [1, 1],
            False,
            torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])[1],
        ),
        (PICTURE, torch.randn(1, 2, 5, 6)),
    ),
    **{
        f"pad {padding}": (lambda x, padding=padding: F.pad(x, padding, value=1.5), (PICTURE,))
        for padding in ((-1, 2, 3, -2), (-1, -2), (0, 0, -4, 0, 1, -1))
    },
    "output padding of the stride": (
        lambda x: F.conv_transpose2d(x, torch.ones(2, 2, 2, 2) * 0.3, None, 1, 0, 1, 2, 2),
        (PICTURE,),
    ),
    "channels last": (
        lambda x: [
            f(x.to(memory_format=torch.channels_last))
            for f in (lambda y: y.argmax(1), lambda y: y.argmin(3, True), lambda y: y.cumsum(2))
        ],
        (PICTURE,),
    ),
    "sum of a number": (lambda x: x.sum(0), (torch.tensor(3.0),)),
    "copy without waiting": (lambda x: x.to(torch.float64, non_blocking=True) * 2, (X,)),
    **{
        f"fraction beside {dtype} {name}": (
            lambda x, function=function: function(x),
            (WHOLE.to(dtype),),
        )
        for dtype in (torch.bool, torch.int32, torch.int64)
        for name, function in {
            "sum": lambda x: x + 0.5,
            "reversed sum": lambda x: 0.5 + x,
            "difference": lambda x: 1.5 - x if x.dtype != torch.bool else x + 1.5,
            "multiple": lambda x: torch.add(x, 2.5, alpha=3) if x.dtype != torch.bool else x * 2.5,
        }.items()
    },
    **{
        f"remainder of bytes by {divisor}": (
            lambda x, divisor=divisor: x % divisor,
            (torch.arange(250, dtype=torch.uint8),),
        )
        for divisor in (7, -3)
    },
    "bytes and other numbers": (
        lambda x: (x + -3, x - 300, x * -2, torch.fmod(x, -3), torch.add(x, x, alpha=-2)),
        (torch.arange(256, dtype=torch.uint8),),
    ),
    "bytes between other numbers": (
        lambda x: (x.clamp(-5, 100), x.clamp(min=-9), x.clamp(max=-200), torch.clamp_min(x, -3)),
        (torch.arange(256, dtype=torch.uint8),),
    ),
    **{
        f"shift of {dtype}": (
            lambda x, y: (x << y, x >> y, x << -1, x >> 100, x << 2, x >> 1),
            (WHOLE.to(dtype), torch.tensor([0, 1, 7, 8, 31, 32, 64, -1, -9]).to(dtype)),
        )
        for dtype in (torch.int8, torch.int32, torch.int64, torch.uint8)
    },
    "numbers beside doubles": (
        lambda x: tuple(1e9 * y for y in (x * 0.1, 0.3 - x, x / 3.3, x % 0.7, x.sum(1))),
        (X.double(),),
    ),
    "floors of quotients": (
        lambda x, y: (x // y, torch.div(y, x, rounding_mode="floor"), x // 2.5),
        (
            torch.tensor([0.0, -0.0, 3.0, -3.0, 7.5, torch.inf, -7.5]),
            torch.tensor([0.0, 2.0, -0.0, 0.0, -2.5, 2.0, torch.inf]),
        ),
    ),
    "averages without a batch": (
        lambda x: (F.avg_pool2d(x, 3), F.avg_pool1d(x[0], 2, 1)),
        (PICTURE[0],),
    ),
    "other orders": (
        lambda x, y: [
            f(z, y)
            for z in (x.to(memory_format=torch.channels_last), x.permute(0, 1, 3, 2).mT)
            for f in (
                lambda z, y: torch.lerp(z, y, 0.3).mean((2, 3)),
                lambda z, y: torch.lerp(y, z, z),
                lambda z, y: z.mT.index_fill(2, WHOLE[5:7], 2.0),
            )
        ],
        (PICTURE, PICTURE.flip(0) * 2),
    ),
    "layouts of two": (
        lambda x: [
            f(x.to(memory_format=torch.channels_last), x.flip(0))
            for f in (torch.minimum, torch.maximum, torch.pow, torch.remainder)
        ],
        (PICTURE.abs() + 1,),
    ),
    "two types": (
        lambda x, y, z: (x % z, torch.fmod(z, x), x & y, x ^ y, torch.cat([x, y, z])),
        (WHOLE, torch.arange(9, dtype=torch.int16), torch.rand(9) + 1),
    ),
    **{
        f"a single {other.dtype} beside {x.dtype}": (
            lambda x, y: (
                *(torch.maximum(x, y), torch.minimum(y, x), x == y, y < x, x >= y),
                *(x.clamp(y), torch.pow(x.abs(), y.abs())),
            ),
            (x, other),
        )
        for x, other in (
            (torch.tensor([0, 3, 255], dtype=torch.uint8), torch.tensor(-1)),
            (torch.tensor([0, 3, 255], dtype=torch.uint8), torch.tensor(-1, dtype=torch.int8)),
            (torch.tensor([1 / 3, -2.0]), torch.tensor(1 / 3, dtype=torch.float64)),
            (torch.tensor([1 / 3, -2.0]).half(), torch.tensor(1 / 3)),
        )
    },
    "numbers of other types": (
        lambda x, y: (
            *(ATEN.add.Scalar(y, 3), ATEN.xlogy.Scalar_Other(x, 300), x.clamp(2, 9)),
            *(y.clamp(2, 3), y | 5, ATEN.mul.Scalar(x, 0.1), F.threshold(x.int(), -0.5, 1.7)),
        ),
        (torch.tensor([0, 3, 255], dtype=torch.uint8), torch.tensor([True, False])),
    ),
    "loss of whole numbers": (
        lambda x, y: (
            F.pairwise_distance(x, y),
            F.margin_ranking_loss(x, y, y.sign(), margin=1.5, reduction="none"),
        ),
        (WHOLE.view(3, 3), WHOLE.flip(0).view(3, 3)),
    ),
    "indices from the end": (
        lambda x, i: torch.take_along_dim(x, i, 1),
        (X, torch.tensor([[0, -1], [-4, 2], [3, -2]])),
    ),
    "shape of a number": (
        lambda x: (x.permute([]) * 2, torch.unfold_copy(x, 0, 1, 1), x.unfold(0, 1, 2)),
        (torch.tensor(3.0),),
    ),
    "narrow copies": (
        lambda x: (torch.narrow_copy(x, -1, 1, 2), torch.narrow_copy(x, 0, 1, 0)),
        (X,),
    ),
    "empty padding": (
        lambda x: (
            F.pad(x[:, :0], (1, 2), value=2.5),
            F.pad(x, (-4, 3)) + 1,
            F.pad(x, (0, 0, -3, 0), value=1.0),
            F.pad(x.long(), (1, 0, -2, -1), value=7),
        ),
        (X,),
    ),
    "views of attention": (
        lambda x: (
            F.scaled_dot_product_attention(x, x, x).flatten(),
            (F.scaled_dot_product_attention(x, x, x).relu() * 2).view(2, -1),
            F.scaled_dot_product_attention(x, x, x, is_causal=True).reshape(6, 5, 7),
            F.scaled_dot_product_attention(x, x, x).flatten(2),
        ),
        (torch.randn(2, 3, 5, 7),),
    ),
    "what counts for nothing": (
        lambda b, x, y: torch.addmm(b, x, y, beta=0, alpha=3),
        (torch.tensor([[NAN], [1.0], [NAN]]), X, Y),
    ),
    "single whole numbers": (
        lambda *values: [
            y
            for x in values
            for y in (x + 3, 3 - x, x * 3, x - 3, x // 3, x % 3, x**2, torch.add(x, x, alpha=3))
        ],
        tuple(
            torch.tensor(7, dtype=dtype)
            for dtype in (torch.int8, torch.int16, torch.int32, torch.uint8)
        ),
    ),
    "halves and numbers": (
        lambda x, y: (
            *(x * 1e5, x / 1e5, x * 1e-6, 1e6 / x, x // 1e5, x.clone().mul_(100000)),
            *(torch.div(x, 1e5, rounding_mode="trunc"), x.eq(70000), x.lt(1e10), x.ge(-1e9)),
            *(y.eq(0.1), y.lt(0.1), y.ge(1.001), y.ne(0.1), y.bfloat16().eq(1.001)),
        ),
        (
            torch.tensor([1.0, torch.inf, 2.0, 65504.0, 1e-4, -3.0]).half(),
            torch.tensor([1.0, 0.1, 2.0]).half(),
        ),
    ),
    "half": (
        lambda x, y: (x.angle(), x.i0(), y.angle(), y + 1.5, y * 0.3, y / 3.7, F.softshrink(y)),
        (X.half(), torch.tensor(-2.5, dtype=torch.float16)),
    ),
    "factors that keep a size": (
        lambda x, y, z: (
            F.interpolate(x, scale_factor=1.1, mode="linear"),
            F.interpolate(y, scale_factor=1.1),
            F.interpolate(y, scale_factor=(2, 1.1), mode="bilinear"),
            F.interpolate(y, scale_factor=1.1, mode="bilinear", antialias=True),
            F.interpolate(z, scale_factor=1.25, mode="trilinear"),
            F.interpolate(z, scale_factor=(1.25, 1.7, 1)),
        ),
        (torch.randn(1, 2, 7), torch.randn(1, 2, 20, 7), torch.randn(1, 2, 4, 5, 3)),
    ),
    "antialiased": (
        lambda x: [
            F.interpolate(x, mode=mode, align_corners=align, antialias=True, **size)
            for mode in ("bilinear", "bicubic")
            for align in (False, True)
            for size in ({"size": (1, 40)}, {"scale_factor": 0.4}, {"scale_factor": (2.0, 1.1)})
        ],
        (torch.randn(1, 2, 20, 7),),
    ),
    "weights with channels last": (
        lambda x: [
            f(y)
            for y in (x, x[..., :1, :1].relu())
            for f in (
                lambda y: F.conv2d(y, LAST, padding=1) + 1,
                lambda y: F.conv2d(y, LAST, padding="same").flip(1),
                lambda y: F.conv_transpose2d(y, LAST[:2]).flatten(),
                lambda y: F.conv2d(y.double(), LAST.double(), padding=1),
            )
        ],
        (PICTURE,),
    ),
    "five dimensions with channels last": (
        lambda x: (
            x.to(memory_format=torch.channels_last_3d) + 1,
            x.contiguous(memory_format=torch.channels_last_3d).flip(0),
            torch.where(x.clone(memory_format=torch.channels_last_3d) > 0, x, torch.ones(5)),
        ),
        (torch.randn(1, 2, 3, 4, 5),),
    ),
    "remainders of numbers": (
        lambda x, y, z: (5 % x, 300 % y, -7 % z, 5.5 % x, 1e5 * (0.7 % z.double())),
        (
            torch.tensor([3, -3, 2]),
            torch.tensor([3, 7, -2], dtype=torch.int8),
            torch.tensor([3.0, -3.0, 2.5]),
        ),
    ),
    "other names": (
        lambda x, y, z: (
            *(torch.subtract(x, 300), torch.multiply(x, -2), torch.subtract(y, 1.5)),
            *(torch.divide(z, z.flip(0), rounding_mode="floor"), torch.true_divide(y, 3.7)),
            torch.concat([x, z]),
        ),
        (
            torch.arange(256, dtype=torch.uint8),
            torch.tensor(-2.5, dtype=torch.float16),
            torch.tensor([0.0, 3.0, -7.5]),
        ),
    ),
    "in place": (
        lambda x, y, z: (
            *(x.clone().remainder_(3), x.clone().pow_(3), x.clone().add_(300)),
            *(y.clone().subtract_(300), y.clone().mul_(-2), y.clone().fmod_(-3)),
            *(z.clone().div_(z.flip(0), rounding_mode="floor"), z.clone().floor_divide_(z)),
            *(F.gelu(z), F.elu_(z.clone(), 0.7), F.celu_(z.clone(), 0.7), F.hardtanh_(z + 0.0)),
            *(z.clone().index_add_(0, WHOLE[4:6], z[:2], alpha=2), _shifted(x)),
        ),
        (WHOLE, torch.arange(256, dtype=torch.uint8), torch.tensor([0.0, 3.0, -7.5])),
    ),
    "bounds of hardtanh": (
        lambda x: (F.hardtanh(x), F.hardtanh(x, -0.3, 1.0), F.hardtanh(x, -1.0, 0.5)),
        (X,),
    ),
    "logarithms of softmax": (
        lambda x: (F.log_softmax(x, 0), F.log_softmax(x * 50, -1), x.sum().log_softmax(0)),
        (X,),
    ),
    "powers of a number that wraps": (
        lambda x: 300**x,
        (torch.tensor([0, 1, 2, 3], dtype=torch.int8),),
    ),
    "multiples of booleans": (
        lambda x: x.index_add(0, torch.tensor([0, 1]), x[:2], alpha=2),
        (WHOLE.view(3, 3) > 0,),
    ),
    "norms of other orders": (
        lambda x: tuple(
            torch.linalg.vector_norm(x, order, dims) / 50
            for order in (0, 3, 0.5, math.inf, -math.inf, -1)
            for dims in (None, (1,), (-1, 0))
        ),
        (torch.randn(3, 4, 5) + 3,),
    ),
    "factors of ELU": (
        lambda x: (
            F.selu(x),
            F.celu(x, 0.7),
            F.celu(x, -0.7) / 50,
            torch.ops.aten.elu(x, 0.6, 1.5, 2.5),
            F.elu(x, 0.5),
        ),
        (torch.randn(64),),
    ),
    "even windows": (
        lambda x: (
            F.avg_pool2d(x, 4),
            F.avg_pool2d(x, (4, 6), (4, 6), (1, 2)),
            F.avg_pool2d(x, 8, ceil_mode=True),
            F.avg_pool2d(x[:, :, 1:, 2:], 4, ceil_mode=True),
            F.avg_pool2d(x, 4, padding=2, count_include_pad=False),
            F.avg_pool2d(x, 4, divisor_override=3),
            F.avg_pool2d(x, 4, 2),
            F.adaptive_avg_pool2d(x, (4, 2)),
        ),
        (torch.randn(1, 2, 16, 24),),
    ),
    "norms of several types": (
        lambda x, w: (
            F.layer_norm(x, (4,), w),
            F.rms_norm(x, (4,), w),
            F.group_norm(x, 1, w[:3]),
            F.instance_norm(x, weight=w[:3]),
            F.batch_norm(x, w[:3], w[:3].abs() + 1),
        ),
        (torch.randn(2, 3, 4).half(), torch.tensor([0.5, 1.3, -0.7, 2.0])),
    ),
    "joined, put into others, losses of several types": (
        lambda x, y: (
            *(f([x, y]) for f in (torch.vstack, torch.hstack, torch.dstack, torch.column_stack)),
            torch.block_diag(x, y),
            torch.select_scatter(x, y[0], 0, 0),
            torch.slice_scatter(y, x[:1], 0, 0, 1),
            torch.diagonal_scatter(x, y.diagonal()),
            torch.ldexp(x, y.to(torch.int32)),
            F.huber_loss(x, y),
            F.soft_margin_loss(x, y.sign()),
        ),
        (torch.randn(3, 3).half(), torch.randn(3, 3)),
    ),
    "whole numbers behind fractions": (
        lambda x, y: torch.vstack([x, y]),
        (torch.randn(2, 3), torch.ones(3, dtype=torch.int32)),
    ),
    "fractions as bounds of whole numbers": (
        lambda x: (x.clamp(-1.5, 2.5), x.clamp(min=0.5), torch.clamp_max(x, 1.5)),
        (torch.arange(-6, 6),),
    ),
    "choice of a half and a number": (
        lambda x: torch.where(x > 0, x, torch.tensor(0.5)),
        (torch.randn(3, 3).bfloat16(),),
    ),
    "pixels of empty tensors": (lambda x: F.pixel_unshuffle(x[:0], 2), (torch.randn(1, 2, 4, 4),)),
    "places from the end": (
        lambda x, i: (x[i], x[:, i], x.index_put((i - 1,), x[:2]), x[i.abs(), i], x[x > 0]),
        (torch.randn(4, 3), torch.tensor([-1, 0])),
    ),
    "scattered numbers": (lambda x: x.scatter(1, x.argmax(1, True), 2), (torch.randn(3, 4),)),
    "no pixels of one": (lambda x: F.pixel_unshuffle(x, 1), (torch.ones(1, 1, 0, 1),)),
    "folded windows with padding": (
        lambda x: F.fold(F.unfold(x, 3, padding=1), (3, 4), 3, padding=1),
        (torch.randn(1, 2, 3, 4),),
    ),
    "any and all": (
        lambda x: ((x > 0).any(), (x > 9).any(), (x > 9).all(), torch.all(x > -9, (0, 1))),
        (X,),
    ),
    "five dimensions": (
        lambda x: (
            x.permute(3, 1, 2, 0, 4) * 2.0,
            x.permute(-1, 0, 2, 1, 3) * 2.0,
            x.transpose(0, -2) + 1.0,
            x[:, :1].transpose(2, 1) + 1.0,
        ),
        (torch.randn(1, 4, 1, 3, 5),),
    ),
    "single numbers and tensors with a factor": (
        lambda x, y, z, w: (
            *(
                torch.add(x[:1, :1], x, alpha=2),
                torch.add(y, x, alpha=-1.5),
                torch.add(3, x, alpha=2),
            ),
            *(torch.add(w[:1], w, alpha=5), torch.add(7, w, alpha=2), torch.add(y, w, alpha=2)),
            *(torch.add(y, z, alpha=2), torch.add(x, y, alpha=2), y.clone().add_(y, alpha=3)),
        ),
        (X, torch.tensor(0.7), torch.tensor([100, -100], dtype=torch.int8), WHOLE),
    ),
    "no dimension": (
        lambda x: (
            *(x.sum([]), x.mean([], True), x.amax([]), x.amin([], keepdim=True), x.var([])),
            *(x.std([], keepdim=True), (x > 0).any([]), torch.linalg.vector_norm(x, 1, [])),
            *(torch.nansum(x, []), x.norm(2, [], True)),
        ),
        (X,),
    ),
    "corrections of all": (
        lambda x: (
            *(x.var(1, correction=4), x.std(1, correction=5), x.var(correction=50, keepdim=True)),
            *torch.var_mean(x, 1, correction=9),
            torch.ones_like(x).var(0, correction=3),
        ),
        (X,),
    ),
    "powers of booleans": (lambda x: (x**2, x**0, x**1, x**2.0), (WHOLE > 0,)),
    "choices of other numbers": (
        lambda x, y, z: (
            *(torch.where(x > 0, x, y), torch.where(x > 0, y, x), torch.where(z > 0, z, 2.5)),
            torch.where(z > 0, torch.tensor(3), z),
        ),
        (X, torch.tensor(0.7, dtype=torch.float64), WHOLE.to(torch.int16)),
    ),
    "loss of one row": (
        lambda x: (
            F.multi_margin_loss(x[0], WHOLE[5], reduction="none") * 2,
            F.multi_margin_loss(x[0], WHOLE[5:6], reduction="none"),
        ),
        (X,),
    ),
    "implicit expansions": (
        lambda x: ATEN.expand.default(x, [2, 3, 4], implicit=True) + 1,
        (X,),
    ),
    "nothing": (
        lambda x: (
            *(F.adaptive_avg_pool2d(x[:, :0], 2), F.avg_pool2d(x[:0], 2), x[:0].amax(1)),
            *(x[..., :0].log_softmax(-1), x[:0].cumprod(1), x.repeat(1, 0, 1, 1)),
            *(x[:0].index_select(0, WHOLE[:0]), F.unfold(x[:0], 2, padding=1)),
            *(F.cosine_similarity(x[:0], x[:0]), F.adaptive_avg_pool2d(x, (0, 2))),
        ),
        (PICTURE,),
    ),
    "half quotients by one number": (
        lambda x, y: (
            *(x // 0.1, x // y, torch.div(x, y, rounding_mode="trunc"), x // 0.0, x % y),
            *(torch.div(x, 0.05, rounding_mode="trunc"), x.clone().floor_divide_(0.3)),
            x.bfloat16() // 0.3,
        ),
        (torch.linspace(-9, 9, 400).half(), torch.tensor(0.1)),
    ),
    "spread of a number": (
        lambda x: (
            *(x.sum().std(0, correction=0), *torch.var_mean(x.sum(), 0, correction=0)),
            *(x.sum().var(), *torch.std_mean(x.sum().half(), 0)),
        ),
        (X,),
    ),
    "spread": (
        lambda x: (
            *(x.var(), x.std(1), x.var(0, False), x.std(False), x.var((0, 1), keepdim=True)),
            *(x.std(1, True, True), x[:0].norm(), x[:1].var(1, correction=0), x.var(dim=1)),
        ),
        (X,),
    ),
    "soft margin": (
        lambda x: (
            *(F.soft_margin_loss(x * 40, x.sign()), F.soft_margin_loss(x, -x.sign())),
            F.soft_margin_loss(x, x.sign(), reduction="none"),
        ),
        (X,),
    ),
    "booleans for numbers": (
        lambda x: (F.hardtanh(x, -1, True), x.clamp(max=True), F.leaky_relu(x, False)),
        (X,),
    ),
    "a number transposed": (
        lambda x: (-ATEN.numpy_T.default(F.elu(x.sum())), x.sum().t() + 1, x.sum().swapaxes(0, 0)),
        (X,),
    ),
    "factors of numbers": (
        lambda x, y: (
            ATEN.sub.Scalar(x, 2, 1.5),
            ATEN.add.Scalar(y, 2, -3),
            y.subtract(1, alpha=4),
        ),
        (X, WHOLE),
    ),
    "one place of all": (
        lambda x: (x.argmax(None, True), x.argmin(keepdim=True), x.argmax() + 0),
        (X,),
    ),
    "roots": (lambda x: (x.abs() ** 0.5, (x.abs() + 1).pow(-0.5)), (X,)),
    "means by index": (
        lambda x: x.index_reduce(0, WHOLE[5:7] * 0 + 1, x[:2], "mean"),
        (X,),
    ),
    "cumulative sum of a number": (lambda x: x.cumsum(0), (torch.tensor(3.0),)),
    "cumulative sum of a whole number": (lambda x: x.cumsum(0), (torch.tensor(3),)),
    **{
        f"log_softmax of {number}": (lambda x: x.log_softmax(0), (torch.tensor(number),))
        for number in (2.0, torch.inf, -torch.inf, torch.nan)
    },
}


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("recipe", [portable, xnnpack])
def test_the_runtime_gives_eagers_values(
    recipe: Callable[[], ExportRecipe], first: int, tmp_path: Path
) -> None:
    """Every fifth case in one program: a lowering for each would take minutes."""
    wrong = differences(dict(itertools.islice(CASES.items(), first, None, 5)), recipe(), tmp_path)
    assert {name: value for name, value in wrong.items() if not value < 1e-5} == {}


VARYING: tuple[Callable[..., Any], ...] = (
    lambda x: F.pad(x, [1, -1], value=3.0) * 1,
    lambda x: F.pad(x, [0, 0, -1, 2]),
    lambda x: (x.long() % 3, x.long() ** 3, x.long() << 70, x // x.flip(1)),
    lambda x: x.reshape(1, 1, 3, -1).to(memory_format=torch.channels_last) + 1,
    lambda x: torch.addmm(x[:, :1], x, x.mT, beta=0.5),
    lambda x: F.pad(x[None], (1, 1), mode="reflect"),
    lambda x: F.conv3d(x.view(1, 1, 3, 1, -1), torch.ones(2, 1, 1, 1, 1)).flatten(),
    lambda x: F.max_pool2d(x.mT[..., None].relu(), 2, 1, 1) + 1,
    lambda x: (torch.add(x[:1, :1], x, alpha=2), x.sum([], True)),
    lambda x: torch.special.xlog1py(2.0, x.abs()),
    lambda x: _rows_of_groups(
        x.mT, torch.arange(24.0).view(2, 3, 4), torch.tensor([1, 4], dtype=torch.int32)
    ),
)


@pytest.mark.few(1)
@pytest.mark.parametrize("recipe", [portable, xnnpack])
def test_sizes_that_vary(recipe: Callable[[], ExportRecipe], tmp_path: Path) -> None:
    """Sizes stay those of the inputs: at both ends, and between."""
    net = Function(lambda x: [_listed(function(x)) for function in VARYING])
    size = torch.export.Dim("size", min=2, max=8)
    method = Method(net, (torch.randn(3, 5),), dynamic_shapes=(({1: size},),))
    made = stages.run(ModelSpec({"forward": method}), recipe(), Progress(), "//m:net", False)
    file = tmp_path / "net.pte"
    file.write_bytes(made.buffer)
    with Program(file) as program:
        for count in (2, 5, 8):
            x = torch.randn(3, count)
            want = [value for values in net(x) for value in values]
            got = outputs_of(program, "forward", [arrays.of_torch(x)])
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(torch.from_numpy(a.data.copy()), b)


def test_other_nodes_stay() -> None:
    """Nothing changes for who uses no such operator, nor for factors of 1."""
    net = Function(lambda b, x, y: F.pad(F.gelu(torch.addmm(b, x, y)) ** 2.5, (1, 1)).cumsum(0))
    program = torch.export.export(net, (B, X, Y))
    before = str(program.graph)
    write_out(*RULES)("forward", program)
    assert str(program.graph) == before


@pytest.mark.parametrize("allowed", [(), ("gelu",), ("bilinear",), ("addmm", "bilinear", "gelu")])
def test_what_a_recipe_allows_stays(allowed: tuple[str, ...]) -> None:
    """Upstream's behavior for those, and a sentence for each of the others."""
    net = Function(
        lambda b, x, y, z: (
            F.gelu(torch.addmm(b, x, y, alpha=2), approximate="tanh"),
            F.interpolate(z, scale_factor=1.7, mode="bilinear"),
        )
    )
    context = RecipeContext(Options({}, "//x:r"), "//x:r", allow_inexact=allowed)
    notes: list[str] = []
    edges: list[Any] = []
    model = ModelSpec({"forward": Method(net.eval(), (B, X, Y, PICTURE))})
    watch = stages.Watch(noted=notes.append, lowered=edges.append)
    recipe = xnnpack_recipes.fp32(context)
    stages.run(model, recipe, Progress(), "//x:m", etrecord=False, watch=watch)
    said = {name for name in ("addmm", "gelu") for note in notes if f"aten.{name}." in note}
    assert said == {"addmm", "gelu"} - set(allowed)
    for note in notes:
        assert re.fullmatch(
            r"forward: aten\.\w+\.default \(test_exact\.py:\d+\) became \d+ operators, as the "
            r'delegate [^.]*(5e-4 [^.]*)?, unless allow_inexact has "\w+"\.',
            note,
        ), note
    left = {str(node.target) for node in edges[0].exported_program().graph.nodes}
    assert any("upsample_bilinear2d" in name for name in left) == ("bilinear" not in allowed)


def test_rules_for_delegates_apply() -> None:
    """The graph keeps nothing that they are for."""
    net = Function(
        lambda x: F.pad(
            F.hardswish(F.selu(x)).permute(3, 1, 2, 0, 4)[:, :, 0, 0], (1, 1), "reflect"
        )
    )
    program = torch.export.export(net, (torch.randn(1, 4, 1, 3, 5),))
    written = write_out(*DELEGATES).apply(program)
    assert sorted(each.rule for each in written) == [
        "elu",
        "hard_sigmoid",
        "rank",
        "reflection_pad",
    ]
    ranks = [n.meta["val"].dim() for n in program.graph.nodes if "permute" in str(n.target)]
    assert ranks == [3]


@pytest.mark.parametrize(
    "function",
    [torch.expm1, F.elu, F.selu, lambda x: F.celu(x, 0.7), lambda x: F.celu(x, -0.7)],
)
def test_differences_of_exponentials_are_exact(function: Callable[..., torch.Tensor]) -> None:
    """A delegate takes four terms of a series, which are 4e-5 off at 0.35."""
    x = torch.cat([torch.linspace(-0.5, 0.5, 201), torch.tensor([-90.0, 80.0])])
    program = torch.export.export(Function(function), (x,))
    assert len(write_out("expm1").apply(program)) == 1
    expected = function(x.double()).float()
    torch.testing.assert_close(program.module()(x), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("function", ONE_SIZE)
def test_each_dimension_has_a_size(function: Callable[..., torch.Tensor]) -> None:
    """A list of one number ends the process of a delegate's runtime."""
    program = torch.export.export(Function(function), (FOUR,))
    write_out("single_size").apply(program)
    [call] = program.graph.find_nodes(op="output")[0].all_input_nodes
    assert "padding" not in str(call.target)
    assert all(len(each) != 1 for each in call.args if isinstance(each, list))


def test_tensors_get_the_type_that_a_number_gives() -> None:
    """A delegate gives the number the tensor's type: of whole numbers it cuts 0.5 off."""
    net = Function(
        lambda x, y: (x < 0.5, x**0.5, ATEN.div.Scalar(x, -1), y == 2, y | 6, y.clamp(2, 3))
    )
    inputs = (torch.arange(3), torch.tensor([True, False]))
    program = torch.export.export(net, inputs)
    write_out("scalar_type").apply(program)
    calls = [n for n in program.graph.nodes if n.op == "call_function" and n.args[1:]]
    types = [n.args[0].meta["val"].dtype for n in calls if isinstance(n.args[1], int | float)]
    assert types == [torch.float32] * 3 + [torch.int64] * 3


def test_silu_is_not_fused() -> None:
    """Behind linear layers, as in language models, a delegate may."""
    functions = (F.silu, lambda x: x * x.sigmoid(), lambda x: x.sigmoid() * x)
    for layer, count in ((lambda x: F.linear(x, X), 0), (torch.neg, 1)):
        for function in (*functions, lambda x: x * x.exp().sigmoid()):
            net = Function(lambda x, layer=layer, function=function: function(layer(x)))
            program = torch.export.export(net, (torch.randn(4, X.shape[1]),))
            written = write_out("swish").apply(program)
            assert len(written) == (count if function in functions else 0)


def test_analysis_knows_the_choices() -> None:
    root = Path(__file__).absolute().parents[3]
    source = (root / "rules/private/inexact.bzl").read_text(encoding="utf-8")
    names = re.search(r"_NAMES = \[(.*)\]", source)
    assert names
    assert tuple(re.findall(r'"(\w+)"', names[1])) == CHOICES
    assert set(REASONS) == set(RULES)


def test_an_unknown_rule() -> None:
    with pytest.raises(KeyError, match="sinus"):
        write_out("sinus")
