"""Opens what backends put into programs, with the vendors' own readers where there are some."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etlink import pte, tables


@dataclass(frozen=True)
class Payload:
    """One delegate of a program.

    Attributes:
      method: that calls it.
      backend: the name that a runtime has it registered under.
      data: what that backend gets.
    """

    method: str
    backend: str
    data: bytes


def delegates(program: Path) -> list[Payload]:
    """All delegates of a .pte file."""
    file = pte.read(program)
    raw = program.read_bytes()
    found = []
    for plan in file.program.executionPlan:
        for delegate in plan.delegates or []:
            place = delegate.processed
            if place.location == 0:
                data = bytes(file.program.backendDelegateData[place.index].data)
            else:
                offset, size = file.segments[place.index]
                data = raw[offset : offset + size]
            found.append(Payload(tables.text(plan.name), tables.text(delegate.id), data))
    return found


def operators(program: Path) -> set[str]:
    """Names of the operators that stayed with ExecuTorch."""
    methods = tables.describe_methods(pte.read(program).program)
    return {operator for method in methods for operator in method["operators"]}


def open_payload(payload: Payload) -> Any:
    """Reads a payload; what is said of it.

    Raises:
      AssertionError, ValueError: it is not what the backend reads.
    """
    return _READERS[payload.backend](payload.data)


def _coreai(data: bytes) -> list[str]:
    """Files of the compiled asset, which are named data of the program."""
    return sorted(json.loads(data)["files"])


def _coreml(data: bytes) -> list[str]:
    """Operations of the Core ML model, read with Apple's protobuf definitions."""
    from coremltools.proto import Model_pb2

    table, _ = json.JSONDecoder().raw_decode(data[::-1][: 1 << 20].decode("latin-1"))
    nodes = table["nodes"]
    files = {}

    def walk(node: dict[str, Any], path: str) -> None:
        if node["kind"] == 0:
            region = node["dataRegion"]
            files[path] = data[region["offset"] : region["offset"] + region["size"]]
        for name, index in node["children"].items():
            walk(nodes[index], f"{path}/{name}")

    walk(nodes[-1], "")
    assert json.loads(files["/metadata.json"])["identifier"].startswith("executorch_")
    model = Model_pb2.Model()
    model.ParseFromString(files["/model.mlpackage/Data/com.apple.CoreML/model.mlmodel"])
    functions = model.mlProgram.functions.values()
    return [
        operation.type
        for function in functions
        for block in function.block_specializations.values()
        for operation in block.operations
    ]


def _tosa(data: bytes) -> int:
    """Number of operations of the TOSA graph, read with Arm's flatbuffers."""
    from tosa import TosaGraph

    assert data[4:8] == b"TOSA"
    graph = TosaGraph.TosaGraph.GetRootAs(data, 0)
    assert graph.Version()._Major() == 1
    count: int = graph.Regions(0).Blocks(0).OperatorsLength()
    return count


def _ethos_u(data: bytes) -> dict[str, int]:
    """Blocks of vela's output by name: their sizes."""
    blocks, at = {}, 0
    while at < len(data):
        name, size, _ = struct.unpack_from("<16sIB", data, at)
        at += 32
        blocks[name.rstrip(b"\0").decode()] = size
        if name.startswith(b"cmd_data"):
            assert data[at : at + 4] == b"COP1"
        at += size + -size % 16
    assert list(blocks)[0] == "vela_bin_stream" and list(blocks)[-1] == "vela_end_stream"
    assert blocks["cmd_data"] > 0
    return blocks


def _mlx(data: bytes) -> int:
    """Bytes of the graph; tests run it."""
    assert data[4:8] == b"MLX0"
    return len(data)


def _mps(data: bytes) -> int:
    """Bytes of the graph; its format has an identifier, and no reader beside the runtime's."""
    assert data[4:8] == b"MP00"
    return len(data)


def _vgf(data: bytes) -> int:
    assert data[:4] == b"VGF1"
    return len(data)


def _vulkan(data: bytes) -> list[str]:
    """Operators of the Vulkan graph, read with ExecuTorch's own schema."""
    from executorch.backends.vulkan.serialization import vulkan_graph_serialize as serialize

    assert data[4:8] == b"VH00"
    graph = serialize.flatbuffer_to_vk_graph(serialize.extract_vk_flatbuffer(data))
    return [call.name for call in graph.chain]


def _openvino(data: bytes) -> int:
    """Number of outputs of the compiled model, loaded with OpenVINO."""
    import io

    import openvino

    return len(openvino.Core().import_model(io.BytesIO(data), "CPU").outputs)


def _xnnpack(data: bytes) -> int:
    assert data[4:8] == b"XH00"
    return len(data)


def _qnn(data: bytes) -> int:
    """Bytes of the context, behind a header with a magic number, a signature and its size."""
    magic, signature, size = struct.unpack_from("<IQQ", data)
    assert magic == 0x5678ABCD
    assert signature
    assert len(data) == 256 + size
    return int(size)


_READERS: dict[str, Callable[[bytes], Any]] = {
    "CoreAIBackend": _coreai,
    "CoreMLBackend": _coreml,
    "EthosUBackend": _ethos_u,
    "MLXBackend": _mlx,
    "MPSBackend": _mps,
    "OpenvinoBackend": _openvino,
    "QnnBackend": _qnn,
    "TOSABackend": _tosa,
    "VgfBackend": _vgf,
    "VulkanBackend": _vulkan,
    "XnnpackBackend": _xnnpack,
}
