"""Runs a net by upstream's API alone, and compares it with eager: for the scripts beside it."""

from __future__ import annotations

import os
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
    return _difference(program(function, inputs, partitioners), function, inputs)


def _difference(
    loaded: Any, function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
) -> float:
    [got, *_] = loaded.run_method("forward", inputs)
    want = function(*inputs)
    want = want if isinstance(want, torch.Tensor) else want[0]
    if got.shape != want.shape:
        print(f"got the shape {tuple(got.shape)}, expected {tuple(want.shape)}")
        return float("inf")
    return float((got - want).abs().nan_to_num(torch.inf).max())


def qnn_difference(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> float:
    """Largest difference of QNN's simulator in 16-bit floats to eager. Needs QNN's SDK.

    QNN_SDK_ROOT is its folder, and LD_LIBRARY_PATH has its lib/x86_64-linux-clang.
    """
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils import utils

    options = utils.generate_htp_compiler_spec(use_fp16=True)
    specs = utils.generate_qnn_executorch_compiler_spec(QcomChipset.SM8650, options)
    edge = utils.to_edge_transform_and_lower_to_qnn(Net(function).eval(), inputs, specs)
    loaded = _load_for_executorch_from_buffer(edge.to_executorch().buffer)
    return _difference(loaded, function, inputs)


def vulkan_difference(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> float:
    """Largest difference of Vulkan to eager. Needs bindings that were built with Vulkan."""
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

    return difference(function, inputs, [VulkanPartitioner()])


def openvino_difference(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> float:
    """Largest difference of OpenVINO to eager. Needs openvino and nncf."""
    from executorch.backends.openvino.partitioner import OpenvinoPartitioner
    from executorch.exir.backend.backend_details import CompileSpec

    return difference(function, inputs, [OpenvinoPartitioner([CompileSpec("device", b"CPU")])])


def mlx_difference(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> float:
    """Largest difference of MLX to eager. Needs macOS."""
    from executorch.backends.mlx import MLXPartitioner
    from executorch.backends.mlx.passes import get_default_passes

    exported = torch.export.export(Net(function).eval(), inputs)
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    edge = to_edge_transform_and_lower(
        exported,
        transform_passes=get_default_passes(),
        partitioner=[MLXPartitioner()],
        compile_config=config,
    )
    loaded = _load_for_executorch_from_buffer(edge.to_executorch().buffer)
    return _difference(loaded, function, inputs)


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


def report_end(name: str, call: Callable[[], Any]) -> None:
    """Prints with which status a call ends a process; ends with 1 where it does not."""
    if os.fork() == 0:
        call()
        os._exit(0)
    _, status = os.wait()
    print(f"{name}: the process ended with status {status}")
    raise SystemExit(status == 0)
