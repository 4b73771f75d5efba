"""Calls that no kernel takes are refused when a program is built, and others run."""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from etbuild import BuildError, Method, ModelSpec
from etlower import runnable, stages
from etlower.outputs import leaves
from executorch.export import ExportRecipe
from quiet_torch import noise, outputs, run, xnnpack
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


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("net", "inputs", "parts"),
    [
        (Net(lambda x: x[:, :0] @ x[:0]), (ROWS,), ["[9, 0]", "empty tensors"]),
        (Net(lambda x: x.double().log_softmax(1)), (ROWS,), ["64-bit floats", "x.float()"]),
        (Net(lambda x: F.layer_norm(x.double(), (4,))), (ROWS,), ["64-bit floats", "x.float()"]),
        (Net(lambda x: F.instance_norm(x[None].double())), (ROWS,), ["64-bit floats", "x.float()"]),
        (Net(lambda x: torch.pow(x > 0, True)), (ROWS,), ["got booleans", "logical_or"]),
        (Net(lambda x: x[1:3] * 2), (ROWS.t(),), ["[1, 0]", ".contiguous()"]),
        *(
            (
                Net(lambda x, d=d, a=a: F.interpolate(x.to(d), None, 2, "bilinear", antialias=a)),
                (ROWS[None, None],),
                [kind, "x.float()"],
            )
            for d, a, kind in (
                (torch.uint8, False, "got bytes"),
                (torch.uint8, True, "got bytes"),
                (torch.float64, True, "64-bit floats"),
            )
        ),
        (Net(lambda x: F.hardtanh(x, -0.3, 0.3)), (ROWS.long(),), ["bound -0.3", "clamp"]),
        (Net(lambda x: x.half().clamp(max=1e5)), (ROWS,), ["100000.0", "x.float()"]),
        (Net(lambda x: torch.fft.fft(x).real), (ROWS,), ["onesided=False", "torch.fft.rfft"]),
        (
            Net(lambda x, w: torch.native_group_norm(x[None], w, None, 1, 9, 4, 1, 0.1)[0]),
            (ROWS.half(), ROWS[:, 0].contiguous()),
            ["float16, float32", "x.to(weight.dtype)"],
        ),
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


def test_scales_of_other_channels() -> None:
    importlib.import_module("executorch.kernels.quantized")
    scales = torch.ones(1), torch.zeros(1, dtype=torch.int64)
    decomposed = torch.ops.quantized_decomposed

    def function(x: torch.Tensor) -> Any:
        return decomposed.dequantize_per_channel(x, *scales, 0, -128, 127, torch.int8)

    with pytest.raises(BuildError) as raised:
        lowered(Net(function), ROWS.to(torch.int8))
    text = str(raised.value)
    assert "calls quantized_decomposed.dequantize_per_channel (" in text
    assert "got the number of scales 1 for channels of the number 9" in text


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (
            lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear", antialias=True),
            ["calls _upsample_bilinear2d_aa (", "takes no size that varies", "dynamic_shapes"],
        ),
        (
            lambda x: F.scaled_dot_product_attention(x, x, x),
            ["test_runnable.py:", "the root of the last dimension", "give scale"],
        ),
        (
            lambda x: torch.linalg.inv(x @ x.mT),
            [
                "calls aten.linalg_inv.default (",
                "test_runnable.py:",
                "with float32 [9, 9]",
                "has a kernel for it",
            ],
        ),
    ],
)
def test_what_varies_or_solves(function: Any, parts: list[str]) -> None:
    sizes = (({1: torch.export.Dim("n", min=2, max=8)},),)
    method = Method(Net(function).eval(), (ROWS,), dynamic_shapes=sizes)
    with pytest.raises(BuildError) as raised:
        run(ModelSpec({"forward": method}), ExportRecipe(name="portable"))
    text = str(raised.value)
    assert all(part in text for part in parts), text


def test_what_has_no_elements() -> None:
    with pytest.raises(BuildError) as raised:
        lowered(Net(lambda x: x[:0].nonzero()), ROWS)
    text = str(raised.value)
    assert "calls aten.nonzero.default (" in text
    assert "with float32 [0, 4], and ExecuTorch has no order of memory" in text


def test_a_selection_that_broadcasts() -> None:
    with pytest.raises(BuildError, match=r"(?s)\[4\] and \[9, 4\].*broadcast_tensors"):
        lowered(Net(torch.masked_select), ROWS[0], ROWS > 0)


@pytest.mark.parametrize(
    ("net", "kind"),
    [
        (Net(lambda x: torch.fft.rfft(x)), "output"),
        (Net(lambda x: torch.view_as_real(torch.fft.rfft(x))), ""),
    ],
)
def test_complex_numbers_stay_inside(net: Net, kind: str) -> None:
    if not kind:
        lowered(net, ROWS)
        return
    with pytest.raises(BuildError, match=f"(?s){kind} of complex numbers.*view_as_real"):
        lowered(net, ROWS)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "net",
    [
        Net(lambda x: F.pad(x, (-1, 2), value=0.7)),
        Net(lambda x: torch.nonzero(x > 0)),
        Net(lambda x: torch.index_select(x, 0, torch.nonzero(x[:, 0] > 0)[:, 0])),
        Net(lambda x: torch.index_select(x, 0, (x[:, 0] > 0).nonzero().squeeze(1))),
        Net(lambda x: x[x > 0] * 2),
        Net(lambda x: torch.topk(x, 3, dim=1)),
        Net(lambda x: [torch.max(x, 1), x + 1]),
        Net(lambda x: {"pair": Pair(x + 1, x * 2)}),
        Net(lambda x: x.view(3, 3, 4).permute(2, 0, 1).clone()[1:].sum(0)),
        # Beyond core ATen, with kernels.
        Net(lambda x: torch.var_mean(x, 1)),
        Net(lambda x: torch.masked_select(x, x > 0)),
        Net(lambda x: (x * 9).to(torch.int64) << 2),
        Net(lambda x: (x * 9).to(torch.int32) >> torch.arange(4, dtype=torch.int32)),
    ],
)
def test_what_runs(net: Net, tmp_path: Path) -> None:
    """Results whose order is torch's own, and named tuples."""
    got = outputs(lowered(net, ROWS), tmp_path, "forward", ROWS)
    expected = leaves(net(ROWS))
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


XNNPACK = (
    "fp32",
    "int8_dynamic_per_channel",
    "int8_static_per_channel",
    "int8_dynamic_act_int4_weight",
)


def results(net: Net, inputs: torch.Tensor, recipe: str, folder: Path) -> list[torch.Tensor]:
    """The outputs of a program of XNNPACK's."""
    spec = ModelSpec({"forward": Method(net.eval(), (inputs,))})
    return outputs(run(spec, xnnpack(recipe)), folder, "forward", inputs)


@pytest.mark.few(2)
@pytest.mark.parametrize("recipe", XNNPACK)
def test_named_tuples_of_delegates(recipe: str, tmp_path: Path) -> None:
    net = Net(lambda x, a: {"best": torch.topk(a(x), 3, dim=1), "of": x.max(1)}, nn.Linear(64, 32))
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    values, places, largest, at = results(net, x, recipe, tmp_path)
    assert (values.shape, places.dtype) == ((4, 3), torch.int64)
    torch.testing.assert_close(values, net(x)["best"].values, atol=0.3, rtol=0.0)
    torch.testing.assert_close((largest, at), tuple(x.max(1)), atol=0.05, rtol=0.0)


@pytest.mark.few(4)
@pytest.mark.parametrize("recipe", XNNPACK)
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(2, 3, 4, padding="same"),
        nn.Conv2d(2, 3, (2, 3), padding="same", dilation=(1, 2)),
        nn.Conv2d(2, 4, 4, padding="same", groups=2),
    ],
)
def test_same_convolutions(layer: nn.Module, recipe: str, tmp_path: Path) -> None:
    """Of even kernels, which pad one side more."""
    net = Net(lambda x, a: a(x), layer)
    shape = (1, 2, 9) if isinstance(layer, nn.Conv1d) else (1, 2, 9, 8)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    [got] = results(net, x, recipe, tmp_path)
    torch.testing.assert_close(got, net(x).detach(), atol=0.1, rtol=0.0)


PICTURE = torch.randn(2, 3, 4, 6, generator=torch.Generator().manual_seed(0))
SCALE = torch.tensor([0.5, 1.0, 2.0])


@pytest.mark.few(3)
@pytest.mark.parametrize("recipe", ["portable", "fp32"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(1),
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(1),
        lambda x: F.layer_norm(x, (6,)),
        lambda x: F.group_norm(x, 3, SCALE, SCALE),
        lambda x: F.pixel_unshuffle(x, 2),
        lambda x: x.flip(1, 3),
        lambda x: x.argmax(1),
        lambda x: F.conv2d(x, PICTURE),
        lambda x: F.max_pool2d(x, 2).mean((2, 3)),
        lambda x: x.sigmoid().clamp(0.25, 0.5),
        # Kernels that read rows.
        lambda x: torch.cat([x, x], 1),
        lambda x: (x * 2 + x) * SCALE.view(3, 1, 1),
        lambda x: x / x.sum((2, 3), keepdim=True),
        lambda x: x.unsqueeze(2),
        lambda x: F.pad(x, (1, 1, 2, 0)),
        lambda x: F.channel_shuffle(x, 3),
        lambda x: torch.topk(x, 2, 1)[0] + 1,
        lambda x: x.max(1)[0],
        lambda x: x.scatter(1, torch.zeros(2, 1, 4, 6, dtype=torch.int64), 1.0),
        lambda x: F.conv2d(F.elu(F.conv2d(x, PICTURE)).flip(1), PICTURE[:, :2, :1, :1]),
        lambda x: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 0.5, (x,)),
        lambda x: x.permute(0, 2, 3, 1).cumsum(-1),
        lambda x: torch.where(x > 0, x, x.roll(1, 1)),
        lambda x: torch.stack(x.split(2, 3)),
        # Between delegates, which take the order that they were lowered for.
        lambda x: F.lp_pool2d(F.interpolate(x, size=(5, 1), mode="bilinear").abs(), 2.0, 1, 2),
        lambda x: F.avg_pool2d(x.relu() ** 2.5, 2).sigmoid() + 1,
    ],
)
def test_channels_that_lie_last(function: Any, recipe: str, tmp_path: Path) -> None:
    net = Net(lambda x: function(x.to(memory_format=torch.channels_last)))
    spec = ModelSpec({"forward": Method(net.eval(), (PICTURE,))})
    chosen = ExportRecipe(name="portable") if recipe == "portable" else xnnpack(recipe)
    [got] = outputs(run(spec, chosen), tmp_path, "forward", PICTURE)
    torch.testing.assert_close(got, net(PICTURE), atol=1e-4, rtol=1e-4)


OF_GRAY = (
    lambda x: (x * 2).relu(),
    lambda x: x.softmax(1) + x,
    lambda x: F.conv2d(x, torch.ones(1, x.shape[1], 1, 1)).abs(),
    lambda x: F.conv2d(x, torch.ones(3, x.shape[1], 1, 1)).mean((2, 3), keepdim=True),
    lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1),
    lambda x: F.max_pool2d(x, 1).sigmoid()[:, :1] + 1,
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    lambda x: torch.cat([x, x], 1)[:, ::2] - 1,
    lambda x: torch.minimum(x, x.flip(0)).flatten(),
)


@pytest.mark.release
@pytest.mark.parametrize("recipe", ["portable", "fp32"])
def test_orders_that_name_the_same_memory(recipe: str, tmp_path: Path) -> None:
    """Pictures of one channel, column or element lie in rows and have their channels last."""
    gray = [PICTURE[:, :1], PICTURE[..., :1], PICTURE[..., :1, :1], PICTURE[:1, :1, :1, :1]]
    rows = [x.contiguous() for x in gray]
    last = [torch.empty(x.shape, memory_format=torch.channels_last).copy_(x) for x in gray]

    def results(*pictures: torch.Tensor) -> list[torch.Tensor]:
        made = [x.to(memory_format=torch.channels_last) for x in pictures]
        wide = F.conv2d(PICTURE.to(memory_format=torch.channels_last), torch.ones(1, 3, 1, 1))
        return [f(x) for x in (*made, *pictures, wide) for f in OF_GRAY]

    chosen = ExportRecipe(name="portable") if recipe == "portable" else xnnpack(recipe)
    spec = ModelSpec({"forward": Method(Net(results).eval(), (*rows, *last))})
    got = outputs(run(spec, chosen), tmp_path, "forward", *rows, *last)
    torch.testing.assert_close(got, results(*rows, *last), atol=1e-4, rtol=1e-4)


def test_outputs_of_another_type() -> None:
    """Types stay what they are; an output may be quantized."""

    def program(function: Any) -> Any:
        return torch.export.export(Net(function), (torch.ones(2),))

    def check(exported: Any, lowered: Any) -> None:
        manager = SimpleNamespace(exported_program=lambda name: lowered)
        runnable.check_outputs(manager, {"forward": exported}, "//m:net")

    whole = program(lambda x: x.to(torch.int64))
    check(whole, whole)
    check(program(lambda x: x * 1), program(lambda x: x.to(torch.int8)))
    with pytest.raises(BuildError, match="output 0: passes of the lowering made it float32"):
        check(whole, program(lambda x: x * 1))
    with pytest.raises(BuildError, match="made it float16, expected float32"):
        check(program(lambda x: x * 1), program(lambda x: x.half()))


def _with_statistics(*layers: nn.Module) -> nn.Module:
    """Layers in a row whose batch norms are not the identity."""
    net = nn.Sequential(*layers)
    generator = torch.Generator().manual_seed(0)
    for norm in net.modules():
        if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
            assert norm.running_mean is not None and norm.running_var is not None
            norm.running_mean.normal_(generator=generator)
            norm.running_var.uniform_(0.5, 2, generator=generator)
    return net.eval()


class Quantized(nn.Module):
    """Layers and results that XNNPACK refuses or reads in another layout if they are quantized."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(4, 4, 3, 3))
        self.norm, self.first, self.other = (nn.BatchNorm2d(4) for _ in range(3))
        self.twice, self.as_well = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.as_well.bias = self.twice.bias
        self.of_pictures = nn.ModuleList(
            _with_statistics(layer, nn.BatchNorm2d(8), nn.ReLU())
            for layer in (
                nn.ConvTranspose2d(4, 8, 3, 2, groups=4),
                nn.ConvTranspose2d(4, 8, 3, 1, 0, 1, dilation=2),
            )
        )
        self.of_rows = nn.ModuleList(
            (
                _with_statistics(nn.Conv1d(4, 4, 1), nn.ReLU(), nn.BatchNorm1d(4), nn.ReLU()),
                _with_statistics(nn.Linear(5, 6), nn.BatchNorm1d(4), nn.ReLU()),
                nn.Sequential(nn.Conv1d(4, 4, 1, groups=4), nn.ConvTranspose1d(4, 8, 2, groups=4)),
            )
        )
        self.of_a_box, self.line = nn.Conv3d(1, 2, 2), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Pictures of as many rows and columns as channels, so that no shape shows a layout."""
        y = F.conv2d(x, self.weight, padding=1)
        copy = y.clone()
        shared = self.norm(self.twice(x)) + self.first(self.twice(x * 2)) + self.other(y)
        shared = shared + self.norm(self.as_well(x)) + self.first(self.as_well(x * 2))
        results = [y, y.sigmoid(), copy, copy.exp(), y.view(1, -1), y.tanh() + y, shared]
        results += [x.sum() * x.amax(), *(layer(x) for layer in self.of_pictures)]
        rows = torch.cat([x[..., 0], x[:, :, :1, 1]], 2)
        results += [layer(rows) for layer in self.of_rows]
        return [*results, self.line(x), self.of_a_box(x[None])]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "recipe",
    ["int8_static_per_channel", "int8_dynamic_per_channel", "int8_static_per_tensor"],
)
def test_quantized_layers(recipe: str, tmp_path: Path) -> None:
    net = _with_statistics(Quantized())[0]
    inputs = (torch.randn(1, 4, 4, 4, generator=torch.Generator().manual_seed(0)),)
    seen: dict[str, Any] = {}
    watch = stages.Watch(quantized=seen.update)
    program = run(ModelSpec({"forward": Method(net, inputs)}), xnnpack(recipe), watch)
    with torch.no_grad():
        wanted = seen["forward"](*inputs)
    results = outputs(program, tmp_path, "forward", *inputs)
    far = [noise(got, want) for got, want in zip(results, wanted, strict=True)]
    assert max(far) < 0.03, far
