"""Runs a net by upstream's API alone, and compares it with eager: for the scripts beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer


class Net(torch.nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """The function's result."""
        return self.function(*inputs)


def program(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], partitioners: Sequence[Any] = ()
) -> Any:
    """The lowered program of a function, loaded."""
    exported = torch.export.export(Net(function).eval(), inputs)
    config = EdgeCompileConfig(_check_ir_validity=False)
    edge = to_edge_transform_and_lower(
        exported, partitioner=list(partitioners), compile_config=config
    )
    return _load_for_executorch_from_buffer(edge.to_executorch().buffer)


def difference(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], partitioners: Sequence[Any] = ()
) -> float:
    """Largest difference of a program's first output to eager's."""
    [got, *_] = program(function, inputs, partitioners).run_method("forward", inputs)
    want = function(*inputs)
    want = want if isinstance(want, torch.Tensor) else want[0]
    return float((got - want).abs().max())


def tosa_difference(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> float:
    """Largest difference of Arm's reference model of TOSA to eager. Needs tosa-tools."""
    import tosa_reference_model
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    exported = torch.export.export(Net(function).eval(), inputs)
    partitioner = TOSAPartitioner(TosaCompileSpec("TOSA-1.0+FP"))
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    [part] = [part for _, part in edge.exported_program().graph_module.named_children()]
    given = [x.numpy() for x in inputs]
    [got, *_], _ = tosa_reference_model.run(part.processed_bytes, given, verbosity="LOW")
    return float((torch.from_numpy(got) - function(*inputs)).abs().max())


def report(name: str, found: float, bound: float) -> None:
    """Prints the difference; ends with 1 where it is gone, so that a test notices."""
    print(f"{name}: off by {found:.3g}")
    raise SystemExit(found <= bound)


def report_failure(name: str, call: Callable[[], Any]) -> None:
    """Prints with which error a call fails; ends with 1 where it does not."""
    try:
        call()
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
        raise SystemExit(0) from None
    print(f"{name}: no error")
    raise SystemExit(1)
