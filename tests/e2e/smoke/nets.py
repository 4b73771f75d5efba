"""Models of a user's own."""

from __future__ import annotations

import warnings

import torch
from etbuild import Method, ModelContext, ModelSpec
from lib.layers import Residual
from torch import nn


class Classifier(nn.Module):
    """A network that takes batches of feature vectors."""

    def __init__(self, width: int, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(64, width)
        self.middle = Residual(width)
        self.last = nn.Linear(width, 10)
        # Too small for groups of 32: a 4-bit recipe leaves it alone.
        self.small = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits, (batch, 10)."""
        return self.last(self.middle(torch.relu(self.first(x)))) + self.small(x[:, :8])


def classifier(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The smallest form: a module and its example inputs."""
    scale = float(ctx.file("scale.txt").read_text())
    return Classifier(int(ctx.arg("width", "64"))), (scale * torch.ones(1, 64),)


def exported(ctx: ModelContext) -> torch.export.ExportedProgram:
    """A program that torch.export.save wrote, which brings its example inputs."""
    return torch.export.load(ctx.file("exported.pt2"))


def two_methods(ctx: ModelContext) -> ModelSpec:
    """The full form: two methods over the same weights, one of them for any batch up to 32."""
    net = Classifier(64, seed=1)
    batch = torch.export.Dim("batch", min=1, max=32)
    return ModelSpec(
        methods={
            "batch": Method(
                net,
                (torch.randn(4, 64),),
                dynamic_shapes={"x": {0: batch}},
                test_inputs=[(torch.randn(1, 64),), (torch.randn(32, 64),)],
            ),
            "single": Method(net, (torch.randn(1, 64),)),
        },
        constant_methods={"get_classes": 10, "get_scale": 0.5},
        calibration=lambda: [(torch.randn(4, 64),) for _ in range(4)],
    )


class Mixed(nn.Module):
    """Layers that XNNPACK takes, with a cumulative sum between them, which it doesn't."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = nn.Linear(64, 128)
        self.last = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits, (batch, 10)."""
        return self.last(torch.cumsum(self.first(x), 1))


def mixed(ctx: ModelContext) -> ModelSpec:
    """For what a report says of delegation. The C++ runner's files have no form for its name, so
    that its test runs in Python."""
    return ModelSpec(
        methods={"forward": Method(Mixed(), (torch.randn(4, 64),))},
        constant_methods={"get_name": "smoke"},
    )


def pair(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Two models that differ in their last layer: "last" is its seed."""
    torch.manual_seed(7)
    common = [nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    torch.manual_seed(int(ctx.arg("last")))
    return nn.Sequential(*common, nn.Linear(512, 32)), (torch.ones(1, 512),)


class Normed(nn.Module):
    """Weight normalization in torch's older form, with weights that are computed before each run,
    and in its newer one, with two parameters for one weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            self.older = nn.utils.weight_norm(nn.Linear(64, 64))
        self.newer = nn.utils.parametrizations.weight_norm(nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits, (batch, 10)."""
        return self.newer(torch.relu(self.older(x)))


def normed(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """For what copies a module."""
    return Normed(), (torch.ones(1, 64),)
