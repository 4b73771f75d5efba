"""A small network, trained in floating point and then for 4 bits on data that this file makes."""

import torch
from etbuild import Method, ModelSpec
from torch import nn
from torch.nn import functional

BATCH = 128


class Net(nn.Module):
    """Features (n, 32) to values (n, 4)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 4))

    def forward(self, x):
        return self.layers(x)


def batches(count, seed):
    """Random features, and what a fixed random network makes of them."""
    fixed, random = (torch.Generator().manual_seed(number) for number in (7, seed))
    first = torch.randn(32, 32, generator=fixed) / 5
    second = torch.randn(32, 4, generator=fixed) / 5
    for _ in range(count):
        x = torch.randn(BATCH, 32, generator=random)
        yield x, torch.tanh(x @ first) @ second


def fit(module, steps, rate, seed):
    """Trains a module; the rate falls to zero."""
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    for x, y in batches(steps, seed):
        optimizer.zero_grad()
        functional.mse_loss(module(x), y).backward()
        optimizer.step()
        schedule.step()


def build(ctx):
    """The model, trained in floating point."""
    seed = int(ctx.arg("seed", "0"))
    torch.manual_seed(seed)
    net = Net()
    fit(net, steps=800, rate=1e-2, seed=1000 + seed)
    [(x, _)] = batches(1, seed=1)
    return ModelSpec({"forward": Method(net.eval(), (x,))})


def train(module, ctx):
    """Goes on with the module that imitates 4 bits."""
    fit(module, steps=800, rate=3e-3, seed=2000 + int(ctx.arg("seed", "0")))
