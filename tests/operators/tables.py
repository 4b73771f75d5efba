"""Nets of parameters that matter together, of edges of types, layouts and sizes that vary.

Torch's own samples (`samples.py`) try a parameter or two at a time. Delegates go wrong where two
meet: a dilation with an output padding, a divisor with a ceiling.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.export import Dim

from tests.operators import adaptive, asked, doubles, read_on, varying, whole_numbers, wide
from tests.operators.nets import Net, described


def nets() -> Iterator[Net]:
    """All nets of the tables, in the order of their operators."""
    tables = (
        _convolutions, _transposed, _average_pools, _max_pools, _resized, _paddings, _reductions,
        _special_numbers, _whole_numbers, _types, _layouts, _copies, _gray, _matrices, _directly,
        _dynamic,
    )  # fmt: skip
    tables = (
        *tables,
        adaptive.nets,
        asked.nets,
        doubles.nets,
        read_on.nets,
        varying.nets,
        whole_numbers.nets,
        wide.nets,
    )
    made = [net for table in tables for net in table()]
    yield from sorted(made, key=lambda net: (net.operator, net.dtype, bool(net.more)))


def _values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers of both signs, without ties, the same each time."""
    count = torch.Size(shape).numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    spread = (order.double() - count / 2 + 0.25) * (4 / max(count, 1))
    if dtype == torch.bool:
        return (order % 2 == 0).reshape(shape)
    if not dtype.is_floating_point:
        return (order - count // 2).reshape(shape).to(dtype)
    return spread.reshape(shape).to(dtype)


def _net(
    operator: str,
    function: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor] = (),
    note: str = "",
    **parameters: Any,
) -> Net:
    dtype = str(inputs[0].dtype).removeprefix("torch.")
    shapes = ", ".join(map(described, (*inputs, *weights)))
    said = f"{dtype}: {', '.join(filter(None, [note, shapes, described(parameters)]))}"
    if parameters:
        return Net(operator, said, _called(function, parameters), tuple(inputs), tuple(weights))
    return Net(operator, said, function, tuple(inputs), tuple(weights))


def _called(function: Callable[..., Any], parameters: dict[str, Any]) -> Callable[..., Any]:
    return lambda *values: function(*values, **parameters)


def _pairs(**choices: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Defaults, each other value alone, and each two other values; a default is the first."""
    defaults = {name: values[0] for name, values in choices.items()}
    others = [(name, value) for name, values in choices.items() for value in values[1:]]
    yield dict(defaults)
    for name, value in others:
        yield {**defaults, name: value}
    for (a, x), (b, y) in itertools.combinations(others, 2):
        if a != b:
            yield {**defaults, a: x, b: y}


_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_SIZES = {1: (11,), 2: (9, 8), 3: (5, 6, 5)}


def _convolutions() -> Iterator[Net]:
    for rank, function in _CONVOLUTIONS.items():
        for p in _pairs(
            stride=[1, 2], padding=[0, 1, "same"], dilation=[1, 2], groups=[1, 2, 4], kernel=[3, 2]
        ):
            if p["padding"] == "same" and p["stride"] != 1:
                continue
            kernel, groups = p.pop("kernel"), p["groups"]
            weights = [_values(8, 4 // groups, *[kernel] * rank), _values(8)]
            inputs = [_values(1, 4, *_SIZES[rank])]
            yield _net(f"nn.functional.conv{rank}d", function, inputs, weights, **p)
    for size, kernel, dilation in ((40, 13, 1), (96, 3, 27)):
        inputs, weights = [_values(1, 4, size)], [_values(4, 4, kernel)]
        name = "nn.functional.conv1d"
        yield _net(name, F.conv1d, inputs, weights, padding="same", dilation=dilation)
    for padding in ("valid", (1,)):
        inputs, weights = [_values(1, 4, 9, 8)], [_values(8, 4, 3, 3)]
        yield _net("nn.functional.conv2d", F.conv2d, inputs, weights, padding=padding)
    for kernel, stride in (((5, 3, 3), (2, 1, 1)), ((3, 3, 3), (4, 5, 4))):
        inputs, weights = [_values(1, 2, 6, 7, 6)], [_values(2, 2, *kernel)]
        yield _net("nn.functional.conv3d", F.conv3d, inputs, weights, stride=stride)


def _transposed() -> Iterator[Net]:
    for rank, function in _TRANSPOSED.items():
        for p in _pairs(
            stride=[1, 2], padding=[0, 1], output_padding=[0, 1], groups=[1, 2], dilation=[1, 2]
        ):
            if p["output_padding"] >= max(p["stride"], p["dilation"]):
                continue
            weights = [_values(4, 6 // p["groups"], *[3] * rank), _values(6)]
            inputs = [_values(1, 4, *_SIZES[rank])]
            yield _net(f"nn.functional.conv_transpose{rank}d", function, inputs, weights, **p)
    inputs, weights = [_values(2, 2, 4, 1)], [_values(2, 1, 2, 2)]
    name = "nn.functional.conv_transpose2d"
    yield _net(name, F.conv_transpose2d, inputs, weights, note="nothing", stride=3, padding=1)


def _average_pools() -> Iterator[Net]:
    for rank, function in {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}.items():
        divisors = {} if rank == 1 else {"divisor_override": [None, 3]}
        for p in _pairs(
            kernel_size=[2, 3], stride=[2, 1], padding=[0, 1], ceil_mode=[False, True],
            count_include_pad=[True, False], **divisors,
        ):  # fmt: skip
            inputs = [_values(1, 3, *_SIZES[rank])]
            yield _net(f"nn.functional.avg_pool{rank}d", function, inputs, **p)


def _max_pools() -> Iterator[Net]:
    for rank, function in {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}.items():
        for p in _pairs(
            kernel_size=[2, 3], stride=[2, 1], padding=[0, 1], dilation=[1, 2],
            ceil_mode=[False, True], return_indices=[False, True],
        ):  # fmt: skip
            inputs = [_values(1, 3, *_SIZES[rank])]
            yield _net(f"nn.functional.max_pool{rank}d", function, inputs, **p)


def _resized() -> Iterator[Net]:
    smooth = ("linear", "bilinear", "bicubic", "trilinear")
    modes = {3: ["nearest", "linear"], 4: ["nearest", "nearest-exact", "bilinear", "bicubic"]}
    for rank, mode in [(rank, mode) for rank, modes_ in modes.items() for mode in modes_]:
        for scale, aligned, antialias, again in itertools.product(
            (2.0, 1.7, 0.6), (False, True), (False, True), (False, True)
        ):
            if (aligned and mode not in smooth) or (
                antialias and mode not in ("bilinear", "bicubic")
            ):
                continue
            p: dict[str, Any] = {"scale_factor": scale, "mode": mode}
            p |= {"align_corners": aligned} if mode in smooth else {}
            p |= {"antialias": True} if antialias else {}
            p |= {"recompute_scale_factor": True} if again else {}
            yield _net("nn.functional.interpolate", F.interpolate, [_values(1, 2, 7, 6)[..., :][
                (slice(None),) * rank] if rank == 4 else _values(1, 2, 7)], **p)  # fmt: skip
        for size in ((5,), (13,)) if rank == 3 else ((5, 9), (13, 12), (1, 1)):
            p = {"size": size, "mode": mode} | ({"align_corners": True} if mode in smooth else {})
            inputs = [_values(1, 2, 7, 6) if rank == 4 else _values(1, 2, 7)]
            yield _net("nn.functional.interpolate", F.interpolate, inputs, **p)
    for mode in ("bilinear", "bicubic"):
        p = {"size": (9, 1), "mode": mode, "antialias": True}
        yield _net("nn.functional.interpolate", F.interpolate, [_values(1, 2, 7, 6)], **p)


def _paddings() -> Iterator[Net]:
    for mode in ("constant", "reflect", "replicate", "circular"):
        for pad in ((1, 2), (0, 3), (-1, 1), (-1, -2), (2, 1, 1, 2), (-1, 2, 0, 1), (0, -1, 0, -2)):
            if mode == "circular" and min(pad) < 0:
                continue
            rank = 3 if len(pad) == 2 else 4
            inputs = [_values(1, 2, 6, 5)[0, :, :, :][None] if rank == 4 else _values(1, 3, 6)]
            p: dict[str, Any] = {"pad": pad, "mode": mode}
            yield _net("nn.functional.pad", F.pad, inputs, **p)
            if mode == "constant":
                yield _net("nn.functional.pad", F.pad, inputs, **p, value=-1.5)


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin,
    "prod": torch.prod, "any": torch.any, "all": torch.all, "argmax": torch.argmax,
    "var": torch.var, "std": torch.std, "logsumexp": torch.logsumexp, "max": torch.max,
    "min": torch.min, "median": torch.median, "cumsum": torch.cumsum, "softmax": torch.softmax,
    "log_softmax": torch.log_softmax, "norm": torch.norm, "argmin": torch.argmin,
    "cumprod": torch.cumprod, "sort": torch.sort, "argsort": torch.argsort,
}  # fmt: skip
_NOT_KEPT = ("cumsum", "softmax", "log_softmax", "cumprod", "sort", "argsort")
_FLOATS_ONLY = ("mean", "var", "std", "logsumexp", "softmax", "log_softmax", "norm")


def _reductions() -> Iterator[Net]:
    shapes = ((), (1,), (5,), (3, 4), (2, 1, 3), (2, 3, 2, 2), (1, 2, 2, 3, 2))
    for (name, function), shape in itertools.product(_REDUCTIONS.items(), shapes):
        dims = sorted({-1, 0, len(shape) // 2}) if shape else [0]
        for dim, keepdim in itertools.product(dims, (False, True)):
            if keepdim and name in _NOT_KEPT:
                continue
            p: dict[str, Any] = {"dim": dim} | ({"keepdim": True} if keepdim else {})
            if name in ("var", "std") and (shape[dim] if shape else 1) < 2:
                continue
            yield _net(name, function, [_values(*shape)], **p)
        whole = _values(*shape, dtype=torch.int64)
        if name not in _FLOATS_ONLY:
            yield _net(name, function, [whole], dim=-1)
    for name in ("sum", "mean", "amax", "amin", "var", "std", "logsumexp"):
        for dims, keepdim in itertools.product(((2, 3), (1, 2), (0, -1)), (False, True)):
            values = [_values(2, 3, 4, 5)]
            yield _net(name, _REDUCTIONS[name], values, dim=dims, keepdim=keepdim)
    for name, dtype in itertools.product(("sum", "mean", "prod", "cumsum"), ("float16", "int32")):
        p = {"dtype": torch.float64 if name == "mean" else getattr(torch, dtype), "dim": 1}
        yield _net(name, _REDUCTIONS[name], [_values(3, 4)], **p)


_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "log",
    "log10", "log1p", "log2", "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "isnan", "isinf", "isfinite",
    "logical_not", "frac",
)  # fmt: skip
_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "nn.functional.elu": F.elu, "nn.functional.gelu": F.gelu, "nn.functional.silu": F.silu,
    "nn.functional.hardswish": F.hardswish, "nn.functional.hardsigmoid": F.hardsigmoid,
    "nn.functional.hardtanh": F.hardtanh, "nn.functional.leaky_relu": F.leaky_relu,
    "nn.functional.mish": F.mish, "nn.functional.softplus": F.softplus,
    "nn.functional.relu6": F.relu6, "nn.functional.logsigmoid": F.logsigmoid,
}  # fmt: skip
_BINARY = (
    "add", "sub", "mul", "div", "maximum", "minimum", "pow", "atan2", "fmod", "remainder", "eq",
    "ne", "lt", "le", "gt", "ge", "floor_divide",
)  # fmt: skip
_SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 88.5, -104.0, 3e38, 1e-40, torch.inf, -torch.inf]
_SPECIAL += [torch.nan]


def _special_numbers() -> Iterator[Net]:
    """Infinities, NaN, zeros of both signs, the largest and smallest numbers."""
    special = torch.tensor(_SPECIAL)
    for name in _UNARY:
        yield _net(name, getattr(torch, name), [special], note="special numbers")
    for name, function in _ACTIVATIONS.items():
        yield _net(name, function, [special], note="special numbers")
    x, y = (grid.flatten().contiguous() for grid in torch.meshgrid(special, special, indexing="ij"))
    for name in _BINARY:
        yield _net(name, getattr(torch, name), [x, y], note="special numbers")
    yield _net("clamp", torch.clamp, [special], note="special numbers", min=-1.0, max=2.0)
    yield _net("clamp", torch.clamp, [special], note="special numbers", min=-1.0)
    yield _net("clamp", torch.clamp, [special], note="special numbers", max=2.0)
    for name in ("amax", "amin", "sum", "argmax", "argmin"):
        yield _net(name, _REDUCTIONS[name], [special[:12]], note="infinities", dim=0)
        yield _net(name, _REDUCTIONS[name], [special], note="NaN", dim=0)
    for name in ("softmax", "log_softmax"):
        finite = torch.tensor([[1000.0, 1001.0, -1000.0], [-torch.inf, 0.0, 1.0]])
        yield _net(name, _REDUCTIONS[name], [finite], note="large numbers", dim=-1)
    large = torch.tensor([[20000.0, -30000.0, 5.0], [-40000.0, 18000.0, 16000.0]])
    yield _net("div by the largest", _by_largest, [large])
    yield _net("normalize of large numbers", F.normalize, [large], dim=-1)


def _by_largest(x: torch.Tensor) -> torch.Tensor:
    return x / x.abs().amax(1, keepdim=True)


def _whole_numbers() -> Iterator[Net]:
    """Quotients and remainders of both signs, powers, shifts."""
    numbers = torch.tensor([-7, -6, -3, -1, 0, 1, 2, 5, 9])
    x, y = (grid.flatten() for grid in torch.meshgrid(numbers, numbers, indexing="ij"))
    x, y = x[y != 0].contiguous(), y[y != 0].contiguous()
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        if dtype == torch.uint8:
            x, y = x.abs(), y.abs()
        pair = [x.to(dtype), y.to(dtype)]
        for name in ("remainder", "fmod", "floor_divide", "div", "mul", "sub", "maximum", "eq"):
            yield _net(name, getattr(torch, name), pair)
        for rounding in ("floor", "trunc"):
            yield _net("div", torch.div, pair, rounding_mode=rounding)
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
            yield _net(name, getattr(torch, name), pair)
        yield _net("pow", torch.pow, [pair[0], (y.abs() % 4).to(dtype)])
        yield _net(
            "bitwise_left_shift", torch.bitwise_left_shift, [pair[0], (y.abs() % 5).to(dtype)]
        )
        yield _net(
            "bitwise_right_shift", torch.bitwise_right_shift, [pair[0], (y.abs() % 5).to(dtype)]
        )
        for factor in (-3, 4, 2.5):
            yield _net("mul", _with(torch.mul, factor), pair[:1], note=f"by {factor}")
            yield _net("remainder", _with(torch.remainder, factor), pair[:1], note=f"by {factor}")
            yield _net("div", _with(torch.div, factor), pair[:1], note=f"by {factor}")


def _with(function: Callable[..., Any], other: Any) -> Callable[..., Any]:
    return lambda x: function(x, other)


def _types() -> Iterator[Net]:
    """Two types that meet, and conversions."""
    dtypes = (torch.float32, torch.float16, torch.int64, torch.int32, torch.bool)
    for a, b in itertools.permutations(dtypes, 2):
        inputs = [_values(3, 4, dtype=a), _values(3, 4, dtype=b)]
        for name in ("add", "mul", "div", "eq", "lt"):
            yield _net(name, getattr(torch, name), inputs, note=f"and {str(b)[6:]}")
        yield _net("where", lambda x, y: torch.where(y > 0, x, y), inputs, note=f"and {str(b)[6:]}")
        yield _net("to", _converted(b), inputs[:1], note=f"to {str(b)[6:]}")


def _converted(dtype: torch.dtype) -> Callable[..., Any]:
    return lambda x: x.to(dtype)


def _layouts() -> Iterator[Net]:
    """Inputs that do not lie row by row: transposed, channels last, every other, expanded."""
    weight, row = _values(4, 3, 3, 3), _values(3)
    functions: dict[str, Callable[..., Any]] = {
        "nn.functional.conv2d": lambda x: F.conv2d(x, weight),
        "nn.functional.max_pool2d": lambda x: F.max_pool2d(x, 2),
        "nn.functional.avg_pool2d": lambda x: F.avg_pool2d(x, 2),
        "nn.functional.interpolate": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
        "nn.functional.batch_norm": lambda x: F.batch_norm(x, row, row.abs() + 1),
        "nn.functional.pad": lambda x: F.pad(x, (1, 1, 2, 0)),
        "nn.functional.layer_norm": lambda x: F.layer_norm(x, (6,)),
        "add": lambda x: x + row[:, None, None],
        "mul": lambda x: x * x,
        "sum": lambda x: x.sum(1),
        "mean": lambda x: x.mean((2, 3), keepdim=True),
        "softmax": lambda x: x.softmax(1),
        "permute": lambda x: x.permute(0, 2, 3, 1),
        "reshape": lambda x: x.reshape(2, -1),
        "cat": lambda x: torch.cat([x, x + 1], 1),
        "slice": lambda x: x[:, 1:, ::2, -3:],
        "select": lambda x: x[:, 1],
        "cumsum": lambda x: x.cumsum(2),
        "nn.functional.pixel_shuffle": lambda x: F.pixel_shuffle(torch.cat([x] * 4, 1), 2),
        "clone": lambda x: x.clone(),
        "view": lambda x: x.contiguous().view(6, -1),
        "argmax": lambda x: x.argmax(1),
        "matmul": lambda x: x @ x.mT,
    }
    made: dict[str, Callable[..., Any]] = {
        "channels last": lambda x: x.to(memory_format=torch.channels_last),
        "transposed": lambda x: x.transpose(2, 3),
        "every other": lambda x: x[:, :, ::2, ::2],
        "expanded": lambda x: x[:, :1].expand(-1, 3, -1, -1),
    }
    for (name, function), (layout, make) in itertools.product(functions.items(), made.items()):
        inputs = [_values(2, 3, 12, 12) if layout == "every other" else _values(2, 3, 6, 6)]
        yield _net(name, lambda x, f=function, m=make: f(m(x)), inputs, note=layout)
        if layout == "channels last":
            yield _net(name, lambda x, f=function, m=make: f(m(x).relu()).neg(), inputs,
                       note="channels last, between others")  # fmt: skip


def _copies() -> Iterator[Net]:
    """Tensors and their copies beside each other, weights with channels last, and in place."""
    picture, whole = _values(2, 3, 6, 6), _values(9, dtype=torch.int64)
    last = _values(4, 3, 3, 3).to(memory_format=torch.channels_last)
    functions: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
        "clone": (lambda x: _with_copies(x.relu()), picture),
        "clone/dropout": (lambda x: (x + 1, F.dropout(x + 1, 0.5, False)), picture),
        "nn.functional.conv2d": (lambda x: F.conv2d(x, last) + 1, picture),
        "nn.functional.avg_pool2d": (
            lambda x: F.lp_pool2d(F.conv2d(x, last).abs(), 2.0, 2),
            picture,
        ),
        "remainder": (lambda x: x.clone().remainder_(3), whole),
        "pow": (lambda x: x.clone().pow_(3), whole),
        "floor_divide": (lambda x: x.clone().floor_divide_(x.flip(0)), whole.float()),
        "nn.functional.hardtanh": (lambda x: F.hardtanh(x, -0.3), picture),
        "var_mean": (lambda x: torch.var_mean(x[:, :1], 1), picture),
    }
    for name, (function, x) in functions.items():
        operator, _, note = name.partition("/")
        yield _net(operator, function, [x], note=f"{note or 'copies, orders or in place'}")


def _with_copies(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    copy = x.clone()
    return x, copy, copy * 2, x.cumsum(0), copy.clone().cumsum(0)


def _gray() -> Iterator[Net]:
    """Pictures of one channel or column, which lie in rows and have their channels last."""
    weight = _values(1, 4, 1, 1)
    functions: dict[str, Callable[..., Any]] = {
        "nn.functional.conv2d": lambda x: F.conv2d(x, weight[:, : x.shape[1]]).neg(),
        "nn.functional.max_pool2d": lambda x: F.max_pool2d(x, 1),
        "nn.functional.adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1),
        "nn.functional.interpolate": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
        "add": lambda x: x + x.flip(0),
        "nn.functional.relu": F.relu,
        "softmax": lambda x: x.softmax(1),
        "cat": lambda x: torch.cat([x, x + 1], 1),
        "select": lambda x: x[:, :1] * 2,
        "reshape": lambda x: x.reshape(x.shape[0], -1),
    }
    for name, function in functions.items():
        one = lambda x, f=function: f(F.conv2d(x, weight))  # noqa: E731
        few = [_values(2, 4, 5, 6).to(memory_format=torch.channels_last)]
        yield _net(name, one, few, note="of one channel that others became")
        one = lambda x, f=function: f(x.mean((2, 3), keepdim=True))  # noqa: E731
        yield _net(name, one, few, note="of one element that others became")
    for (name, function), shape in itertools.product(
        functions.items(), ((2, 1, 3, 4), (2, 3, 4, 1), (2, 4, 1, 1), (1, 1, 1, 1))
    ):
        last = torch.empty(shape, memory_format=torch.channels_last).copy_(_values(*shape))
        made = lambda x, f=function: f(x.to(memory_format=torch.channels_last))  # noqa: E731
        yield _net(name, made, [_values(*shape)], note="made channels last")
        yield _net(name, function, [last], note="given with channels last")


def _matrices() -> Iterator[Net]:
    for m, k, n in itertools.product((1, 3), (1, 5, 0), (1, 4)):
        yield _net("matmul", torch.matmul, [_values(m, k), _values(k, n)])
        yield _net("bmm", torch.bmm, [_values(2, m, k), _values(2, k, n)])
        if k:
            x, weight, bias = _values(m, k), _values(n, k), _values(n)
            yield _net("nn.functional.linear", F.linear, [x], [weight], note="constants")
            yield _net("nn.functional.linear", F.linear, [x], [weight, bias], note="constants")
            yield _net("nn.functional.linear", F.linear, [x[None, None]], [weight, bias])
    for shape in ((1, 1, 1, 4, 3), (1, 1, 4, 3), (2, 4, 3)):
        inputs = [_values(*shape), _values(2, 3, 2, 3, 2)]
        yield _net("matmul", torch.matmul, inputs)
        yield _net("matmul", torch.matmul, inputs[:1], inputs[1:], note="constant")
    for beta, alpha in itertools.product((1, 0.5, 0, -1), (1, 2, -0.5)):
        values = [_values(3, 4), _values(3, 5), _values(5, 4)]
        yield _net("addmm", torch.addmm, values, beta=beta, alpha=alpha)
        yield _net("addmm", torch.addmm, [_values(4), *values[1:]], beta=beta, alpha=alpha)
        batches = [_values(2, 3, 4), _values(2, 3, 5), _values(2, 5, 4)]
        yield _net("baddbmm", torch.baddbmm, batches, beta=beta, alpha=alpha)
    for alpha in (2, -0.5):
        yield _net("add", torch.add, [_values(3, 4), _values(4)], alpha=alpha)
        yield _net("sub", torch.sub, [_values(3, 4), _values(4)], alpha=alpha)
    for approximate in ("none", "tanh"):
        yield _net("nn.functional.gelu", F.gelu, [_values(64)], approximate=approximate)
    for causal, scale, heads in itertools.product((False, True), (None, 0.3), (2, 4)):
        q, k = _values(1, 4, 5, 8), _values(1, heads, 5, 8)
        p = {"is_causal": causal, "scale": scale, "enable_gqa": heads != 4}
        yield _net(
            "nn.functional.scaled_dot_product_attention", F.scaled_dot_product_attention,
            [q, k, k * 0.5], **p,
        )  # fmt: skip
    q, k, v = _values(3, 2, 5, 4), _values(3, 1, 5, 4), _values(3, 1, 5, 6)
    name = "nn.functional.scaled_dot_product_attention"
    yield _net(name, F.scaled_dot_product_attention, [q, k, v], enable_gqa=True)


def _directly() -> Iterator[Net]:
    """Operators of core ATen that torch's own functions call by no other way."""
    aten, row = torch.ops.aten, _values(3)
    whole, picture = _values(3, 4, dtype=torch.int64), _values(2, 3, 4, 5)
    index = torch.tensor([[0, 3], [2, 1], [1, 0]])
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield _net(name, _with(getattr(aten, name).Scalar, 3), [whole], note="with 3")
    for rounding in ("floor", "trunc"):
        divided = lambda x, r=rounding: aten.div.Scalar_mode(x, 3, rounding_mode=r)  # noqa: E731
        yield _net("div", divided, [whole], note=f"{rounding} by 3")
        yield _net("div", divided, [_values(3, 4)], note=f"{rounding} by 3")
    functions: dict[str, Callable[..., Any]] = {
        "scatter": lambda x: aten.scatter.value(x[0, 0, :3], 1, index, 2.5),
        "nn.functional.fold": lambda x: aten.col2im(
            x.reshape(2, 12, 5), [2, 6], [2, 2], [1, 1], [0, 0], [1, 1]
        ),
        "as_strided": lambda x: aten.as_strided(x, [2, 3], [4, 1], 1) + 1,
        "var": lambda x: aten.var.dim(x, [1, -1], False, True),
        "nn.functional.batch_norm": lambda x: aten._native_batch_norm_legit_no_training(
            x, row, None, row, row.abs() + 1, 0.1, 1e-5
        )[0],
        "nn.functional.batch_norm/no_stats": lambda x: aten._native_batch_norm_legit.no_stats(
            x, row, None, True, 0.1, 1e-5
        )[0],
    }
    for name, function in functions.items():
        yield _net(name, function, [picture], note="called by itself")


def _dynamic() -> Iterator[Net]:
    """Sizes that vary: each net runs at both ends of its range, and between them."""
    weight, bias, kernel = _values(4, 6), _values(4), _values(4, 6, 3, 3)
    functions: dict[str, tuple[Callable[..., Any], tuple[int, ...], int]] = {
        "add": (lambda x: x + x[:1], (4, 6), 0),
        "mul": (lambda x: x * 2.5, (4, 6), 0),
        "nn.functional.relu": (F.relu, (4, 6), 0),
        "sigmoid": (torch.sigmoid, (4, 6), 1),
        "softmax": (lambda x: x.softmax(-1), (3, 6), 1),
        "sum": (lambda x: x.sum(1), (3, 6), 1),
        "mean": (lambda x: x.mean(1, keepdim=True), (3, 6), 1),
        "amax": (lambda x: x.amax(1), (3, 6), 1),
        "cumsum": (lambda x: x.cumsum(1), (3, 6), 1),
        "nn.functional.linear": (lambda x: F.linear(x, weight, bias), (4, 6), 0),
        "matmul": (lambda x: x @ x.mT, (1, 4, 6), 1),
        "nn.functional.layer_norm": (lambda x: F.layer_norm(x, (6,)), (4, 6), 0),
        "nn.functional.conv2d": (lambda x: F.conv2d(x, kernel, padding=1), (2, 6, 8, 7), 0),
        "nn.functional.conv2d by width": (lambda x: F.conv2d(x, kernel), (1, 6, 8, 7), 3),
        "nn.functional.max_pool2d": (lambda x: F.max_pool2d(x, 2), (2, 3, 8, 6), 0),
        "nn.functional.avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (2, 3, 8, 6), 0),
        "nn.functional.interpolate": (
            lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (2, 3, 4, 5), 0
        ),
        "cat": (lambda x: torch.cat([x, x.neg()], 1), (3, 4), 0),
        "cat of what varies": (lambda x: torch.cat([x, x], 0), (4, 3), 0),
        "permute": (lambda x: x.permute(1, 0, 2), (4, 3, 2), 0),
        "reshape": (lambda x: x.reshape(x.shape[0], 6), (4, 3, 2), 0),
        "slice": (lambda x: x[:, 1:3], (4, 5), 0),
        "slice of what varies": (lambda x: x[1:], (4, 5), 0),
        "expand": (lambda x: x[:, None].expand(-1, 3, -1), (4, 5), 0),
        "unsqueeze": (lambda x: x.unsqueeze(1), (4, 5), 0),
        "nn.functional.pad": (lambda x: F.pad(x, (1, 2)), (4, 5), 1),
        "nn.functional.embedding": (lambda x: F.embedding(x.long().abs() % 4, weight), (5,), 0),
        "argmax": (lambda x: x.argmax(1), (3, 6), 1),
        "sort": (lambda x: x.sort(1), (3, 6), 1),
        "topk": (lambda x: x.topk(2, 1), (3, 6), 1),
        "where": (lambda x: torch.where(x > 0, x, -x), (4, 5), 0),
        "arange": (lambda x: x + torch.arange(x.shape[1]), (2, 6), 1),
        "full": (lambda x: torch.full((x.shape[0],), 2.5), (4, 6), 0),
        "tril": (torch.tril, (6, 5), 0),
        "nn.functional.scaled_dot_product_attention": (
            lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (1, 2, 6, 8), 2
        ),
    }  # fmt: skip
    for name, (function, shape, place) in functions.items():
        operator, _, note = name.partition(" ")
        low, high = 2 if "pool" not in name and "conv" not in name else 3, 12
        if name == "nn.functional.interpolate" or "pool" in name:
            low = 2
        sizes = tuple(
            Dim("n", min=low, max=high) if n == place else None for n in range(len(shape))
        )
        others = [
            (_values(*(size if n == place else s for n, s in enumerate(shape))),)
            for size in (low, 5, high)
        ]
        inputs = _values(*(high - 1 if n == place else s for n, s in enumerate(shape)))
        said = f"float32: {note + ', ' if note else ''}{described(inputs)}, dim {place} varies"
        yield Net(operator, said, function, (inputs,), (), (sizes,), tuple(others))
