"""Models that are wrong on purpose, one per fault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import torch
from etbuild import Method, ModelContext, ModelSpec
from torch import nn

X = torch.ones(1, 4)


def good(ctx: ModelContext) -> Any:
    return nn.Linear(4, 4), (X,)


def returns_none(ctx: ModelContext) -> None:
    return None


def returns_tensor_as_inputs(ctx: ModelContext) -> Any:
    return nn.Linear(4, 4), X


def wrong_shape(ctx: ModelContext) -> Any:
    return nn.Linear(4, 4), (torch.ones(1, 5),)


def complex_weight(ctx: ModelContext) -> Any:
    net = nn.Linear(4, 4)
    net.register_buffer("phase", torch.ones(4, dtype=torch.complex64))
    return net, (X,)


def fixed_dimension(ctx: ModelContext) -> Any:
    shapes = ({1: torch.export.Dim("n", max=9)},)
    return ModelSpec({"forward": Method(nn.Linear(4, 4), (X,), dynamic_shapes=shapes)})


def missing_file(ctx: ModelContext) -> Any:
    return ctx.file("model.gguf")


def ambiguous_file(ctx: ModelContext) -> Any:
    return ctx.file("weights.bin")


def missing_argument(ctx: ModelContext) -> Any:
    return ctx.arg("width")


def raises(ctx: ModelContext) -> Any:
    raise ValueError("my own problem")


def kills_itself(ctx: ModelContext) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def exits(ctx: ModelContext) -> Any:
    sys.exit(3)


def prints_and_works(ctx: ModelContext) -> Any:
    print("noise on standard output")
    subprocess.run(["echo", "noise of a child"], check=True)
    return good(ctx)


def empty_calibration(ctx: ModelContext) -> Any:
    return ModelSpec({"forward": Method(nn.Linear(4, 4), (X,))}, calibration=lambda: [])


def truncated_gguf(ctx: ModelContext) -> Any:
    from models.llama import build

    return build(ctx)


def recipe_of_wrong_type(ctx: Any) -> Any:
    return "xnnpack"


def recipe_with_option(ctx: Any, size: int) -> Any:
    return size
