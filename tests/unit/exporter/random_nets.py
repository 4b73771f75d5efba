"""Nets of nested control flow, written at random."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

SHAPES = {3: (2, 3, 4), 2: (3, 4), 1: (4,)}
_BEGIN = """\
import torch
from torch._higher_order_ops.map import map as each_of
from torch._higher_order_ops.scan import scan

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
"""


def net(seed: int, folder: Path) -> torch.nn.Module:
    """A net that takes a tensor of `SHAPES[3]` and returns all that it computes.

    Args:
      seed: of what it does.
      folder: for its source, which torch reads.
    """
    writer = _Writer(seed)
    values = writer.block(["x"], 3, 2, 5, 2)
    writer.write(2, f"return ({', '.join(values[1:])},)")
    path = folder / f"random_net_{seed}.py"
    path.write_text(_BEGIN + "\n".join(writer.lines) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(seed)
    result: torch.nn.Module = module.Net()
    return result


class _Writer:
    """Writes lines of Python; a value is the name of a tensor of `SHAPES[dim]`."""

    def __init__(self, seed: int) -> None:
        self.random, self.lines, self.count = random.Random(seed), list[str](), 0

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def block(
        self, values: Sequence[str], dim: int, depth: int, steps: int, indent: int
    ) -> list[str]:
        """The values, and those of some steps: with bodies, unless `depth` is 0."""
        result = list(values)
        for _ in range(steps):
            result.append(self.step(result, dim, depth, indent))
        return result

    def step(self, values: Sequence[str], dim: int, depth: int, indent: int) -> str:
        a, b, out = self.random.choice(values), self.random.choice(values), self.new()
        plain = {
            "add": f"{a} + {b}",
            "sub": f"{a} * 0.5 - {b}",
            "tanh": f"{a}.tanh()",
            "linear": f"self.layer({a})",
            "flat": f"({a}.reshape(-1) * 2).reshape({SHAPES[dim]})",
            "pairs": f"{a}.reshape(-1, 2).tanh().reshape({SHAPES[dim]})",
        }
        loops = ["map", "scan"] * 3 if dim > 1 else []
        kind = self.random.choice([*plain, *((["cond"] * 6 + loops) if depth else [])])
        if kind in plain:
            self.write(indent, f"{out} = {plain[kind]}")
        elif kind == "cond":
            branches = [self.body(2, dim, depth, indent, [0, 1, 1, 2])[0] for _ in range(2)]
            least = self.random.choice([0, 0.5])
            operands = f"({b}, {a} * 1)"
            self.write(
                indent,
                f"{out} = torch.cond({a}.sum() > {least}, {', '.join(branches)}, {operands})",
            )
        elif kind == "map":
            function, _ = self.body(1, dim - 1, depth, indent, [1, 2])
            self.write(indent, f"{out} = each_of({function}, {a})")
        else:
            function, _ = self.body(2, dim - 1, depth, indent, [1, 2, 3], is_scan=True)
            self.write(indent, f"last, rows = scan({function}, {b}[0] * 0.5, {a})")
            self.write(
                indent, f"{out} = rows + last" if self.random.random() < 0.7 else f"{out} = rows"
            )
        return out

    def body(
        self,
        inputs: int,
        dim: int,
        depth: int,
        indent: int,
        steps: Sequence[int],
        is_scan: bool = False,
    ) -> tuple[str, list[str]]:
        """Writes a function, and returns its name and those of its values."""
        name, names = self.new(), [self.new() for _ in range(inputs)]
        self.write(indent, f"def {name}({', '.join(names)}):")
        values = self.block(names, dim, depth - 1, self.random.choice(steps), indent + 1)
        last = values[-1] + (".clone()" if len(values) == inputs else "")
        if is_scan:
            carry, row = names
            last = self.random.choice(
                [f"{last}, {last}.clone()", f"{row}.clone(), {last}", f"{last}, {carry}.clone()"]
            )
        self.write(indent + 1, f"return {last}")
        return name, values
