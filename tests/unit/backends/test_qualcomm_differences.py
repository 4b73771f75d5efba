"""Operators that QNN's simulator computes otherwise than eager mode are left out, or refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from etbuild import BuildError
from etlower import operators
from executorch.backends.qualcomm.utils.constants import (
    QCOM_QUANT_ATTRS,
    QCOM_QUANT_MAX,
    QCOM_QUANT_MIN,
    QCOM_SCALE,
    QCOM_ZERO_POINT,
)
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects._ops import ops
from qualcomm_counted import is_counted_otherwise
from qualcomm_differences import becomes_whole, is_computed_otherwise, reads_behind
from qualcomm_floats import FunctionsApart, OneZero, RoundedResults
from qualcomm_quantizer import Quantizer, enlarge_scales
from qualcomm_refusals import for_qnn
from qualcomm_scales import are_mixed
from qualcomm_slices import has_windows_elsewhere
from qualcomm_squares import following
from torch.fx import Node
from torchao.quantization.pt2e import (
    DerivedObserverOrFakeQuantize,
    MinMaxObserver,
    PerChannelMinMaxObserver,
)

ATEN = torch.ops.aten
PICTURE = torch.randn(1, 4, 6, 8)
# By the columns that they span.
KERNEL = torch.rand(4, 4, 3, 3)
KERNELS = {n: torch.randn(4, 6, n) for n in (3, 5)}
WEIGHT, PLACES = torch.rand(5, 8), torch.zeros(1, 1, 1, 2, dtype=torch.int32)
OWN, LONG = torch.randn(6, 1, 5), torch.randn(4, 4, 1, 5)


def exported(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    """A program of a function."""

    class Net(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> Any:
            return function(*given)

    return torch.export.export(Net(), inputs, strict=False)


LAYER = torch.randn(6, 4, 3, 3)


@pytest.mark.parametrize(
    ("function", "differs"),
    [
        (lambda x: F.conv2d(x[:, :, 1:], LAYER), True),
        (lambda x: F.conv2d(x[:, :, :-1], LAYER), False),
        (lambda x: F.conv2d(x[..., ::2], LAYER), False),
        (lambda x: F.conv2d(x[..., 1::2], LAYER), True),
        (lambda x: F.conv2d(x.permute(0, 2, 3, 1)[:, 1:].permute(0, 3, 1, 2), LAYER), True),
        (lambda x: F.conv2d(F.pad(x, (0, 0, 1, 1))[:, :, 1:], LAYER), False),
        (lambda x: F.conv2d(F.interpolate(x[:, :, 1:], scale_factor=2), LAYER), False),
        (lambda x: F.conv2d(x.repeat(1, 2, 1, 1)[:, 4:], LAYER), False),
        (lambda x: F.avg_pool2d(x[:, :, 2:].relu().clone(), 3, 1), True),
        (lambda x: F.avg_pool2d(x.split(3, 2)[1], 3, 1), True),
        (lambda x: F.avg_pool2d(x.chunk(2, 1)[1], 3, 1), False),
        (lambda x: F.max_pool2d(x[:, :, 1:], 3, 1), False),
        (lambda x: F.conv1d(x[:, :, 0, 2:], LAYER[:, :, 0]), True),
        (lambda x: x[:, :, 1:] * 2, False),
    ],
)
def test_windows_of_later_rows(function: Callable[..., Any], differs: bool) -> None:
    program = to_edge(exported(function, PICTURE)).exported_program()
    assert any(map(has_windows_elsewhere, program.graph.nodes)) == differs


@pytest.mark.parametrize(
    ("other", "is_even"),
    [
        (lambda x: torch.ones(1, 2, 6, 8), True),
        (lambda x: torch.zeros_like(x), True),
        (lambda x: torch.full_like(x, 0.5), True),
        (lambda x: PICTURE, False),
        (lambda x: x * 0.5, False),
    ],
)
def test_even_constants_beside_channels(other: Callable[..., Any], is_even: bool) -> None:
    model = exported(lambda x: F.relu(torch.cat([x, other(x)], 1)), PICTURE).module()
    quantizer = Quantizer()
    annotated = quantizer.annotate(quantizer.transform_for_annotation(model))
    [joined] = [node for node in annotated.graph.nodes if "aten.cat" in str(node.target)]
    assert (joined.meta["quantization_annotation"].output_qspec is None) == is_even


@pytest.mark.parametrize(
    ("function", "differs"),
    [
        (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), False),
        (lambda x: F.interpolate(x, scale_factor=1.5, mode="nearest"), True),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), False),
        (lambda x: F.interpolate(x, size=(9, 8), mode="bilinear"), True),
        (lambda x: F.interpolate(x, size=(9, 8), mode="bilinear", align_corners=True), False),
        (lambda x: F.avg_pool2d(x, 2), False),
        (lambda x: F.avg_pool2d(x, 3, 2, 1), False),
        (lambda x: F.avg_pool2d(x, 2, 2, 1), True),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), True),
        (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), True),
        (lambda x: F.avg_pool2d(x, (1, 3), 1, (0, 1)), True),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=3), True),
        # Channels lie last behind a layer, and there only.
        (lambda x: F.prelu(x, torch.rand(4)), True),
        (lambda x: F.prelu(F.conv2d(x, torch.rand(4, 4, 1, 1)), torch.rand(4)), False),
        (lambda x: F.prelu(x[..., 0], torch.rand(4)), True),
        (lambda x: F.prelu(x[..., 0], torch.rand(1)), False),
        (lambda x: F.conv2d(x, torch.rand(8, 1, 3, 3), dilation=2, groups=4), True),
        (lambda x: F.conv2d(x, torch.rand(4, 1, 3, 3), dilation=2, groups=4), False),
        (lambda x: F.conv2d(x, torch.rand(8, 1, 3, 3), groups=4), False),
        (lambda x: F.conv2d(x, torch.rand(8, 1, 3, 3), stride=3, groups=4), True),
        (lambda x: F.conv2d(x, torch.rand(4, 1, 3, 3), stride=3, groups=4), False),
        (lambda x: F.conv_transpose2d(x, torch.rand(4, 2, 2, 2), None, 3, 0, 2), True),
        (lambda x: F.conv_transpose2d(x, torch.rand(4, 2, 3, 3), None, 2, 1, 1), False),
        (lambda x: F.conv_transpose3d(x[None], torch.rand(1, 2, 3, 3, 3)), False),
        (lambda x: F.conv_transpose3d(x[:, :, None], torch.rand(4, 1, 1, 3, 3), groups=2), True),
        (lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), True),
        (lambda x: F.interpolate(x, size=(9, 11), mode="bicubic"), False),
        (lambda x: F.conv2d(x, torch.rand(4, 4, 3, 3), padding=2), False),
        (lambda x: F.conv2d(x, torch.rand(4, 4, 2, 1), padding=1), True),
        (lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1)), torch.rand(4, 4, 1, 1)), True),
        (lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1)), torch.rand(4, 4, 3, 3)), False),
        (lambda x: F.conv1d(x[0], torch.rand(4, 6, 3).exp()), True),
        (lambda x: F.conv1d(x[0], x[0, :, :, :3]), True),
        (lambda x: F.conv2d(x, torch.rand(4, 4, 3, 3).exp()), False),
        # Rows that keep their size, of 8 elements and of others.
        (lambda x: F.conv1d(x[0], KERNELS[3], padding=1), False),
        (lambda x: F.conv1d(x[0], KERNELS[3], padding=2, dilation=2), True),
        (lambda x: F.conv1d(x[0], KERNELS[3], padding="same", dilation=2), True),
        (lambda x: F.conv1d(x[0], KERNELS[5], padding=2), True),
        (lambda x: F.conv1d(x[0], KERNELS[5], padding=1), False),
        (lambda x: F.conv1d(x[0], OWN, padding=2, groups=6), False),
        (lambda x: F.conv1d(x[0, ..., :7], KERNELS[5], padding=2), False),
        (lambda x: F.conv2d(x[:, :, :1], LONG, padding=(0, 2)), True),
        (lambda x: F.conv2d(x[:, :, :2], LONG, padding=(0, 2)), False),
        (lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 2), True),
        (lambda x: F.max_pool3d(x, 2), True),
        (lambda x: F.layer_norm(x, (8,)), False),
        (lambda x: F.layer_norm(x, (6, 8)), True),
        (lambda x: x.double() * 2, True),
        (lambda x: x[:, :0] * 2, True),
        (lambda x: (x[None] > 0) & (x[None] < 1), True),
        (lambda x: x[0, 0, 0][1] * 2, True),
        (lambda x: x.isnan(), True),
        (lambda x: x.max(1), True),
        (lambda x: x.index_select(1, torch.arange(2) + 1), True),
        (lambda x: F.max_pool2d(x, 3), False),
        (lambda x: ATEN.reflection_pad2d(x, (1, 2, 0, 1)), False),
        (lambda x: ATEN.reflection_pad2d(x, (-1, 2, 0, 1)), True),
        # Windows of one size and step, next to each other or not.
        (lambda x: F.adaptive_max_pool2d(x, (3, 4)), False),
        (lambda x: F.adaptive_max_pool2d(x, (5, 1)), False),
        (lambda x: F.adaptive_max_pool2d(x, (4, 4)), True),
        (lambda x: F.adaptive_max_pool2d(x, (3, 5)), True),
        (lambda x: F.adaptive_max_pool2d(x, (3, 16)), True),
        (lambda x: F.adaptive_max_pool2d(x, 2, True), True),
        (lambda x: F.max_pool2d(x, 2, return_indices=True), True),
        (lambda x: x.any(1), True),
        (lambda x: F.group_norm(x[:, :, 0, 0], 2), True),
        (lambda x: F.group_norm(x[..., 0], 2), True),
        (lambda x: F.log_softmax(x, 1), True),
        (lambda x: x == x, True),
        (lambda x: x.topk(2)[0] * 3, False),
        (lambda x: (x[0].int() * 3).float(), True),
        (lambda x: x[0].int().sum(1), True),
        (lambda x: x.int()[:, 1:], True),
        (lambda x: torch.stack([x[0].int(), x[0].int()]), True),
        (lambda x: x[0].argmax(0)[1:], True),
        (lambda x: F.embedding(x[0].argmax(0)[1:], x[0, 0]), False),
        (lambda x: x.relu() + x.clamp(max=0), True),
        (lambda x: F.silu(x) * F.gelu(x), True),
        (lambda x: x.relu() + x, False),
        (lambda x: x.relu() - (-x).relu(), False),
        (lambda x: x.to(torch.int8) * 2, True),
        (lambda x: x == x.flip(0), False),
        (lambda x: torch.fmod(x, 0.3), True),
        (lambda x: F.pad(x, (1, 0), value=-torch.inf), True),
        (lambda x: torch.acos(torch.clamp(x, -1, 1)), True),
        (lambda x: torch.clamp(x, -1, 1) * 2, False),
        (lambda x: x[:, torch.tensor([[0, 1], [1, 2]])], True),
        (lambda x: x[:, torch.tensor([0, 1])], False),
        (lambda x: (x[None] * 3).long(), True),
        (lambda x: F.group_norm(x, 2), False),
        (lambda x: F.instance_norm(x[..., 0]), True),
        (lambda x: x.index_put((torch.tensor([0]),), x[:1], True), True),
        (lambda x: x.index_put((torch.tensor([0]),), x[:1]), False),
        (lambda x: F.conv3d(x[None], torch.ones(1, 1, 2, 3, 3), stride=4), True),
        (lambda x: F.conv3d(x[None], torch.ones(1, 1, 2, 3, 3), stride=1), False),
        (lambda x: F.conv3d(x[None], torch.ones(1, 1, x.shape[1], 3, 3), stride=4), False),
        (lambda x: x[None, None] @ x[0, :, None].mT, True),
        (lambda x: x[None] @ x[None].mT, False),
        (lambda x: x @ x[:, :1].mT, False),
        # Kernels that something else reads, in a layout of its own.
        (lambda x: F.conv_transpose2d(F.conv2d(x, KERNEL), KERNEL), True),
        (lambda x: F.conv2d(F.conv2d(x, KERNEL), KERNEL), False),
        (lambda x: F.conv_transpose2d(F.conv_transpose2d(x, KERNEL), KERNEL), False),
        (lambda x: F.conv2d(x, KERNEL) + KERNEL.amax(), True),
        (lambda x: F.linear(x[..., :4], KERNEL.flatten(1)[:, :4]) + x[:, :, :, :4], False),
        # What is repeated to five dimensions, where it meets another tensor.
        (lambda x: x.unsqueeze(3).expand(-1, -1, -1, 3, -1) * x[0, 0, 0], True),
        (lambda x: x[..., None].repeat(1, 1, 1, 1, 3) - x.mean(3, True)[..., None], True),
        (lambda x: x.unsqueeze(3).expand(-1, -1, -1, 3, -1).relu(), False),
        (lambda x: x.unsqueeze(2).repeat(1, 1, 3, 1, 1).flatten(1, 2) * x[0, 0, 0], False),
        (lambda x: x.repeat(1, 2, 1, 1) * x[0, 0, 0], False),
        # Rows that only get more dimensions behind a layer.
        (lambda x: F.linear(x[0, 0], WEIGHT).view(1, 1, 2, 3, 5), True),
        (lambda x: F.linear(x, WEIGHT).unsqueeze(2), True),
        (lambda x: x[0, 0].mm(WEIGHT.T).view(6, 5).view(1, 1, 2, 3, 5), True),
        (lambda x: F.linear(x[0], WEIGHT).view(1, 2, 2, 6, 5), False),
        (lambda x: F.linear(x[0, 0], WEIGHT).view(1, 2, 3, 5, 1), False),
        (lambda x: F.linear(x[0, 0], WEIGHT).relu().view(1, 1, 2, 3, 5), False),
        (lambda x: F.embedding(PLACES, x[0, 0]), True),
        (lambda x: F.embedding(PLACES[0], x[0, 0]), False),
    ],
)
def test_what_stays(function: Callable[..., Any], differs: bool) -> None:
    calls = [n for n in exported(function, PICTURE).graph.nodes if operators.name(n)]
    assert any(is_computed_otherwise(node) for node in calls) == differs


@pytest.mark.parametrize(
    ("function", "differs"),
    [
        (lambda x: x[None] * x[:, None], True),
        (lambda x: x[None] + x[:, None], False),
        (lambda x: x[None] * x[None, :1], False),
        (lambda x: x[0, None] * x[0, :, None], False),
    ],
)
def test_products_of_two_tensors_that_are_repeated(
    function: Callable[..., Any], differs: bool
) -> None:
    """With scales, and in five dimensions, QNN's compiler takes other numbers."""
    program = exported(function, torch.randn(3, 3, 4, 5))
    calls = [n for n in program.graph.nodes if operators.packet(n) in ("add", "mul")]
    assert not any(map(is_computed_otherwise, calls))
    for call in calls:
        call.meta[QCOM_QUANT_ATTRS] = {}
    assert any(map(is_computed_otherwise, calls)) == differs


def test_fractions_are_not_rounded() -> None:
    """QNN rounds what a cast cuts off."""
    for dtype, is_whole in ((torch.int32, True), (torch.bool, True), (torch.float16, False)):
        program = exported(lambda x, dtype=dtype: x.to(dtype), PICTURE)
        casts = [n for n in program.graph.nodes if operators.name(n).startswith("aten.to.")]
        assert [becomes_whole(cast) for cast in casts] == [is_whole]


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), ["[1, 1]", "indices", "-inf"]),
        (lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True), ["[1, 1]", "ceil_mode", "-inf"]),
    ],
)
def test_what_is_refused(function: Callable[..., Any], parts: list[str]) -> None:
    with pytest.raises(BuildError) as raised:
        for_qnn("//x:r")("forward", exported(function, PICTURE))
    text = str(raised.value)
    assert 'the method "forward" calls aten.max_pool2d' in text
    assert "test_qualcomm_differences.py:" in text
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("function", "inputs", "parts"),
    [
        (
            lambda w: F.embedding_bag(torch.tensor([[0, 1]]), w),
            (torch.rand(3, 2),),
            ["aten.embedding_bag", "torch.nn.functional.embedding, "],
        ),
        (
            lambda x: F.fractional_max_pool2d(x, 2, 3),
            (PICTURE,),
            ["aten.fractional_max_pool2d", "adaptive_max_pool2d"],
        ),
    ],
)
def test_what_has_no_kernel(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], parts: list[str]
) -> None:
    with pytest.raises(BuildError) as raised:
        for_qnn("//x:r")("forward", exported(function, *inputs))
    text = str(raised.value)
    assert "neither QNN nor ExecuTorch has a kernel" in text
    assert all(part in text for part in (*parts, "test_qualcomm_differences.py:")), text


def test_kernels_that_are_given() -> None:
    """Upstream takes them for parameters."""
    inputs = torch.rand(1, 4, 6), torch.rand(4, 2, 3)
    program = exported(lambda x, y: F.conv1d(x, y, groups=2), *inputs)
    for_qnn("//:r")("forward", program)
    assert "conv2d" in {operators.packet(node) for node in program.graph.nodes}


def test_rows() -> None:
    """Inputs have them, and copies inside make none with the channels last."""
    last = PICTURE.to(memory_format=torch.channels_last)
    with pytest.raises(BuildError, match=r"\[0, 2, 3, 1\], expected \[0, 1, 2, 3\]"):
        for_qnn("//x:r")("forward", exported(lambda x: x.exp(), last))
    program = exported(lambda x: x.to(memory_format=torch.channels_last) + 1, PICTURE)
    for_qnn("//x:r")("forward", program)
    assert "channels_last" not in str(program.graph)


@pytest.mark.parametrize("shape", [(1, 4, 9), (4, 9)])
@pytest.mark.parametrize("transposed", [False, True])
def test_computed_kernels_of_rows_become_those_of_pictures(
    transposed: bool, shape: tuple[int, ...]
) -> None:
    """Upstream would take what a kernel is computed of for the kernel."""
    layer = torch.nn.ConvTranspose1d if transposed else torch.nn.Conv1d
    net = torch.nn.utils.parametrizations.weight_norm(
        layer(4, 4, 3, stride=2, padding=1, dilation=2, groups=2)
    )
    x = torch.randn(shape)
    program = torch.export.export(net.eval(), (x,), strict=False)
    for_qnn("//:r")("forward", program)
    names = {operators.packet(node) for node in program.graph.nodes}
    assert names & {"conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"} == {
        "conv_transpose2d" if transposed else "conv2d"
    }
    torch.testing.assert_close(program.module()(x), net(x))


@pytest.mark.parametrize(
    ("function", "signed"),
    [
        (lambda x, y: x == y, 2),
        (lambda x, y: x >= torch.relu(y), 1),
        (lambda x, y: x != torch.tensor([0.0, 1.0]), 1),
        (lambda x, y: x <= torch.tensor([2.0, 1.0]), 0),
        (lambda x, y: x == 0, 1),
        (lambda x, y: x == 3, 0),
        (lambda x, y: x == x, 0),
        (lambda x, y: x > y, 0),
        (lambda x, y: x.int() == y.int(), 0),
    ],
)
def test_zeros_are_compared_without_signs(function: Callable[..., Any], signed: int) -> None:
    """QNN takes -0 for neither equal to 0 nor above it."""
    inputs = torch.tensor([-0.0, 3.0]), torch.tensor([0.0, -3.0])
    config = EdgeCompileConfig(_check_ir_validity=False)
    program = to_edge(exported(function, *inputs), compile_config=config).exported_program()
    before = [operators.packet(n) for n in program.graph.nodes].count("relu")
    OneZero(program)(program.graph_module)
    after = [operators.packet(n) for n in program.graph.nodes].count("relu")
    assert after - before == 2 * signed
    assert torch.equal(program.module()(*inputs), function(*inputs))


_WEIGHT = torch.linspace(-1, 1, 4).view(2, 2)


@pytest.mark.parametrize(
    ("function", "apart"),
    [
        (lambda x: F.linear(x, _WEIGHT).tanh(), 1),
        (lambda x: F.gelu(F.linear(x, _WEIGHT).view(1, 1, 2, 2)), 1),
        (lambda x: torch.cat([(x @ _WEIGHT) * 2, x]).sigmoid(), 1),
        (lambda x: F.silu(F.conv2d(x[None, None], _WEIGHT[None, None])), 1),
        (lambda x: torch.tanh(x @ x.mT + x) * torch.sigmoid(x @ x), 2),
        (lambda x: F.linear(x, _WEIGHT).exp(), 0),
        (lambda x: x.softmax(-1).tanh() + x.sigmoid(), 0),
        (lambda x: F.linear(x, _WEIGHT).mT.relu().tanh(), 0),
    ],
)
def test_functions_are_apart_from_layers(function: Callable[..., Any], apart: int) -> None:
    """Within a layer, QNN computes them by a coarse table."""
    x = torch.tensor([[-0.5, 3.0], [0.25, -1.0]])
    config = EdgeCompileConfig(_check_ir_validity=False)
    program = to_edge(exported(function, x), compile_config=config).exported_program()
    FunctionsApart()(program.graph_module)
    assert [operators.packet(n) for n in program.graph.nodes].count("maximum") == apart
    torch.testing.assert_close(program.module()(x), function(x))


@pytest.mark.parametrize(
    ("calls", "is_rounded"),
    [
        ([(ops.edge.aten.eq.Scalar, 1)], True),
        ([(ops.edge.aten.floor.default,)], True),
        ([(ops.edge.aten.mul.Scalar, 2), (ops.edge.aten.sqrt.default,)], True),
        ([(ops.edge.aten.mul.Scalar, 2), (ops.edge.aten.relu.default,)], False),
        ([(executorch_call_delegate,)], False),
        ([], False),
    ],
)
def test_results_are_rounded_for_what_jumps(calls: list[tuple[Any, ...]], is_rounded: bool) -> None:
    """QNN hands out 1.0000001 for 1, which is no 1, and whose negative rounds down to -2."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(operator.getitem, (graph.call_function(executorch_call_delegate), 0))
    node.meta["val"] = x.meta["val"] = torch.ones(2)
    for target, *rest in calls:
        node = graph.call_function(target, (node, *rest))
    graph.output((node,))
    RoundedResults()(torch.fx.GraphModule(torch.nn.Module(), graph))
    casts = [n.kwargs["dtype"] for n in graph.nodes if operators.packet(n) == "_to_copy"]
    assert casts == [torch.float16, torch.float32] * is_rounded


def with_scales(function: Callable[..., Any], width: int, *inputs: torch.Tensor) -> list[Node]:
    """Calls of a function's edge program, whose results have a scale of so many steps."""
    config = EdgeCompileConfig(_check_ir_validity=False)
    program = to_edge(exported(function, *inputs), compile_config=config).exported_program()
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    for node in calls:
        node.meta[QCOM_QUANT_ATTRS] = {QCOM_QUANT_MAX: width}
    return calls


FACTORS = torch.rand(8)


@pytest.mark.parametrize(("slopes", "reads"), [(1, False), (24, True), (32, False), (48, True)])
def test_slopes_that_are_read_on_behind(slopes: int, reads: bool) -> None:
    net = torch.nn.PReLU(slopes).eval()
    graph = torch.export.export(net, (torch.randn(1, slopes, 2, 2),)).graph
    calls = [node for node in graph.nodes if operators.packet(node) == "prelu"]
    assert [reads_behind(node) for node in calls] == [reads]


@pytest.mark.parametrize(
    ("function", "width", "differs"),
    [
        (lambda x: (x * FACTORS).relu().sum(-1), 255, True),
        (lambda x: (x * FACTORS).relu().sum(1), 255, False),
        (lambda x: (x * FACTORS).sum(-1), 255, False),
        (lambda x: (x * FACTORS).sum(-1), 65535, True),
        (lambda x: (x * FACTORS).mean(-1), 65535, True),
        (lambda x: (x + FACTORS).sum(-1), 65535, False),
        (lambda x: F.conv_transpose2d(x, torch.rand(4, 3, 2, 2), groups=2), 255, True),
        (lambda x: F.conv_transpose2d(x, torch.rand(4, 3, 2, 2), groups=4), 255, False),
        (lambda x: F.conv_transpose2d(x, torch.rand(4, 3, 2, 2)), 255, False),
        (lambda x: F.layer_norm(x, (8,)), 255, True),
        (lambda x: F.layer_norm(x.reshape(4, 48), (48,)), 255, False),
        (lambda x: torch.cat([x.sigmoid(), x]), 255, False),
        (lambda x: torch.cat([x.sigmoid()[None], x[None]]), 255, True),
        (lambda x: torch.cat([x.relu()[None], x[None]]), 255, False),
    ],
)
def test_differences_of_quantized_calls(
    function: Callable[..., Any], width: int, differs: bool
) -> None:
    """It makes products of matrices of some sums, mixes up scales, reads on behind few factors."""
    checked = {"cat", "convolution", "mean", "native_layer_norm", "sum"}
    calls = [n for n in with_scales(function, width, PICTURE) if operators.packet(n) in checked]
    assert [is_counted_otherwise(node) for node in calls] == [differs]


@pytest.mark.parametrize(("width", "differs"), [(3.9, True), (4.1, False)])
def test_logarithms_in_fine_steps(width: float, differs: bool) -> None:
    [node] = with_scales(torch.log, 65535, PICTURE)
    node.meta[QCOM_QUANT_ATTRS][QCOM_SCALE] = width / 65535
    assert is_counted_otherwise(node) == differs


@pytest.mark.parametrize(
    ("width", "scale", "zero_point", "differs"),
    [
        (255, 1 / 256, 0, False),
        (255, 1 / 256, 85, True),
        (255, 1 / 9000, 0, True),
        (65535, 1 / 256, 85, False),
    ],
)
def test_softmax_of_8_bits_starts_at_zero(
    width: int, scale: float, zero_point: int, differs: bool
) -> None:
    [node] = with_scales(lambda x: x.softmax(-1), width, PICTURE)
    node.meta[QCOM_QUANT_ATTRS] |= {QCOM_SCALE: scale, QCOM_ZERO_POINT: zero_point}
    assert is_counted_otherwise(node) == differs


@pytest.mark.parametrize(
    ("scaled", "is_mixed"), [((), False), (("number",), True), (("number", "sum"), False)]
)
def test_numbers_with_a_scale_meet_no_floats(scaled: tuple[str, ...], is_mixed: bool) -> None:
    """Their bytes would count as floats; a number without one gets that of the sum."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    number = graph.call_function(ops.edge.aten.full.default, ([2], 0.3))
    joined = graph.call_function(ops.edge.aten.cat.default, ([x, number],))
    for name, node in (("x", x), ("number", number), ("sum", joined)):
        node.meta["val"] = torch.empty(2)
        if name in scaled or (name == "x" and "sum" in scaled):
            node.meta[QCOM_QUANT_ATTRS] = {}
    assert are_mixed(joined, {number}) == is_mixed


class Observed(torch.nn.Module):
    """A layer with observers of its input, weight, bias and result, as upstream's quantizer has."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.register_parameter("weight", layer.weight)
        self.register_parameter("bias", layer.bias)
        wide = {"quant_min": 0, "quant_max": 65535, "dtype": torch.int32, "eps": 2**-32}
        self.x, self.result = MinMaxObserver(**wide), MinMaxObserver(**wide)
        self.of_weight = PerChannelMinMaxObserver(
            dtype=torch.int8, qscheme=torch.per_channel_symmetric, eps=2**-32
        )

        def derive(observers: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
            (given, _), (weight, zeros) = (each.calculate_qparams() for each in observers)
            return given * weight, zeros

        observers = [self.x, self.of_weight]
        self.of_bias = DerivedObserverOrFakeQuantize(torch.int32, observers, derive)
        graph = torch.fx.Graph()
        x = graph.call_module("x", (graph.placeholder("given"),))
        weight = graph.call_module("of_weight", (graph.get_attr("weight"),))
        bias = graph.call_module("of_bias", (graph.get_attr("bias"),))
        made = graph.call_function(torch.ops.aten.linear.default, (x, weight, bias))
        graph.output(graph.call_module("result", (graph.call_function(torch.relu, (made,)),)))
        self.graph = graph


def test_scales_of_small_weights() -> None:
    """A bias in them has 32 bits, and the factor to the result's scale 22."""
    layer = torch.nn.Linear(8, 4)
    with torch.no_grad():
        layer.weight[1] = 0
        layer.weight[2] *= 1e-6
        layer.bias[2] = 0
        layer.bias[1] = 30
    observed = Observed(layer)
    module = torch.fx.GraphModule(observed, observed.graph)
    module(torch.randn(64, 8))
    before, _ = observed.of_weight.calculate_qparams()
    enlarge_scales(module)
    after, _ = observed.of_weight.calculate_qparams()
    assert torch.equal(before[[0, 3]], after[[0, 3]])
    (given, _), (result, _) = (o.calculate_qparams() for o in (observed.x, observed.result))
    assert (layer.bias.abs() / (after * given)).max() < 2**31
    assert (after * given / result).min() >= 2**-22 * 0.999
    # What a step of the weight makes of the largest input is little of the result.
    assert after[2] * given * 65535 < 0.5 * result
    assert after[1] * given * 65535 < 30 * 2**-11


def test_kernels_that_are_dilated() -> None:
    """Upstream dilates those of transposed convolutions as it lowers, so it must know them."""
    x, kernel = torch.rand(1, 2, 6, 2), torch.rand(2, 1, 2, 1)

    def dilated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.conv_transpose2d(x, y * 2, dilation=(1, 2))

    with pytest.raises(BuildError, match=r"dilation \[1, 2\] and weights that follow"):
        for_qnn("//:r")("forward", exported(dilated, x, kernel))
    for_qnn("//:r")("forward", exported(lambda x: dilated(x, torch.ones(2, 1, 2, 1)), x))
    for_qnn("//:r")("forward", exported(lambda x, y: F.conv_transpose2d(x, y), x, kernel))


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: x.pow(2).sum(1, True).add(1e-6).sqrt() * 2, {"pow", "sum", "add", "sqrt"}),
        (lambda x: (x * x).mean(1).rsqrt() + 1, {"mul", "mean", "rsqrt"}),
        (lambda x: x * (x * x).clamp(1), {"mul", "clamp"}),
        (lambda x: x.relu() / (x * x * x).sum(1, True) - 1, {"mul", "sum", "div"}),
        (lambda x: (x.abs() ** 0.5 + 1) * x.relu(), set()),
    ],
)
def test_squares_in_floats_stay(function: Callable[..., Any], names: set[str]) -> None:
    """QNN's 16 bits end at 65,504: norms of 8 bits, in floats, were 0.003 of what they are."""
    graph = exported(function, PICTURE).graph
    assert {operators.packet(node) for node in following(graph)} == names


@pytest.mark.parametrize(("step", "stays"), [(300.0, False), (600.0, True)])
def test_numbers_with_wide_scales_stay(step: float, stays: bool) -> None:
    graph = exported(lambda x: ((x + 1) * 2).sqrt() - 1, PICTURE).graph
    scale = {QCOM_SCALE: step, QCOM_ZERO_POINT: 0, QCOM_QUANT_MIN: -128, QCOM_QUANT_MAX: 127}
    for node in graph.nodes:
        if operators.packet(node) in ("add", "mul"):
            node.meta[QCOM_QUANT_ATTRS] = scale
    assert {operators.packet(node) for node in following(graph)} == ({"sqrt"} if stays else set())
