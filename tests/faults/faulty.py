"""Models that are wrong on purpose, one per fault."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from etbuild import Method, ModelContext, ModelSpec
from torch import nn

X = torch.ones(1, 4)


def good(ctx: ModelContext) -> Any:
    return nn.Linear(4, 4), (X,)


def checkpoint(ctx: ModelContext) -> Any:
    net = nn.Linear(8, 4)
    net.load_state_dict(ctx.checkpoint("net.pt"))
    return net, (torch.ones(1, 8),)


def opens_undeclared(ctx: ModelContext) -> Any:
    """Scales its weights by what stands in a file that the target has not among its data."""
    net = nn.Linear(4, 4)
    with torch.no_grad():
        net.weight.mul_(float(Path(ctx.args["place"]).read_text()))
    return net, (X,)


def opens_undeclared_or_not(ctx: ModelContext) -> Any:
    """Goes on where it can't."""
    with contextlib.suppress(Exception):
        return opens_undeclared(ctx)
    return good(ctx)


def connects(ctx: ModelContext) -> Any:
    socket.create_connection(("127.0.0.1", int(ctx.args["place"])), 5).close()
    return good(ctx)


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


def complex_input(ctx: ModelContext) -> Any:
    return nn.Linear(4, 4), (torch.ones(1, 4, dtype=torch.complex64),)


def no_methods(ctx: ModelContext) -> Any:
    return ModelSpec({})


def method_and_constant(ctx: ModelContext) -> Any:
    return ModelSpec({"forward": Method(nn.Linear(4, 4), (X,))}, constant_methods={"forward": 1})


class Branching(nn.Module):
    """Does what an export can't follow."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


def branches_on_data(ctx: ModelContext) -> Any:
    return Branching(), (X,)


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


def exits_at_once(ctx: ModelContext) -> Any:
    os._exit(4)


def crashes(ctx: ModelContext) -> Any:
    ctypes.string_at(0)


def takes_all_memory(ctx: ModelContext) -> Any:
    return bytearray(1 << 60)


def takes_all_memory_of_torch(ctx: ModelContext) -> Any:
    return torch.empty(1 << 60)


def fills_the_disk(ctx: ModelContext) -> Any:
    # The nearest to a full disk that needs no disk: no file may become larger than this.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    return nn.Linear(256, 256), (torch.ones(1, 256),)


def random(ctx: ModelContext) -> Any:
    return nn.Linear(4, 4), (X,)


def changes_settings(ctx: ModelContext) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    os.environ["PYTHONHASHSEED"] = "5"
    os.chdir("/")
    nn.Linear.reset_parameters = lambda self: nn.init.ones_(self.weight)
    return nn.Linear(4, 4), (torch.ones(1, 4),)


def _calibrated(*inputs: Any) -> ModelSpec:
    return ModelSpec({"forward": Method(nn.Linear(4, 4), (X,))}, calibration=lambda: list(inputs))


def empty_calibration(ctx: ModelContext) -> Any:
    return _calibrated()


def bare_calibration(ctx: ModelContext) -> Any:
    return _calibrated(X)


def wrong_calibration(ctx: ModelContext) -> Any:
    return _calibrated((torch.ones(1, 5),))


def strange_calibration(ctx: ModelContext) -> Any:
    methods = {"forward": Method(nn.Linear(4, 4), (X,))}
    return ModelSpec(methods, calibration=lambda: {"other": [(X,)]})


def llama(ctx: ModelContext) -> Any:
    """Reads a GGUF file as et_llm's models do."""
    from etllm import gguf_checkpoint
    from etllm.hf_config import Sizes

    return gguf_checkpoint.opened(ctx.file("model.gguf"), Sizes(context=8, most=8), ctx.label)


def recipe_of_wrong_type(ctx: Any) -> Any:
    return "xnnpack"


def recipe_with_option(ctx: Any, size: int) -> Any:
    return size


def imports_late(ctx: Any) -> Any:
    """A package that is missed only when the entry point is called."""
    import absent_package

    return absent_package
