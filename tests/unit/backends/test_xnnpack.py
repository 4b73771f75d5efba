"""Delegation by XNNPACK's recipes."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import xnnpack_recipes
from etbuild import Method, ModelSpec, Options, RecipeContext
from etlower import operators, stages
from etlower.progress import Progress
from executorch.runtime import Runtime


class Maxima(torch.nn.Module):
    """Maxima that XNNPACK computes, and those that fail its lowering."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """x of (1, 2, 4, 4)"""
        kept = [x.max(dim, keepdim=True).values for dim in (2, 3, 1, -1)]
        return *kept, x.max(2).values


def outputs(
    net: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    recipe: str,
    to: Path,
    strict: bool | None = None,
) -> list[torch.Tensor]:
    """Outputs of a net that is lowered with a recipe."""
    method = Method(net.eval(), inputs, strict=strict)
    spec = ModelSpec({"forward": method}, calibration=lambda: iter([inputs]))
    made = getattr(xnnpack_recipes, recipe)(RecipeContext(Options({})))
    manager = stages.run(spec, made, Progress(), "//m:net", etrecord=False)
    program = to / "net.pte"
    program.write_bytes(manager.buffer)
    return Runtime.get().load_program(program).load_method("forward").execute(inputs)


class Moved(torch.nn.Module):
    """Values that are moved, by one operator or several, and joined with wider ones."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        small, large = x * 0.2, x * 3
        return (
            torch.cat([small.T, large]),
            torch.cat([small.ravel().flatten(), large.flatten()]),
            torch.cat([small.reshape(6, 6).mT.swapdims(0, 1), large]),
        )


def test_moved_values_keep_their_scale(tmp_path: Path) -> None:
    """XNNPACK's runtime refuses a permutation to another one."""
    x = torch.linspace(-1, 1, 36).reshape(6, 6)
    got = outputs(Moved(), (x,), "int8_static_per_channel", tmp_path)
    for value, want in zip(got, Moved()(x), strict=True):
        assert (value - want).abs().max() < 0.02


class SlicedWeight(torch.nn.Module):
    """A convolution, and a linear layer over its input's columns of one slice of its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(8, 6, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weight = self.conv.weight[:, :, 1]
        return self.conv(x), F.linear(x.mT, weight, self.conv.bias)


@pytest.mark.parametrize("recipe", ["fp32", "int8_dynamic_per_channel"])
def test_layers_of_computed_weights_over_permuted_rows(recipe: str, tmp_path: Path) -> None:
    """They are products of batches, which upstream's pass takes for layers, and fails on."""
    net, x = SlicedWeight(), torch.randn(2, 8, 5)
    for got, expected in zip(outputs(net, (x,), recipe, tmp_path), net(x), strict=True):
        assert (got - expected).norm() < 0.02 * expected.norm()


class Ring(torch.nn.Module):
    """The last frames, which a convolution reads, as state."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 4, 3, padding=1)
        self.register_buffer("frames", torch.zeros(1, 6, 4))

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        frames = torch.cat([torch.roll(self.frames, -1, 1)[:, :-1], frame[:, None]], 1)
        self.frames.copy_(frames)
        return F.relu(self.conv(frames.mT)).mean(-1)


def test_state_that_has_a_scale(tmp_path: Path) -> None:
    """Its new value is what a part reads, converted for both; upstream knows it by name."""
    net, frame = Ring(), torch.randn(1, 4)
    [got] = outputs(copy.deepcopy(net), (frame,), "int8_static_per_channel", tmp_path)
    expected = net(frame)
    assert (got - expected).norm() < 0.02 * expected.norm()


class Averages(torch.nn.Module):
    """Those of whole pictures."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3), keepdim=True)


@pytest.mark.parametrize("varies", [True, False])
def test_averages_of_8_bits_have_sizes_of_the_example(varies: bool) -> None:
    """Those of other batches would be something else, by 14 dB more than they are."""
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.ReLU(), Averages()).eval()
    sizes = ({0: torch.export.Dim("n", min=1, max=8)},) if varies else None
    spec = ModelSpec({"forward": Method(net, (torch.randn(2, 3, 6, 6),), dynamic_shapes=sizes)})
    recipe = xnnpack_recipes.int8_static_per_channel(RecipeContext(Options({}, "//x:r"), "//x:r"))
    edges: list[torch.export.ExportedProgram] = []
    watch = stages.Watch(lowered=lambda edge: edges.append(edge.exported_program("forward")))
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)
    names = {operators.packet(node) for node in edges[0].graph.nodes}
    assert ("mean" in names) == varies


def test_maxima(tmp_path: Path) -> None:
    x = torch.randn(1, 2, 4, 4)
    got = outputs(Maxima(), (x,), "fp32", tmp_path)
    torch.testing.assert_close(tuple(got), Maxima()(x))


class Norms(torch.nn.Module):
    """Batch norms behind a layer that others follow, too, or whose channels are not last."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.conv, self.linear = nn.Conv2d(3, 3, 1), nn.Linear(3, 3)
        self.wide = nn.ConvTranspose2d(4, 6, 2, groups=2)
        self.norms = nn.ModuleList(nn.BatchNorm2d(3) for _ in range(2))
        self.rows = nn.ModuleList(nn.BatchNorm1d(3) for _ in range(2))
        self.wide_norm = nn.BatchNorm2d(6)
        for norm in (*self.norms, *self.rows, self.wide_norm):
            norm.running_mean, norm.running_var = torch.rand(2, norm.num_features) + 0.5
            norm.weight.data = torch.randn(norm.num_features)

    def forward(self, x: torch.Tensor, wide: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """x of (2, 3, 4, 3), wide of (2, 4, 3, 3)"""
        rows = x[:, 0, 0]
        return (
            *(norm(self.conv(x)) for norm in self.norms),
            *(norm(self.linear(rows)) for norm in self.rows),
            self.rows[0](self.linear(x[:, :, 0])),
            self.wide_norm(self.wide(wide)),
        )


def test_batch_norms(tmp_path: Path) -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(2, 3, 4, 3), torch.randn(2, 4, 3, 3))
    net = Norms()
    got = outputs(net, inputs, "fp32", tmp_path)
    torch.testing.assert_close(tuple(got), net(*inputs), atol=1e-5, rtol=1e-5)


class Levels(torch.nn.Module):
    """Batch norms behind one convolution: of calls of its own, and of the same one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 3, 1)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(3) for _ in range(3))
        for number, norm in enumerate(self.norms, 1):
            norm.weight.data = torch.rand(3) * number + 0.5

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """x of (2, 3, 4, 4)"""
        same = self.layer(x)
        return same, *(norm(same) for norm in self.norms[1:]), self.norms[0](self.layer(x))


@pytest.mark.parametrize("recipe", ["int8_static_per_channel", "int8_dynamic_per_channel"])
def test_quantized_batch_norms(recipe: str, tmp_path: Path) -> None:
    """Each is folded into weights of its own."""
    torch.manual_seed(0)
    x, net = torch.randn(2, 3, 4, 4), Levels()
    for value, want in zip(outputs(net, (x,), recipe, tmp_path), net(x), strict=True):
        noise = (value - want).square().sum() / want.square().sum()
        assert -10 * noise.log10() > 25


class Scores(torch.nn.Module):
    """Products of tensors, which stay with ExecuTorch, of a layer that does not."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(33, 8)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (5, 33)"""
        return self.function(self.layer(x))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ x.transpose(-1, -2),
        lambda x: x.transpose(-1, -2) @ x,
        lambda x: F.linear(x, x.relu()).relu(),
    ],
)
def test_what_leaves_a_part_is_converted(
    function: Callable[..., torch.Tensor], tmp_path: Path
) -> None:
    """A product that is refused takes its conversions for its own: they would be left out."""
    torch.manual_seed(0)
    x, net = torch.randn(5, 33), Scores(function)
    [got] = outputs(net, (x,), "int8_static_per_channel", tmp_path)
    noise = (got - net(x)).square().sum() / net(x).square().sum()
    assert -10 * noise.log10() > 25


@pytest.mark.few(1)
@pytest.mark.parametrize("layer", [torch.nn.Linear(5, 3), torch.nn.Conv1d(4, 3, 1)])
def test_rows_with_a_scale_behind_a_batch_norm(layer: torch.nn.Module, tmp_path: Path) -> None:
    """It is a convolution in floats, which upstream has give bytes: the part did not load."""
    torch.manual_seed(0)
    net, x = (
        torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.ReLU(), layer),
        torch.randn(2, 4, 5),
    )
    [got] = outputs(net, (x,), "int8_static_per_channel", tmp_path)
    assert (got - net(x)).norm() < 0.02 * net(x).norm()


class Turned(torch.nn.Module):
    """A layer over columns, and a product of the same columns with the layer's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x.mT), (x.mT @ self.layer.weight.T + 1).relu()


def test_parts_that_need_each_other(tmp_path: Path) -> None:
    """Upstream gives views of the one to the other, and fails on the circle."""
    net, x = Turned(), torch.randn(2, 6, 4)
    for got, expected in zip(outputs(net, (x,), "fp32", tmp_path), net(x), strict=True):
        torch.testing.assert_close(got, expected)


class Bounds(torch.nn.Module):
    """Bounds of one picture, on bytes and in floats: the other scale of an input serves one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.conv(x)
        return torch.cat([F.relu6(y), x], 1), torch.cat([x, y.clamp(0, 0.5)], 1)


def test_what_computes_floats_reads_floats(tmp_path: Path) -> None:
    """It read bytes, with which the part did not load."""
    torch.manual_seed(0)
    net, x = Bounds(), 5 * torch.randn(1, 3, 12, 12)
    got = outputs(net, (x,), "int8_static_per_channel", tmp_path)
    for one, expected in zip(got, net(x), strict=True):
        torch.testing.assert_close(one, expected, atol=0.3, rtol=0)


def test_the_bounds_of_all_activations_hold(tmp_path: Path) -> None:
    """Upstream's pass takes the last one's only."""
    bounds = [(0.0, 6.0), (-0.5, 1.5), (0.1, 0.4), (-2.0, -1.0)]

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            chains = [
                F.hardtanh(F.hardtanh(x + n, *first), *last)
                for n, (first, last) in enumerate(itertools.permutations(bounds, 2))
            ]
            return [*chains, F.hardtanh(F.relu(x * 2), -0.5, 0.5), F.relu(F.hardtanh(x - 1, -2, 1))]

    x = torch.linspace(-14, 8, 24).view(4, 6)
    got = outputs(Net(), (x,), "fp32", tmp_path)
    torch.testing.assert_close(got, Net()(x))


def _copies(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.relu()
    copy = y.clone()
    return y, copy, copy * 2, F.dropout(y, 0.5, False), y.cumsum(0), copy.clone().cumsum(0)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (_copies, (3, 4)),
        (lambda x: (x.clone(), x.clone(), x.clone() + 1, x + 1), (3, 4)),
        (lambda x: (x.relu()[..., None] * 2, x[None].sigmoid()), (1, 2, 1, 2, 1, 2)),
        (lambda x: (x.sum().softmax(0), F.hardtanh(x, -0.3)), (3, 4)),
    ],
)
def test_what_its_lowering_or_runtime_refuses(
    function: Callable[..., tuple[torch.Tensor, ...]], shape: tuple[int, ...], tmp_path: Path
) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return function(x)

    x = torch.randn(shape)
    got = outputs(Net(), (x,), "fp32", tmp_path)
    torch.testing.assert_close(tuple(got), function(x))


class Layers(torch.nn.Module):
    """Two convolutions and linear layers, which a function calls."""

    def __init__(self, function: Callable[..., tuple[torch.Tensor, ...]]) -> None:
        super().__init__()
        self.function = function
        self.first, self.last = torch.nn.Conv2d(4, 4, 1), torch.nn.Conv2d(4, 4, 1)
        self.rows, self.channels = torch.nn.Linear(6, 32), torch.nn.Linear(4, 32)
        self.square = torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """x of (1, 4, 6, 6)"""
        return self.function(self, x)


def _joined(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x], 1)


# What is computed of a tensor in rows.
_ROWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cat": _joined,
    "mm": lambda x: x @ x,
    "permute": lambda x: x.permute(0, 1, 3, 2),
    "slice": lambda x: x[:, :, 1:],
    "softmax": lambda x: x.softmax(-1),
    "view": lambda x: x.view(1, 4, 3, 12),
}
# A net of each, with layers and activations before and beside it.
_NETS: dict[str, Callable[..., Callable[..., tuple[torch.Tensor, ...]]]] = {
    "before": lambda f: lambda net, x: (net.first(f(x)),),
    "behind": lambda f: lambda net, x: (f(net.first(x)),),
    "behind ReLU": lambda f: lambda net, x: (f(torch.relu(net.first(x))),),
    "beside": lambda f: lambda net, x: (net.first(x), f(x)),
    "beside, first": lambda f: lambda net, x: (f(x), net.first(x)),
    "beside ReLU": lambda f: lambda net, x: (net.first(torch.relu(x)), f(torch.relu(x))),
    "behind and beside": lambda f: lambda net, x: (net.last(net.first(x)), f(net.first(x))),
    "around": lambda f: lambda net, x: (net.last(torch.relu(net.first(x))) + x, f(x)),
}
_MORE = {
    "one ReLU, twice": lambda net, x: (lambda y: (net.first(y), y.view(1, 8, 18)))(torch.relu(x)),
    "linear behind": lambda net, x: (net.rows(net.first(x)),),
    "linear behind permute": lambda net, x: (net.channels(net.first(x).permute(0, 2, 3, 1)),),
    "linear behind pool": lambda net, x: (net.rows(F.max_pool2d(x, 3, 1, 1).relu()),),
    "linear behind pool, permute": lambda net, x: (
        net.channels(F.max_pool2d(x, 2).permute(0, 2, 3, 1)),
    ),
    "linear behind average": lambda net, x: (net.rows(F.avg_pool2d(_joined(x.mT).mT, 1)),),
    "linear behind resizing": lambda net, x: (
        net.rows(F.interpolate(x[..., ::2], scale_factor=2, mode="bilinear")),
    ),
    "linear beside means": lambda net, x: (net.rows(x * x.mean((2, 3), keepdim=True)),),
    "linear before": lambda net, x: (net.last(net.rows(x)),),
    "linear, convolution and norm": lambda net, x: (
        lambda y: (F.normalize(y, dim=1), net.last(y) + y, net.rows(y))
    )(net.first(torch.cat([x, x], 1)[:, :4])),
    "copies behind permute": lambda net, x: (
        lambda y: (y.contiguous().cumsum(1), y.flip(2), y.clone().softmax(-1))
    )(net.first(x.permute(0, 2, 3, 1).relu().permute(0, 3, 1, 2))),
    "pad": lambda net, x: (F.pad(net.first(x), (1, 2)),),
    "pad between": lambda net, x: (net.last(F.pad(net.first(x), (1, 2))),),
    "layer twice": lambda net, x: (net.first(net.first(x)), net.last(x)),
    "linear layer twice": lambda net, x: (net.square(net.square(x)),),
    "unshuffle": lambda net, x: (net.last(F.pixel_unshuffle(x[:, :1], 2)),),
}
_CASES = _MORE | {
    f"{name} {where}": made(function)
    for where, made in _NETS.items()
    for name, function in _ROWS.items()
    # A convolution over other channels.
    if not (where == "before" and name == "cat")
}


# What upstream's passes do with numbers and with tensors of other ranks between convolutions.
_WITH_NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add": lambda x: x + 0.3,
    "divide": lambda x: x / 3,
    "group norm": lambda x: F.group_norm(x, 2),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "instance norm": F.instance_norm,
    "multiply": lambda x: 0.3 * torch.relu(x),
    "of a number": lambda x: 1 - x,
    "rows": lambda x: x.cumsum(1).view(1, 2, 12, 6).cumsum(1).view(1, 4, 6, 6),
    "silu": F.silu,
    "square": lambda x: x**2,
    "subtract": lambda x: torch.relu(x - 1),
    "vector": lambda x: x * x[0, 0, 0],
}


def _joined_with_convolution(
    f: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[..., tuple[torch.Tensor, ...]]:
    def function(net: Layers, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = net.first(x)
        return net.last(torch.relu(f(y)) + y), net.last(y + f(y))

    return function


_CASES |= {
    f"{name} {where}": made(function)
    for where, made in {
        "beside its convolution": _joined_with_convolution,
        "before convolution": _NETS["before"],
        "between convolutions": lambda f: lambda net, x: (net.last(f(net.first(x))),),
    }.items()
    for name, function in _WITH_NUMBERS.items()
}
_ALWAYS = ("copies", "group norm", "linear", "rows")
_SOME = dict([*_CASES.items()][::18])
_SOME |= {name: _CASES[name] for name in _CASES if name.startswith(_ALWAYS)}
_SOFTMAX = {name: function for name, function in _CASES.items() if "softmax" in name}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("recipe", "least", "cases"),
    [
        pytest.param("fp32", 100, _SOFTMAX, marks=pytest.mark.release),
        ("int8_dynamic_per_channel", 30, _SOME),
        pytest.param("int8_dynamic_per_channel", 30, _CASES, marks=pytest.mark.release),
        ("int8_static_per_channel", 25, _SOFTMAX | _MORE),
    ],
)
def test_cases(
    recipe: str,
    least: float,
    cases: dict[str, Callable[..., tuple[torch.Tensor, ...]]],
    tmp_path: Path,
) -> None:
    """Delegates with convolutions give eager's rows and channels, and those with shared layers."""
    torch.manual_seed(0)
    x, wrong = torch.randn(1, 4, 6, 6), {}
    for name, function in cases.items():
        net = Layers(function)
        try:
            got = outputs(net, (x,), recipe, tmp_path)
        except Exception as error:
            wrong[name] = str(error)
            continue
        for value, want in zip(got, net(x), strict=True):
            noise = (value - want).square().sum() / want.square().sum()
            if value.shape != want.shape or noise > 10 ** (-least / 10):
                wrong[name] = f"{-10 * noise.log10():.1f} dB"
    assert wrong == {}


@pytest.mark.parametrize("recipe", ["fp32", "int8_dynamic_per_channel", "int8_static_per_channel"])
def test_normalizations_become_layers(recipe: str, tmp_path: Path) -> None:
    """Behind a batch normalization of its own, channels lie last as behind a convolution."""
    torch.manual_seed(0)
    norms = [torch.nn.BatchNorm2d(4), torch.nn.BatchNorm2d(4), torch.nn.BatchNorm1d(6)]
    for norm in norms:
        torch.nn.init.normal_(norm.running_mean)
    first, second, flat = norms
    nets = {
        "softmax": torch.nn.Sequential(first, torch.nn.Softmax(-1)),
        "softmax behind ReLU": torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Softmax(-1)),
        "another one": torch.nn.Sequential(first, second),
        "itself": torch.nn.Sequential(first, torch.nn.ReLU(), first),
        "linear": torch.nn.Sequential(first, torch.nn.Linear(6, 6)),
        "two of rows": torch.nn.Sequential(flat, torch.nn.BatchNorm1d(6)),
    }
    wrong = {}
    for name, net in nets.items():
        x = torch.randn(3, 6) if name == "two of rows" else torch.randn(1, 4, 6, 6)
        [got] = outputs(net.eval(), (x,), recipe, tmp_path)
        want = net(x).detach()
        noise = (got - want).square().sum() / want.square().sum()
        if noise > 1e-3:
            wrong[name] = f"{-10 * noise.log10():.1f} dB"
    assert wrong == {}


class Pictures(torch.nn.Module):
    """Readers of pictures whose channels lie last, in all layouts that XNNPACK computes in."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Linear(6, 3)
        self.convolution = torch.nn.Conv2d(4, 2, 3)
        self.register_buffer("factors", torch.linspace(-1, 1, 4)[:, None, None])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """x of (2, 4, 5, 6)"""
        of_layers = self.rows(x), self.rows(torch.relu(x)), self.convolution(x * 2 + 1)
        return *of_layers, x * 2 + 1, x * self.factors, x * x[:, :1], torch.cat([x, x * 2], 1)


@pytest.mark.parametrize("recipe", ["int8_dynamic_per_channel", "int8_static_per_channel"])
def test_example_inputs_whose_channels_lie_last(recipe: str, tmp_path: Path) -> None:
    """Upstream's pass of layouts takes a quantized input for one in rows."""
    torch.manual_seed(0)
    net, x = Pictures(), torch.randn(2, 4, 5, 6).to(memory_format=torch.channels_last)
    for value, want in zip(outputs(net, (x,), recipe, tmp_path), net(x), strict=True):
        noise = (value - want).square().sum() / want.square().sum()
        assert value.shape == want.shape and noise < 10**-3


_SLICED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cat": lambda x: torch.cat([x[:, 2:], x[:, :2]], 1),
    "gate": lambda x: F.glu(x, 1),
    "itself": lambda x: x,
    "joined with others": lambda x: torch.cat([x[..., :3], torch.ones(2, 4, 6, 3)], 3),
    "padded slice": lambda x: F.pad(x[:, :, 1:, :-1], (0, 1, 1, 0)),
    "padded": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "transposed": lambda x: x.mT,
}


@pytest.mark.parametrize("recipe", ["fp32", "int8_dynamic_per_channel", "int8_static_per_channel"])
def test_softmax_of_parts_of_pictures(recipe: str, tmp_path: Path) -> None:
    """Parts of an input whose channels lie last are in rows, and XNNPACK has them otherwise."""
    torch.manual_seed(0)
    x = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(part(x).softmax(-1) for part in _SLICED.values())

    got = outputs(Layers(lambda net, x: function(x)), (x,), recipe, tmp_path)
    for name, value, want in zip(_SLICED, got, function(x), strict=True):
        torch.testing.assert_close(value, want, rtol=0, atol=0.02, msg=name)


class Hooked(torch.nn.Module):
    """A layer whose weights a hook computes, and one that has another hook."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.utils.spectral_norm(torch.nn.Linear(5, 3))
        self.second = torch.nn.Linear(3, 4)
        self.second.register_forward_hook(lambda module, given, result: result / result.sum())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The second layer of the first one."""
        return self.second(self.first(x))


def test_hooks_of_linear_layers(tmp_path: Path) -> None:
    """Sums over all elements are among what they compute, and XNNPACK has none."""
    torch.manual_seed(0)
    net, x = Hooked().eval(), torch.randn(2, 5)
    want = net(x)
    # A strict export has no module around what a hook calls.
    [got] = outputs(net, (x,), "fp32", tmp_path, strict=False)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


class Tied(torch.nn.Module):
    """Weights that convolutions of both directions read, and a product beside one."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Parameter(torch.randn(6, 8, 3) * 0.2)
        self.picture = torch.nn.Parameter(torch.randn(6, 8, 3, 3) * 0.1)
        self.called = torch.nn.Conv1d(8, 8, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(1, 8, 12) and (1, 8, 9, 7)"""
        narrow = F.conv1d(x, self.rows).relu()
        wide = F.conv_transpose1d(narrow, self.rows, stride=2)
        again = F.conv_transpose2d(F.conv2d(y, self.picture).relu(), self.picture)
        products = narrow.mT @ self.rows.flatten(1)
        return wide, again, products, self.called(self.called(x).relu())


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("recipe", "least"),
    [("fp32", 100), ("int8_dynamic_per_channel", 25), ("int8_static_per_channel", 25)],
)
def test_weights_of_several_layouts(recipe: str, least: float, tmp_path: Path) -> None:
    """XNNPACK would hand all readers of a weight the layout of the first one."""
    torch.manual_seed(0)
    net, inputs = Tied(), (torch.randn(1, 8, 12), torch.randn(1, 8, 9, 7))
    for got, want in zip(outputs(net, inputs, recipe, tmp_path), net(*inputs), strict=True):
        noise = (got - want).square().sum() / want.square().sum()
        assert -10 * noise.log10() > least
