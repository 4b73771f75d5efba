"""Small nets, one of them with an operator of its own."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec

_OPERATORS = torch.library.Library("mine", "DEF")
_OPERATORS.define("scale(Tensor x, float factor) -> Tensor")
_OPERATORS.define("scale.out(Tensor x, float factor, *, Tensor(a!) out) -> Tensor(a!)")


@torch.library.impl(_OPERATORS, "scale", "CompositeExplicitAutograd")
def _scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@torch.library.impl(_OPERATORS, "scale.out", "CompositeExplicitAutograd")
def _scale_out(x: torch.Tensor, factor: float, out: torch.Tensor) -> torch.Tensor:
    return out.copy_(x * factor)


class Scaled(torch.nn.Module):
    """x / 2 + 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mine.scale(x, 0.5) + 1


def _body(width: int) -> torch.nn.Module:
    torch.manual_seed(0)
    first, last = torch.nn.Linear(8, width), torch.nn.Linear(width, 8)
    return torch.nn.Sequential(first, torch.nn.ReLU(), last)


class Task(torch.nn.Module):
    """A body that all tasks have, and a head of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.body = _body(256)
        torch.manual_seed(seed)
        self.head = torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def scaled(ctx: ModelContext) -> ModelSpec:
    """The net with an operator of its own."""
    return ModelSpec({"forward": Method(Scaled().eval(), (torch.ones(2, 3),))})


def body(ctx: ModelContext) -> ModelSpec:
    """Returns the body that the tasks share."""
    return ModelSpec({"forward": Method(_body(256).eval(), (torch.ones(1, 8),))})


def task(ctx: ModelContext) -> ModelSpec:
    """A task; args: seed."""
    return ModelSpec({"forward": Method(Task(int(ctx.args["seed"])).eval(), (torch.ones(1, 8),))})
