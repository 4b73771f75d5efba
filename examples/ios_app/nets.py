"""Two small nets with the same body."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec


def _body() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU())


def body(ctx: ModelContext) -> ModelSpec:
    """Returns the body that the tasks share."""
    return ModelSpec({"forward": Method(_body().eval(), (torch.ones(1, 8),))})


def task(ctx: ModelContext) -> ModelSpec:
    """A task; args: seed."""
    shared = _body()
    torch.manual_seed(int(ctx.args["seed"]))
    net = torch.nn.Sequential(shared, torch.nn.Linear(64, 2))
    return ModelSpec({"forward": Method(net.eval(), (torch.ones(1, 8),))})
