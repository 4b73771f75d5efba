"""Models of a user's own."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec
from lib.classifier import CLASSES, FEATURES, Classifier
from safetensors.torch import load_file
from torch import nn


def trained(ctx: ModelContext) -> nn.Module:
    """The classifier with its weights."""
    net = Classifier(int(ctx.arg("width", "64")))
    net.load_state_dict(load_file(ctx.file("classifier.safetensors")))
    return net


def classifier(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The smallest form: a module and its example inputs."""
    scale = float(ctx.file("scale.txt").read_text())
    return trained(ctx), (scale * torch.ones(1, FEATURES),)


def two_methods(ctx: ModelContext) -> ModelSpec:
    """The full form: two methods over the same weights, one of them for any batch up to 32."""
    net = trained(ctx)
    torch.manual_seed(1)
    batch = torch.export.Dim("batch", min=1, max=32)
    return ModelSpec(
        methods={
            "batch": Method(
                net,
                (torch.randn(4, FEATURES),),
                dynamic_shapes={"x": {0: batch}},
                test_inputs=[(torch.randn(1, FEATURES),), (torch.randn(32, FEATURES),)],
            ),
            "single": Method(net, (torch.randn(1, FEATURES),)),
        },
        constant_methods={"get_classes": CLASSES, "get_name": "smoke", "get_scale": 0.5},
        calibration=lambda: [(torch.randn(1, FEATURES),) for _ in range(200)],
    )


def pair(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Two models that differ in their last layer: "last" is its seed."""
    torch.manual_seed(7)
    common = [nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    torch.manual_seed(int(ctx.arg("last")))
    return nn.Sequential(*common, nn.Linear(512, 32)), (torch.ones(1, 512),)
