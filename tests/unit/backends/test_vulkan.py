"""Guards of Vulkan's partitioner: what it leaves out, by version of the runtime, and why."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import vulkan_guards
import vulkan_kernels
import vulkan_recipes
from etlower import operators
from executorch import exir
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerGroup
from vulkan_passes import KeptDimensions

_ROWS = torch.arange(12.0).reshape(3, 4)
_PICTURE, _GRID = torch.rand(1, 1, 4, 4), torch.rand(1, 2, 2, 2)


class Net(nn.Module):
    """A function between two operators that Vulkan takes."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        return self.function(x + 1, *more)


def _lowered(*given: Any, **named: Any) -> Any:
    """As upstream's function, which takes 7 s to make Vulkan's patterns but on the fast path."""
    return exir.to_edge_transform_and_lower(*given, **named)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Lowers a net for Vulkan; returns the operators that our guards refused, and why."""

    def lowered(
        net: nn.Module, *inputs: torch.Tensor, runtime: str = "", shapes: Any = None
    ) -> dict[str, str]:
        reasons: dict[str, str] = {}
        refusal = vulkan_guards._Supported._refusal

        def noted(self: Any, node: Node) -> str:
            reason = refusal(self, node)
            if reason:
                reasons[node.target.__name__] = reason
            return reason

        monkeypatch.setattr(vulkan_guards._Supported, "_refusal", noted)
        exported = torch.export.export(net.eval(), inputs, dynamic_shapes=shapes)
        partitioner = vulkan_guards.GuardedPartitioner({}, runtime)
        edge = _lowered(exported, partitioner=[partitioner])
        left = {getattr(n.target, "__name__", "") for n in edge.exported_program().graph.nodes}
        assert set(reasons) <= left, "what is refused stays"
        monkeypatch.setattr(vulkan_guards._Supported, "_refusal", refusal)
        return reasons

    return lowered


def _negated(x: torch.Tensor) -> torch.Tensor:
    return torch.logical_not(x > 1) * x


_NOWHERE = "no version of Vulkan's runtime has this operator"
# Net, its input, the operator that is refused, and why.
_CASES: dict[str, tuple[nn.Module, torch.Tensor, str, str]] = {
    "not": (Net(_negated), _ROWS, "aten.logical_not.default", _NOWHERE),
    # What only a refused operator reads would end where the GPU's part does.
    "only negated": (
        Net(_negated),
        _ROWS,
        "aten.gt.Scalar",
        f"nothing but aten.logical_not.default reads it, and {_NOWHERE}",
    ),
    "mean of all": (
        Net(lambda x: x.mean(None, keepdim=True) * x),
        _ROWS,
        "aten.mean.dim",
        "Vulkan's runtime ends the process on reductions over an empty list of dimensions",
    ),
    "conversion of 64 bits": (
        Net(lambda x: x.float() * 0.5),
        _ROWS.long(),
        "dim_order_ops._to_dim_order_copy.default",
        "Vulkan reads 32 bits of whole numbers of 64",
    ),
    "quotient that is not rounded": (
        Net(lambda x: torch.div(x, x + 1, rounding_mode=None)),
        _ROWS,
        "aten.div.Tensor_mode",
        "Vulkan's runtime rounds quotients otherwise, or ends the process",
    ),
    "embedding": (
        nn.Sequential(nn.Embedding(16385, 4), nn.ReLU()),
        torch.tensor([[1, 2]]),
        "aten.embedding.default",
        "Vulkan gives other numbers for tables of more than 16384 rows: it has 16385",
    ),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", _CASES)
def test_what_no_runtime_has(refused: Callable[..., dict[str, str]], name: str) -> None:
    net, sample, operator, reason = _CASES[name]
    assert refused(net, sample)[operator] == reason


@pytest.mark.release
def test_embeddings_that_fit(refused: Callable[..., dict[str, str]]) -> None:
    """The last size that a texture holds goes to Vulkan."""
    net = nn.Sequential(nn.Embedding(16384, 4), nn.ReLU())
    assert refused(net, torch.tensor([[1, 2]])) == {}


@pytest.mark.release
@pytest.mark.parametrize(
    ("runtime", "has"), [("", True), ("1.5.1", True), ("1.4.0", True), ("1.3.1", False)]
)
def test_what_older_runtimes_lack(
    refused: Callable[..., dict[str, str]], runtime: str, has: bool
) -> None:
    def sampled(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return nn.functional.grid_sample(x, grid, align_corners=True)

    reasons = refused(Net(sampled), _PICTURE, _GRID, runtime=runtime)
    lacks = "ExecuTorch 1.3.1 lacks this operator, 1.4.0 has it"
    assert reasons == ({} if has else {"aten.grid_sampler_2d.default": lacks})


def _node(graph: Graph, name: str, *given: Node) -> Node:
    def operator(*_: Any) -> None: ...

    operator.__name__ = name
    return graph.call_function(operator, given)


_LINEAR = ("aten.mm.default", "aten.addmm.default", "aten.linear.default")


@pytest.mark.parametrize("through", ["", "aten.t_copy.default", "aten.permute_copy.default"])
@pytest.mark.parametrize("reader", [*_LINEAR, "aten.add.Tensor"])
def test_dequantized_weights(through: str, reader: str) -> None:
    """A weight may go to linear layers, at its place, also transposed; and to nothing else."""
    graph = Graph()
    x, bias = graph.placeholder("x"), graph.placeholder("bias")
    weight = _node(graph, vulkan_guards._WEIGHT, graph.placeholder("w"))
    read = _node(graph, through, weight) if through else weight
    given = [bias, x, read] if "addmm" in reader else [x, read]
    _node(graph, reader, *given)
    assert vulkan_guards._is_weight_of_linear(weight, _all) == (reader in _LINEAR)
    # Layers that stay behind need it as a tensor.
    assert not vulkan_guards._is_weight_of_linear(weight, _none)
    # As the other operand, Vulkan would need it as a tensor.
    _node(graph, "aten.mm.default", read, x)
    assert not vulkan_guards._is_weight_of_linear(weight, _all)


def _all(node: Node) -> bool:
    return True


def _none(node: Node) -> bool:
    return False


class Layers(nn.Module):
    """Quantized layers with and without a bias, and one in float."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32, bias=False)
        self.last = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.second(self.first(x)))


def test_biases_of_quantized_layers_are_added_apart() -> None:
    torch.manual_seed(0)
    net = Layers().eval()
    config = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))
    quantize_(net, config, lambda module, name: name in ("first", "second"))
    sample = torch.randn(2, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(net, (sample,))
    expected = program.module()(sample)
    changed = vulkan_recipes._biases_apart("forward", program)
    linear, add = torch.ops.aten.linear.default, torch.ops.aten.add.Tensor
    layers = [n for n in changed.graph.nodes if n.target in (linear, add)]
    assert [n.target for n in layers] == [linear, add, linear, linear]
    assert [len(n.args) for n in layers] == [2, 2, 2, 3]
    assert layers[1].args[0] is layers[0]
    torch.testing.assert_close(changed.module()(sample), expected)


def test_quantized_layers_go_whole(refused: Callable[..., dict[str, str]]) -> None:
    """The zero points of what they are given have 8 bits."""
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    quantize_(net, Int8DynamicActivationIntxWeightConfig(torch.int4, PerGroup(32)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert refused(net, torch.randn(4, 64)) == {}


class State(nn.Module):
    """A buffer that each call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.mul_(0.5).add_(x)
        return torch.tanh(self.state)


def test_state_stays_with_executorch() -> None:
    exported = torch.export.export(State(), (torch.ones(4),))
    edge = _lowered(exported, partitioner=[vulkan_guards.GuardedPartitioner({})])
    signature = edge.exported_program().graph_signature
    assert list(signature.buffers_to_mutate.values()) == ["state"]
    assert "state" in signature.inputs_to_buffers.values()


_FLOATS = {torch.float32, torch.float64}


def test_reductions_keep_their_dimension() -> None:
    sums = (lambda x: x.sum(-1), lambda x: x.sum(-1, dtype=torch.float64))
    net = Net(lambda x: (*(f(x) for f in sums), x.amax(1), x.mean(2) * 2, x.sum(-1, True)))
    exported = torch.export.export(net, (torch.ones(2, 3, 4),))
    edge = exir.to_edge(exported).transform([KeptDimensions()])
    graph = edge.exported_program().graph
    called = [n for n in graph.nodes if n.op == "call_function"]
    calls = [(operators.packet(n), list(n.meta["val"].shape)) for n in called]
    assert ("sum", [2, 3]) not in calls
    assert calls.count(("sum", [2, 3, 1])) == 3
    assert {n.meta["val"].dtype for n in called if operators.packet(n) == "sum"} == _FLOATS
    # Without the type, which its operator has no argument for.
    assert not any(n.kwargs for n in called if operators.packet(n) == "squeeze_copy")
    assert ("mean", [2, 3, 1]) in calls
    assert ("amax", [2, 4]) in calls
    assert calls.count(("squeeze_copy", [2, 3])) == 3


@pytest.mark.parametrize(("padding", "varies"), [(1, True), (0, True), (1, False)])
def test_rows_of_dynamic_lengths(
    refused: Callable[..., dict[str, str]], padding: int, varies: bool
) -> None:
    net = nn.Conv1d(4, 4, 3, padding=padding)
    shapes = ({2: torch.export.Dim("n", min=4, max=9)},) if varies else None
    left = refused(net, torch.ones(1, 4, 8), shapes=shapes)
    assert bool(left) == (padding > 0 and varies)


@pytest.mark.parametrize("shape", [(3, 16), (1, 16, 32), (1, 16, 8, 4)])
def test_group_norms_of_pictures_only(
    refused: Callable[..., dict[str, str]], shape: tuple[int, ...]
) -> None:
    assert bool(refused(nn.GroupNorm(4, 16), torch.ones(shape))) == (len(shape) != 4)


def test_more_than_four_dimensions(refused: Callable[..., dict[str, str]]) -> None:
    """Within a part views and permutations; no part takes or gives such tensors."""

    def windows(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 2, 2, 2, 2).permute(0, 2, 1, 3, 4).reshape(2, 16)

    def refusals(function: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> set[str]:
        reasons = refused(Net(function), torch.ones(shape))
        return {name for name, reason in reasons.items() if "more than four" in reason}

    assert not refusals(windows, 4, 8)
    assert refusals(lambda x: windows(x).view(2, 2, 2, 2, 2), 4, 8) == {"aten.view_copy.default"}
    assert "aten.slice_copy.Tensor" in refusals(lambda x: x[:, 1:], 2, 3, 1, 1, 2)


_SIZES = torch.randn(16).abs()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("function", "dimension", "left_out"),
    [
        (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), 2, ""),
        (lambda x: _resized(x, scale_factor=2.0), 2, "upsample_bilinear2d.vec"),
        (lambda x: _resized(x, scale_factor=2.0), 0, ""),
        (lambda x: F.interpolate(x, (9, 7), mode="bilinear"), 3, "upsample_bilinear2d.vec"),
        (lambda x: _resized(x, (2 * x.shape[2], 7)), 2, "upsample_bilinear2d.vec"),
        (lambda x: F.group_norm(x, 4, _SIZES, _SIZES), 2, ""),
        (lambda x: F.group_norm(x, 4, _SIZES, _SIZES), 0, "native_group_norm.default"),
        (lambda x: x.roll(1, 2), 2, "index_select.default add.Tensor arange.start_step"),
        (lambda x: x.index_select(1, torch.tensor([2, 0])), 2, "index_select.default"),
        (lambda x: x.roll(1, 3), 0, "index_select.default"),
        (lambda x: F.pad(x, (0, 0, 0, x.shape[2])), 2, "constant_pad_nd.default"),
        (lambda x: x[:, :, :1].expand(-1, -1, x.shape[2], -1), 2, ""),
        (lambda x: torch.add(x, x * 2, alpha=x.shape[2]), 2, "add.Tensor"),
        (lambda x: x * (1 / x.shape[2]), 2, "mul.Tensor"),
        (lambda x: x + torch.arange(x.shape[3]) * 0.5, 3, "arange.start_step"),
        (lambda x: (x * 2)[:1].squeeze(0) * 2, 2, "squeeze_copy.dims"),
        (lambda x: (x * 2)[:1].squeeze(0) * 2, 0, ""),
    ],
)
def test_sizes_that_vary(
    refused: Callable[..., dict[str, str]],
    function: Callable[..., Any],
    dimension: int,
    left_out: str,
) -> None:
    """Its runtime takes constants from the largest sizes, and lists of computed ones end it."""
    shapes = ({dimension: torch.export.Dim("n", min=4, max=9)},)
    left = refused(_Alone(function), torch.ones(5, 16, 6, 7), shapes=shapes)
    named = ("upsample", "native_group", "index_select", "constant_pad", "expand")
    named = (*named, "add", "arange", "mul", "squeeze")
    ours = [name for name in left if name.startswith(tuple(f"aten.{each}" for each in named))]
    assert ours == [f"aten.{operator}" for operator in left_out.split()], left


class _Alone(Net):
    """A net of one input, whose sizes may vary."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return self.function(x + 1)


def _resized(x: torch.Tensor, *size: Any, **named: Any) -> torch.Tensor:
    return F.interpolate(x, *size, mode="bilinear", align_corners=True, **named)


_X, _P = torch.randn(3, 4, 8), torch.randn(2, 4, 6, 8)
_POINTWISE, _KERNEL = torch.randn(2, 4, 1), torch.randn(2, 4, 3, 3)


def _with_copy(x: torch.Tensor, expanded: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return x.expand_as(x) if expanded else x.clone(), x


_RATIO = "Vulkan's runtime ends the process on a factor that is not the ratio of sizes"
_STORED = "Vulkan's runtime ends the process on weights that are computed or left out"


def test_numbers_of_the_model(refused: Callable[..., dict[str, str]]) -> None:
    """Whole ones, too, which are converted, are no constants that stay outside."""
    assert refused(Net(lambda x: x * 2 - 1), _X) == {}
    reasons = refused(Net(lambda x: x * 2**40), _X)
    assert "Vulkan reads 32 bits of whole numbers of 64" in reasons.values()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("function", "x", "operator", "reason"),
    [
        (lambda x: F.layer_norm(x, (8,)), _X, "native_layer_norm.default", _STORED),
        (lambda x: x.softmax(1), _P, "_softmax.default", "along batches or their channels"),
        (lambda x: x.amax(0, keepdim=True), _P, "amax.default", "along batches or their channels"),
        (F.gelu, _X, "gelu.default", 'unless allow_inexact has "gelu"'),
        (lambda x: x[:, :0] * 2, _X, "mul.Tensor", "tensors without elements"),
        (lambda x: x.long() * 3, _X, "mul.Tensor", "whole numbers with 32 bits"),
        (lambda x: x.long(), _X, "_to_dim_order_copy.default", "whole numbers with 32 bits"),
        (lambda x: x.int() + 3, _X, "add.Tensor", "lacks it for torch.int32"),
        (lambda x: x.to(torch.int8).mT, _X, "permute_copy.default", "no quantized values"),
        (lambda x: x.bool(), _X, "_to_dim_order_copy.default", "conversions to booleans"),
        (lambda x: x == x.amax(1, True), _X, "eq.Tensor", "less than 1e-5 apart"),
        (
            lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
            _P,
            "upsample_bilinear2d.vec",
            _RATIO,
        ),
        (lambda x: F.interpolate(x, size=(5, 7)), _P, "upsample_nearest2d.vec", "are multiples"),
        (
            lambda x: F.interpolate(x, size=(1, 5), mode="bilinear", align_corners=True),
            _P,
            "upsample_bilinear2d.vec",
            "corners are aligned",
        ),
        (lambda x: F.conv1d(x, _POINTWISE, stride=2), _X, "convolution.default", "no strides"),
        (lambda x: F.conv1d(x, _POINTWISE, padding=1), _X, "convolution.default", "no padding"),
        (lambda x: torch.div(x, 0.7, rounding_mode="trunc"), _X, "div.Tensor_mode", "rounds"),
        (lambda x: torch.div(x, 0.7, rounding_mode="floor"), _X, "div.Tensor_mode", "rounds"),
        (lambda x: F.conv2d(x, x[:, :, :3, :3] * 2), _P, "convolution.default", "are computed"),
        (lambda x: F.group_norm(x, 2), _X, "native_group_norm.default", "four dimensions"),
        (lambda x: F.conv2d(x, x[:1, :, :2, :2]), _P, "convolution.default", "are computed"),
        (lambda x: F.conv2d(x, _KERNEL.mT), _P, "convolution.default", "are computed"),
        (lambda x: _with_copy(x * 2), _X, "_clone_dim_order.default", "loses a copy"),
        (lambda x: _with_copy(x * 2, True), _X, "expand_copy.default", "loses a copy"),
        (lambda x: torch.pow(x, x), _X, "pow.Tensor_Tensor", "negative numbers by a tensor"),
        (lambda x: (x * 2, torch.nonzero(x)), _X, "_assert_scalar.default", "follow from values"),
    ],
)
def test_what_it_computes_wrong(
    refused: Callable[..., dict[str, str]],
    function: Callable[..., Any],
    x: torch.Tensor,
    operator: str,
    reason: str,
) -> None:
    reasons = refused(Net(function), x)
    found = [said for name, said in reasons.items() if name.endswith(operator)]
    assert found, reasons
    assert reason in found[0]


def test_stored_numbers_that_32_bits_may_not_hold() -> None:
    """Upstream partitions with tensors without bytes, of which the type says what it can."""
    wide = vulkan_kernels._is_wide
    assert wide(None) and wide(torch.tensor([2**31])) and not wide(torch.tensor([2**31 - 1]))
    with FakeTensorMode() as mode:
        assert not wide(mode.from_tensor(torch.ones(2, dtype=torch.int8)))
        assert wide(mode.from_tensor(torch.ones(2, dtype=torch.int64)))
        assert not wide(torch.tensor(3))
