"""Generates small nets as Python source from a seed.

Values are known by their shapes, whose sizes are numbers or expressions of the dynamic dimensions p
and q, so that a statement only takes what fits. A shorter net of the same seed is a prefix of the
longer one: the shortest that still shows a fault is easily found.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

_WIDTHS = (4, 8, 16)
_UNARY = (
    "torch.relu({})",
    "torch.tanh({})",
    "torch.sigmoid({})",
    "torch.abs({})",
    "-{}",
    "nn.functional.gelu({})",
    "nn.functional.silu({})",
    "nn.functional.hardtanh({})",
    "{}.clamp(-1.0, 2.0)",
    "{} * 0.5",
    "1 - {}",
    "{} + 2",
    "{} * {}",
)
_BINARY = ("{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {})", "{} / ({}.abs() + 1)")
_BRANCHES = (
    ("{v} + 1", "{v} * 2"),
    ("torch.tanh({v}) - {v}", "torch.sigmoid({v})"),
    ("torch.relu({v}) * 3", "-{v}"),
)

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class _Value:
    name: str
    shape: Shape
    dtype: str = "float32"


@dataclass
class _Net:
    rng: random.Random
    values: list[_Value] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    count: int = 0

    def name(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def add(self, code: str, shape: Shape, dtype: str = "float32") -> _Value:
        value = _Value(self.name(), shape, dtype)
        self.body.append(f"{value.name} = {code}")
        self.values.append(value)
        return value

    def pick(self, fits: Callable[[_Value], bool] = lambda v: True) -> _Value | None:
        """A value, mostly a recent one."""
        fitting = [value for value in self.values if fits(value)]
        return self.rng.choice(fitting[-4:]) if fitting else None

    def floats(self, least: int = 1, last: bool = False) -> _Value | None:
        """A float32 value with N dimensions; the last one is a number if requested."""
        return self.pick(
            lambda v: (
                v.dtype == "float32"
                and len(v.shape) >= least
                and (not last or isinstance(v.shape[-1], int))
            )
        )


def generate(seed: int, size: int) -> str:
    """The source of a net: `Net`, `inputs(p, q)`, `SHAPES`, `EXAMPLE`, `CASES`.

    Args:
      seed: of all choices.
      size: statements.
    """
    net = _Net(random.Random(seed))
    rng = net.rng
    static = rng.random() < 0.15
    most_p, most_q = rng.randint(4, 12), rng.randint(4, 12)
    sizes = rng.randint(2, most_p - 1), rng.randint(2, most_q - 1)
    parameters, given, shapes = _inputs(net, static)
    # Values and modules of statements, apart from what the outputs are chosen by.
    outputs = random.Random(seed + size)
    statements = 0
    for _ in range(20 * size):
        if statements < size and rng.choice(_STATEMENTS)(net):
            statements += 1
    results = _results(net, outputs)
    cases = [sizes] if static else [sizes, (2, 2), (most_p, most_q), (2, most_q), (most_p, 3)]
    setup, body = ("\n        ".join(lines) for lines in (net.setup, [*net.body, results]))
    return f"""import torch
from torch import nn
from torch._higher_order_ops.map import map
from torch.export import Dim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed({seed})
        {setup or "pass"}

    def forward(self, {", ".join(parameters)}):
        {body}


def inputs(p, q):
    g = torch.Generator().manual_seed(100 * p + q)
    return ({"".join(f"{code}, " for code in given)})


p, q = Dim("p", min=2, max={most_p}), Dim("q", min=2, max={most_q})
SHAPES = {"None" if static else f"({''.join(f'{code}, ' for code in shapes)})"}
EXAMPLE = {sizes}
CASES = {cases}
"""


def _inputs(net: _Net, static: bool) -> tuple[list[str], list[str], list[str]]:
    """Parameters of forward, the code for their values, their dynamic shapes."""
    rng = net.rng
    parameters, given, shapes = [], [], []
    for number in range(rng.randint(1, 3)):
        name = f"x{number}"
        parameters.append(name)
        kind = rng.random()
        if kind < 0.08 and number:
            given.append("3")
            shapes.append("None")
            net.body.append(f"{name} = {name} + 1")
            continue
        pieces = [_tensor(rng, static) for _ in range(2 if kind > 0.85 else 1)]
        keys = ["a", "b"]
        if len(pieces) == 1:
            given.append(pieces[0][0])
            shapes.append(pieces[0][1])
            net.values.append(_Value(name, *pieces[0][2]))
        elif kind > 0.92:
            given.append(f"({pieces[0][0]}, {pieces[1][0]})")
            shapes.append(f"({pieces[0][1]}, {pieces[1][1]})")
            for place, piece in enumerate(pieces):
                net.add(f"{name}[{place}]", *piece[2])
        else:
            pairs = list(zip(keys, pieces, strict=True))
            given.append("{" + ", ".join(f'"{k}": {piece[0]}' for k, piece in pairs) + "}")
            shapes.append("{" + ", ".join(f'"{k}": {piece[1]}' for k, piece in pairs) + "}")
            for key, piece in pairs:
                net.add(f'{name}["{key}"]', *piece[2])
    return parameters, given, shapes


def _tensor(rng: random.Random, static: bool) -> tuple[str, str, tuple[Shape, str]]:
    width = rng.choice(_WIDTHS)
    shape: Shape = rng.choice(
        [
            ("p", width),
            ("q", width),
            ("p", width),
            ("p", "q", width),
            ("p",),
            (2, "q", width),
            ("2*p", width),
            ("p", 3, 8, 8),
            (1, 3, 8, 8),
            (width,),
        ]
    )
    sizes = ", ".join(str(size) for size in shape)
    dynamic = ", ".join(f"{n}: {size}" for n, size in enumerate(shape) if isinstance(size, str))
    shapes = f"{{{dynamic}}}" if dynamic else "None"
    if rng.random() < 0.15:
        return f"torch.randint(0, 12, ({sizes},), generator=g)", shapes, (shape, "int64")
    return f"torch.randn({sizes}, generator=g)", shapes, (shape, "float32")


def _results(net: _Net, rng: random.Random) -> str:
    names = [value.name for value in net.values]
    chosen = [names[-1], *rng.sample(names, min(len(names), rng.randint(0, 3)))]
    kind = rng.random()
    if kind < 0.1:
        chosen.append(chosen[0])
    elif kind < 0.15:
        net.setup.append('self.register_buffer("answer", torch.arange(6.0))')
        chosen.append("self.answer")
    if rng.random() < 0.15:
        unique = list(dict.fromkeys(chosen))
        return "return {" + ", ".join(f'"{name}": {name}' for name in unique) + "}"
    return f"return {chosen[0]}" if len(chosen) == 1 else f"return {', '.join(chosen)}"


def _unary(net: _Net) -> bool:
    value = net.floats()
    if value:
        net.add(net.rng.choice(_UNARY).replace("{}", value.name), value.shape)
    return value is not None


def _binary(net: _Net) -> bool:
    value = net.floats()
    other = value and net.pick(lambda v: v.shape == value.shape and v.dtype == value.dtype)
    if value and other:
        net.add(net.rng.choice(_BINARY).format(value.name, other.name), value.shape)
    return value is not None


def _linear(net: _Net) -> bool:
    value = net.floats(2, last=True)
    if value:
        name, width = net.name("m"), net.rng.choice(_WIDTHS)
        net.setup.append(f"self.{name} = nn.Linear({value.shape[-1]}, {width})")
        net.add(f"self.{name}({value.name})", (*value.shape[:-1], width))
    return value is not None


def _norm(net: _Net) -> bool:
    value = net.floats(2, last=True)
    if value:
        name = net.name("m")
        net.setup.append(f"self.{name} = nn.LayerNorm({value.shape[-1]})")
        net.add(f"self.{name}({value.name})", value.shape)
    return value is not None


def _convolution(net: _Net) -> bool:
    value = net.pick(lambda v: v.dtype == "float32" and v.shape[1:] == (3, 8, 8))
    if value:
        name = net.name("m")
        net.setup.append(f"self.{name} = nn.Conv2d(3, 3, 3, padding=1)")
        net.add(f"self.{name}({value.name})", value.shape)
    return value is not None


def _reduction(net: _Net) -> bool:
    value = net.floats(2)
    if value:
        dim = net.rng.randrange(len(value.shape))
        code = net.rng.choice(["{}.sum({d})", "{}.mean({d})", "{}.amax({d})", "{}.argmax({d})"])
        dtype = "int64" if "arg" in code else "float32"
        shape = value.shape[:dim] + value.shape[dim + 1 :]
        net.add(code.format(value.name, d=dim), shape, dtype)
    return value is not None


def _along(net: _Net) -> bool:
    value = net.floats()
    if value:
        dim = net.rng.randrange(len(value.shape))
        code = net.rng.choice(
            [
                "torch.softmax({}, {d})",
                "{}.cumsum({d})",
                "torch.flip({}, [{d}])",
                "torch.sort({}, {d})[0]",
            ]
        )
        net.add(code.format(value.name, d=dim), value.shape)
    return value is not None


def _chunk(net: _Net) -> bool:
    value = net.pick(lambda v: any(isinstance(n, int) and n % 2 == 0 for n in v.shape))
    if value:
        fitting = [d for d, n in enumerate(value.shape) if isinstance(n, int) and n % 2 == 0]
        dim = net.rng.choice(fitting)
        half = value.shape[dim] // 2
        shape = (*value.shape[:dim], half, *value.shape[dim + 1 :])
        names = [net.name(), net.name()]
        how = net.rng.choice([f"chunk(2, {dim})", f"split({half}, {dim})"])
        net.body.append(f"{', '.join(names)} = {value.name}.{how}")
        net.values += [_Value(name, shape, value.dtype) for name in names]
    return value is not None


def _unbind(net: _Net) -> bool:
    value = net.floats(2, last=True)
    if value:
        net.add(f"torch.stack({value.name}.unbind(-1), 0)", (value.shape[-1], *value.shape[:-1]))
    return value is not None


def _cat(net: _Net) -> bool:
    value = net.pick()
    if value is None:
        return False
    dim = net.rng.randrange(len(value.shape)) if value.shape else 0

    def fits(other: _Value) -> bool:
        rest = other.shape[:dim] + other.shape[dim + 1 :]
        same = rest == value.shape[:dim] + value.shape[dim + 1 :]
        return other.dtype == value.dtype and len(other.shape) == len(value.shape) > 0 and same

    other = net.pick(fits)
    if other:
        first, second = value.shape[dim], other.shape[dim]
        both = isinstance(first, int) and isinstance(second, int)
        size = first + second if both else f"({first}+{second})"
        shape = (*value.shape[:dim], size, *value.shape[dim + 1 :])
        net.add(f"torch.cat([{value.name}, {other.name}], {dim})", shape, value.dtype)
    return other is not None


def _view(net: _Net) -> bool:
    value = net.pick(lambda v: len(v.shape) >= 2)
    if value is None:
        return False
    kind = net.rng.randrange(5)
    shape = value.shape
    if kind == 0:
        net.add(f"{value.name}.transpose(-1, -2)", (*shape[:-2], shape[-1], shape[-2]), value.dtype)
    elif kind == 1:
        size = shape[-2] * shape[-1] if all(isinstance(n, int) for n in shape[-2:]) else ""
        size = size or f"({shape[-2]}*{shape[-1]})"
        net.add(f"{value.name}.flatten(-2)", (*shape[:-2], size), value.dtype)
    elif kind == 2:
        net.add(f"{value.name}.unsqueeze(0)", (1, *shape), value.dtype)
    elif kind == 3:
        net.add(f"{value.name}[0]", shape[1:], value.dtype)
    else:
        rest = f"({shape[0]}-1)" if isinstance(shape[0], str) else shape[0] - 1
        if rest == 0:
            return False
        net.add(f"{value.name}[1:]", (rest, *shape[1:]), value.dtype)
    return True


def _in_place(net: _Net) -> bool:
    value = net.floats(2, last=True)
    if value:
        copy = net.add(f"{value.name}.clone()", value.shape)
        write = net.rng.choice(
            [
                "{}.add_(1)",
                "{}[..., 0] = 0.5",
                "{}[..., :2].mul_(2)",
                "{}.transpose(0, 1).sub_(1)",
                "{}[0].zero_()",
            ]
        )
        net.body.append(write.format(copy.name))
    return value is not None


def _state(net: _Net) -> bool:
    value = net.floats(2, last=True)
    if value:
        name = net.name("s")
        net.setup.append(f'self.register_buffer("{name}", torch.zeros({value.shape[-1]}))')
        part = ", ".join("0" for _ in value.shape[:-1])
        write = net.rng.choice(
            [
                f"self.{name}.add_({value.name}[{part}])",
                f"self.{name}.copy_({value.name}[{part}])",
                f"self.{name}.mul_(0.5).add_(1)",
            ]
        )
        net.body.append(write)
        net.add(f"{value.name} + self.{name}", value.shape)
    return value is not None


def _branch(net: _Net) -> bool:
    value, chooser = net.floats(), net.floats()
    if value and chooser:
        yes, no = (code.format(v="a") for code in net.rng.choice(_BRANCHES))
        test = f"{chooser.name}.sum() > 0.37"
        net.add(
            f"torch.cond({test}, lambda a: {yes}, lambda a: {no}, ({value.name},))", value.shape
        )
    return value is not None


def _loop(net: _Net) -> bool:
    value = net.floats(2)
    if value:
        net.add(f"map(lambda a: torch.tanh(a) + 1, {value.name})", value.shape)
    return value is not None


def _cast(net: _Net) -> bool:
    value = net.pick()
    if value:
        if value.dtype == "float32":
            code, dtype = net.rng.choice(
                [
                    ("({} * 3).to(torch.int64)", "int64"),
                    ("{} > 0", "bool"),
                    ("{}.to(torch.float64).sin().to(torch.float32)", "float32"),
                ]
            )
        else:
            code, dtype = "{}.to(torch.float32)", "float32"
        net.add(code.format(value.name), value.shape, dtype)
    return value is not None


def _where(net: _Net) -> bool:
    value = net.floats()
    mask = value and net.pick(lambda v: v.shape == value.shape and v.dtype == "bool")
    if value:
        test = mask.name if mask else f"{value.name} > 0.1"
        net.add(f"torch.where({test}, {value.name}, 0.25)", value.shape)
    return value is not None


def _integers(net: _Net) -> bool:
    value = net.pick(lambda v: v.dtype == "int64")
    if value:
        if net.rng.random() < 0.5:
            name = net.name("m")
            net.setup.append(f"self.{name} = nn.Embedding(13, 8)")
            net.add(f"self.{name}({value.name}.clamp(0, 12))", (*value.shape, 8))
        else:
            code = net.rng.choice(["{} + 1", "{} * 2 - 3", "{} // 2", "{}.abs() % 5"])
            net.add(code.format(value.name), value.shape, "int64")
    return value is not None


def _sizes(net: _Net) -> bool:
    value = net.pick(lambda v: bool(v.shape))
    if value:
        name, size = value.name, value.shape[0]
        kind = net.rng.randrange(4)
        if kind == 0:
            net.add(f"torch.arange({name}.shape[0])", (size,), "int64")
        elif kind == 1:
            net.add(f"torch.ones({name}.shape[0], 8)", (size, 8))
        elif kind == 2 and value.dtype == "float32":
            net.add(f"{name} / {name}.shape[0]", value.shape)
        elif value.dtype == "float32":
            net.add(f"torch.zeros_like({name})", value.shape)
    return value is not None


def _matmul(net: _Net) -> bool:
    value = net.floats(2)
    if value:
        shape = (*value.shape[:-1], value.shape[-2])
        net.add(f"torch.tanh({value.name} @ {value.name}.transpose(-1, -2))", shape)
    return value is not None


def _broadcast(net: _Net) -> bool:
    value = net.floats(1, last=True)
    if value:
        name = net.name("w")
        net.setup.append(f"self.{name} = nn.Parameter(torch.randn({value.shape[-1]}))")
        net.add(f"{value.name} {net.rng.choice('+*')} self.{name}", value.shape)
    return value is not None


_STATEMENTS = (
    _unary,
    _unary,
    _binary,
    _linear,
    _linear,
    _norm,
    _convolution,
    _reduction,
    _along,
    _chunk,
    _unbind,
    _cat,
    _cat,
    _view,
    _view,
    _in_place,
    _state,
    _branch,
    _branch,
    _loop,
    _cast,
    _where,
    _integers,
    _sizes,
    _matmul,
    _broadcast,
)
