"""Quantizers leave integers and booleans alone."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import xnnpack_recipes
from etbuild import Method, ModelSpec, Options, RecipeContext
from etlower.quantize import quantize
from executorch.export import ExportRecipe, QuantizationRecipe
from torchao.quantization.pt2e import HistogramObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

_SPEC = QuantizationSpec(
    dtype=torch.int8,
    quant_min=-128,
    quant_max=127,
    qscheme=torch.per_tensor_affine,
    observer_or_fake_quant_ctr=HistogramObserver,
)


class Eager(Quantizer):
    """Annotates every input of every operator; `shared`: with the scale of the first."""

    def __init__(self, shared: bool) -> None:
        self._shared = shared

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        for node in model.graph.nodes:
            if node.op != "call_function":
                continue
            inputs: dict[Any, Any] = {}
            for number, source in enumerate(node.all_input_nodes):
                first = (node.all_input_nodes[0], node)
                share = self._shared and number
                inputs[source] = SharedQuantizationSpec(first) if share else _SPEC
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(inputs, _SPEC, _annotated=True)
        return model

    def validate(self, model: torch.fx.GraphModule) -> None:
        pass


class Plus(torch.nn.Module):
    """A result that follows from a weight alone: no part takes its scales."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * self.weight, self.weight + 1


def test_kernels_that_quantize_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream asks for them when a program is written, whoever made the quantizer."""
    monkeypatch.delitem(sys.modules, "executorch.kernels.quantized", raising=False)
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Eager(False)]))
    net = Plus()
    spec = ModelSpec({"forward": Method(net, (torch.ones(2, 4),))})
    quantize({"forward": net}, spec, recipe, "//:net")
    assert "executorch.kernels.quantized" in sys.modules


class Masked(torch.nn.Module):
    """A sum of an embedding and what a mask leaves of a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(8, 4)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, tokens: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        kept = torch.where(tokens.unsqueeze(1) > 3, self.linear(x), torch.zeros(4))
        return self.table(tokens) + kept


@pytest.mark.few(1)
@pytest.mark.parametrize("shared", [True, False])
def test_integers_stay(shared: bool) -> None:
    torch.manual_seed(0)
    net = Masked().eval()
    inputs = (torch.tensor([1, 5]), torch.randn(2, 4))
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Eager(shared)]))
    spec = ModelSpec({"forward": Method(net, inputs)})
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    nodes = [n for n in result.graph.nodes if "dequantize" in str(n.target)]
    assert nodes
    assert all(n.meta["val"].dtype == torch.float32 for n in nodes if "val" in n.meta)
    torch.testing.assert_close(result(*inputs), net(*inputs), atol=0.1, rtol=0)
    # A layer whose inputs are all floats is quantized still.
    (linear,) = [n for n in result.graph.nodes if n.target is torch.ops.aten.linear.default]
    assert all("dequantize" in str(n.target) for n in linear.all_input_nodes[:1])


class Positions(torch.nn.Module):
    """Arithmetic on indices before an embedding, and on floats behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(32, 4)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        moved = 2 * positions + 1
        return self.linear(self.table(moved)) * 0.5 + 1, moved


def test_numbers_that_are_added_to_integers_stay() -> None:
    """Upstream's makes float tensors of them, which index nothing; those beside floats it keeps."""
    torch.manual_seed(0)
    net = Positions().eval()
    inputs = (torch.tensor([1, 5]),)
    spec = ModelSpec({"forward": Method(net, inputs)})
    context = RecipeContext(Options({}, "//x:r"), "//x:r")
    recipe = xnnpack_recipes.int8_static_per_channel(context)
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    got, moved = result(*inputs)
    want, expected = net(*inputs)
    assert moved.dtype == torch.int64 and torch.equal(moved, expected)
    torch.testing.assert_close(got, want, atol=0.1, rtol=0)
    numbers = [
        [type(a) for a in node.args if not isinstance(a, torch.fx.Node)]
        for node in result.graph.nodes
        if node.target in (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor)
    ]
    assert numbers == [[int], [int], [], []]
    # None is left of those that were taken out again.
    used = {node.target for node in result.graph.nodes if node.op == "get_attr"}
    assert {name for name, _ in result.named_buffers()} <= used


class Copying(Eager):
    """Annotates a graph of its own, with buffers of its own, as Arm's quantizers do."""

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        for name, buffer in list(model.named_buffers()):
            holder, _, last = name.rpartition(".")
            setattr(model.get_submodule(holder), last, buffer.clone())
        return model


class Counting(torch.nn.Module):
    """A linear layer, and a buffer that each call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("last", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last.copy_(x)
        return self.linear(x) + self.last


def test_calibration_leaves_no_trace_in_a_quantizers_own_graph() -> None:
    net = Counting().eval()
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Copying(False)]))
    spec = ModelSpec({"forward": Method(net, (torch.ones(1, 4),))})
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    assert not result.last.any()
    assert not net.last.any()


class Causal(torch.nn.Module):
    """A masked sum of a linear layer and its input."""

    def __init__(self, masked: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear, self.masked = torch.nn.Linear(4, 4), masked

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
        return (self.masked(self.linear(x), mask) * 2).softmax(-1)


def _product(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """As torch's attention that gives its weights."""
    zeros = torch.zeros(1, 4, 4).masked_fill(mask, -math.inf)
    return torch.baddbmm(zeros, torch.eye(4)[None], x[None])[0]


MASKED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "-inf": lambda x, mask: x.masked_fill(mask, -math.inf),
    "product": _product,
    "split": lambda x, mask: sum(x.masked_fill(mask, -math.inf).split(4)),
    "least": lambda x, mask: x + torch.where(mask, torch.finfo(torch.float32).min, 0.0),
    "-1e9": lambda x, mask: x.masked_fill(mask, -1e9),
    "computed": lambda x, mask: x + (~mask).float().log(),
    "copied": lambda x, mask: torch.where(mask, torch.tensor(-math.inf), x),
    "times -1e4": lambda x, mask: x + mask.float() * -1e4,
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", MASKED)
def test_masks_get_no_scale(name: str) -> None:
    """It would be that of the numbers beside them, or of the mask: too coarse for these."""
    net = Causal(MASKED[name]).eval()
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Eager(False)]))
    inputs = (4 * torch.eye(4),)
    spec = ModelSpec({"forward": Method(net, inputs)})
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    got = result(*inputs)
    assert not got.triu(1).any(), "what is masked counts for nothing"
    torch.testing.assert_close(got, net(*inputs), atol=0.1, rtol=0)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4, 4)])
def test_tensors_without_elements_get_no_scale(shape: tuple[int, ...]) -> None:
    """Delegates leave them, and no kernel reads a scale."""

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 3.5 + 1).relu()

    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Eager(False)]))
    spec = ModelSpec({"forward": Method(Scaled(), (torch.ones(shape),))})
    (result,) = quantize({"forward": Scaled()}, spec, recipe, "//m:net").values()
    assert not [n for n in result.graph.nodes if "quantized_decomposed" in str(n.target)]


@pytest.mark.parametrize("function", [torch.add, torch.mul, torch.maximum, torch.clamp])
def test_floats_beside_integers_get_no_scale(function: Callable[..., torch.Tensor]) -> None:
    """Compilers count whole numbers in the scale of the floats: Arm's was 8.4 off."""

    class Mixed(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return function(x, y)

    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Eager(False)]))
    spec = ModelSpec({"forward": Method(Mixed(), (torch.randn(4), torch.arange(4)))})
    (result,) = quantize({"forward": Mixed()}, spec, recipe, "//m:net").values()
    assert not [n for n in result.graph.nodes if "quantized_decomposed" in str(n.target)]


class Narrowing(Eager):
    """Gives whole numbers 32 bits, as Arm's quantizers do."""

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        [output] = model.graph.find_nodes(op="output")
        [node] = [n for n in output.args[0] if n.meta["val"].dtype == torch.int64]
        with model.graph.inserting_before(output):
            narrow = model.graph.call_function(torch.ops.aten.to.dtype, (node, torch.int32))
        narrow.meta["val"] = node.meta["val"].to(torch.int32)
        output.replace_input_with(node, narrow)
        return model


def test_outputs_of_whole_numbers_keep_their_type() -> None:
    net = Positions().eval()
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Narrowing(False)]))
    inputs = (torch.tensor([1, 5]),)
    spec = ModelSpec({"forward": Method(net, inputs)})
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    assert torch.equal(result(*inputs)[1], net(*inputs)[1])
    assert result(*inputs)[1].dtype == torch.int64


class Gated(torch.nn.Module):
    """A product with a gate that has no gradient, in regions of regions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.gate, self.last = (torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.first(x)
        with torch.no_grad():
            gate = self.gate(y).sigmoid()
            with torch.enable_grad():
                double = gate * 2
            total = double.sum(1)
        return self.last(y * double), total


def test_regions_without_gradients_get_scales() -> None:
    net = Gated().eval()
    inputs = (torch.randn(2, 4),)
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Eager(False)]))
    spec = ModelSpec({"forward": Method(net, inputs)})
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    layers = [n for n in result.graph.nodes if n.target is torch.ops.aten.linear.default]
    assert len(layers) == 3
    assert all("dequantize" in str(n.args[0].target) for n in layers)
    for value, expected in zip(result(*inputs), net(*inputs), strict=True):
        torch.testing.assert_close(value, expected, atol=0.1, rtol=0)


class Product(torch.autograd.Function):
    """A product whose gradient is its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = ctx.saved_tensors
        return gradient * y, gradient * x


def test_gradients_that_dynamo_refuses_are_left_out() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            return Product.apply(y, y)

    net, inputs = Net().eval(), (torch.randn(2, 4),)
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Eager(False)]))
    spec = ModelSpec({"forward": Method(net, inputs)})
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    torch.testing.assert_close(result(*inputs), net(*inputs), atol=0.1, rtol=0)


def test_a_note_names_what_calibration_saw_infinite() -> None:
    class Inverse(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.atan(1 / x.relu()) * 2

    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Eager(False)]))
    inputs = (torch.tensor([-1.0, 0.5, 2.0]),)
    spec = ModelSpec({"forward": Method(Inverse(), inputs)})
    notes: list[str] = []
    (result,) = quantize({"forward": Inverse()}, spec, recipe, "//m:net", notes.append).values()
    torch.testing.assert_close(result(*inputs), Inverse()(*inputs), atol=0.1, rtol=0)
    assert [note.partition(" ")[0] for note in notes] == ["relu", "reciprocal", "mul", "atan"]
    assert notes[3].startswith("atan (test_quantize.py:")
    assert notes[3].endswith("stays in float: calibration saw an infinity or NaN there or behind.")


class Derived(Quantizer):
    """Gives each bias the scales of its layer's weight, which has one for all, or more."""

    def __init__(self, weight: QuantizationSpec) -> None:
        self._weight = weight

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        [layer] = model.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)
        x, weight, bias = layer.args
        derived = DerivedQuantizationSpec(
            derived_from=[(x, layer), (weight, layer)],
            derive_qparams_fn=_scales_of_bias,
            dtype=torch.int32,
            quant_min=-(2**31),
            quant_max=2**31 - 1,
            qscheme=torch.per_channel_symmetric,
            ch_axis=0,
        )
        specs = {x: _SPEC, weight: self._weight, bias: derived}
        layer.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(specs, _SPEC, _annotated=True)
        return model

    def validate(self, model: torch.fx.GraphModule) -> None:
        pass


def _scales_of_bias(observers: Any) -> tuple[torch.Tensor, torch.Tensor]:
    x, weight = (observer.calculate_qparams()[0] for observer in observers)
    return x * weight, torch.zeros_like(x * weight, dtype=torch.int64)


_BY_CHANNEL = QuantizationSpec(
    dtype=torch.int8,
    quant_min=-127,
    quant_max=127,
    qscheme=torch.per_channel_symmetric,
    ch_axis=0,
    observer_or_fake_quant_ctr=PerChannelMinMaxObserver,
)


@pytest.mark.parametrize(("weight", "has_scales"), [(_SPEC, False), (_BY_CHANNEL, True)])
def test_biases_have_scales_of_channels_where_weights_do(
    weight: QuantizationSpec, has_scales: bool
) -> None:
    """The kernel that dequantizes them ends the process where one scale is for all channels."""
    net = torch.nn.Linear(4, 3).eval()
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Derived(weight)]))
    inputs = (torch.randn(2, 4),)
    spec = ModelSpec({"forward": Method(net, inputs)})
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    [layer] = result.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)
    assert ("dequantize_per_channel" in str(layer.args[2].target)) == has_scales
    torch.testing.assert_close(result(*inputs), net(*inputs), atol=0.1, rtol=0)


class Offset(torch.nn.Module):
    """A layer of each kind with a bias that follows from an input, or from what is stored."""

    def __init__(self, follows: bool) -> None:
        super().__init__()
        self.follows, self.bias = follows, torch.nn.Parameter(torch.randn(4))
        self.layer, self.last = torch.nn.Conv2d(4, 4, 3, padding="same"), torch.nn.Linear(6, 4)
        self.wide = torch.nn.ConvTranspose2d(4, 4, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        bias = x.mean((0, 2, 3)) if self.follows else self.bias * 2
        rows = x.flatten(2)
        return (
            F.conv2d(x, self.layer.weight, bias, padding="same").relu(),
            F.conv_transpose2d(x, self.wide.weight, bias, stride=2),
            F.conv1d(rows, self.layer.weight[:, :, 0], bias=bias),
            F.linear(x, self.last.weight, bias=bias),
        )


@pytest.mark.parametrize("follows", [True, False])
def test_biases_that_follow_from_inputs_are_added(follows: bool) -> None:
    """Delegates leave such layers, and Cortex-M's kernels went without the bias."""
    net = Offset(follows).eval()
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[Eager(False)]))
    inputs = (torch.randn(1, 4, 6, 6),)
    spec = ModelSpec({"forward": Method(net, inputs)})
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    sums = result.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    assert len(sums) == (4 if follows else 0)
    for value, expected in zip(result(*inputs), net(*inputs), strict=True):
        torch.testing.assert_close(value, expected, atol=0.2, rtol=0)


def test_random_weights_have_no_scales_of_channels() -> None:
    """XNNPACK's quantizer takes them for stored ones; the kernel ends the process."""

    class Noise(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(x, torch.randn(3, 4)) * 0

    net = Noise()
    spec = ModelSpec({"forward": Method(net, (torch.randn(2, 4),))})
    recipe = xnnpack_recipes.int8_static_per_channel(RecipeContext(Options({}, "//x:r"), "//x:r"))
    (result,) = quantize({"forward": net}, spec, recipe, "//m:net").values()
    assert not [n for n in result.graph.nodes if "per_channel" in str(n.target)]
