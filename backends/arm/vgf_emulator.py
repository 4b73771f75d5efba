"""Runs VGF programs by Arm's Scenario Runner, in a Vulkan driver that lacks Arm's extensions.

Two layers of Arm's emulate the extensions in shaders: one has tensors, the other, above it, graphs
of operators. The loader of Vulkan stacks layers in the order of the folders that it finds them in
(1.3.239), so each gets a folder of its own.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from runner import emulated

# The upper one first.
_LAYERS = ("Graph", "Tensor")
# A tensor's VkFormat to the Scenario Runner's name of it, and NumPy's of the numbers.
_FORMATS = {
    13: ("R8Uint", "u1"),
    14: ("R8Sint", "i1"),
    75: ("R16Sint", "<i2"),
    76: ("R16Sfloat", "<f2"),
    99: ("R32Sint", "<i4"),
    100: ("R32Sfloat", "<f4"),
    1000460000: ("R8BoolArm", "?"),
}


def install() -> None:
    """Registers the backend."""
    emulated.register_backend("VgfBackend", _Graph)


def _enable_layers() -> None:
    """Tells the loader of Vulkan Arm's layers; before this process makes its first instance."""
    import emulation_layer

    deploy = Path(emulation_layer.__file__).parent / "deploy"
    work = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    for name in _LAYERS:
        file = f"VkLayer_{name}.json"
        layer = json.loads((deploy / "share/vulkan/explicit_layer.d" / file).read_text())
        layer["layer"]["library_path"] = str(deploy / "lib" / layer["layer"]["library_path"])
        (work / name).mkdir()
        (work / name / file).write_text(json.dumps(layer))
    os.environ["VK_LAYER_PATH"] = os.pathsep.join(str(work / name) for name in _LAYERS)
    names = [f"VK_LAYER_ML_{name}_Emulation" for name in _LAYERS]
    os.environ["VK_INSTANCE_LAYERS"] = os.pathsep.join(names)


class _Graph:
    """A part of a program, loaded into the driver."""

    def __init__(self, delegate: emulated.Delegate) -> None:
        if "VK_INSTANCE_LAYERS" not in os.environ:
            _enable_layers()
        import scenario_runner_py as runner

        builder, vgf = runner.ScenarioBuilder(), runner.VgfInfo()
        with tempfile.NamedTemporaryFile(suffix=".vgf", dir=os.environ.get("TEST_TMPDIR")) as file:
            file.write(delegate.payload)
            file.flush()
            vgf.load_source(file.name)
            command = runner.DispatchVgfData(builder.add_vgf(vgf))
            decoded = _Decoded(delegate.payload)
            self._inputs = [_Slot(builder, *slot) for slot in decoded.inputs]
            self._outputs = [_Slot(builder, *slot) for slot in decoded.outputs]
            command.bindings = [slot.binding for slot in self._inputs + self._outputs]
            builder.add_dispatch_vgf(command)
            self._scenario = builder.build()

    def __call__(self, values: Sequence[Any]) -> list[np.ndarray]:
        for slot, value in zip(self._inputs, values, strict=False):
            array = np.ascontiguousarray(value, slot.dtype).reshape(slot.shape)
            self._scenario.upload(slot.tensor, array)
        self._scenario.run()
        expected = values[len(self._inputs) :]
        if len(expected) != len(self._outputs):
            raise ValueError(
                f"VGF's graph has {len(self._inputs)} inputs and {len(self._outputs)} results; "
                f"the program has {len(values)} of both"
            )
        return [
            np.asarray(self._scenario.download(slot.tensor)).reshape(out.shape).astype(out.dtype)
            for slot, out in zip(self._outputs, expected, strict=True)
        ]


class _Slot:
    """A tensor that a graph reads or writes."""

    def __init__(self, builder: Any, binding: int, shape: list[int], vk_format: int) -> None:
        import scenario_runner_py as runner

        if vk_format not in _FORMATS:
            known = ", ".join(map(str, _FORMATS))
            raise ValueError(f"a tensor's VkFormat: got {vk_format}, expected one of {known}")
        name, self.dtype = _FORMATS[vk_format]
        self.shape = shape
        self.tensor = builder.add_tensor(shape, getattr(runner.Format, name))
        self.binding = runner.TypedBinding(0, binding, self.tensor, runner.DescriptorType.TensorArm)


class _Decoded:
    """The inputs and outputs of a VGF file: binding, shape and VkFormat of each."""

    def __init__(self, payload: bytes) -> None:
        import vgfpy

        data = np.frombuffer(payload, np.uint8)
        header = vgfpy.CreateHeaderDecoder(data, vgfpy.HeaderSize(), len(data))
        if not header.IsValid():
            raise ValueError("the payload is not a VGF file of a version that Arm's library reads")

        def table(kind: str) -> Any:
            begin = getattr(header, f"Get{kind}TableOffset")()
            size = getattr(header, f"Get{kind}TableSize")()
            decode = getattr(vgfpy, f"Create{kind}TableDecoder")
            return decode(data[begin : begin + size], size)

        # The decoders keep no reference to their bytes.
        self._data = data
        self._resources, sequence = table("ModelResource"), table("ModelSequence")
        self.inputs = self._slots(sequence, sequence.getModelSequenceInputBindingSlotsHandle())
        self.outputs = self._slots(sequence, sequence.getModelSequenceOutputBindingSlotsHandle())

    def _slots(self, sequence: Any, handle: Any) -> list[tuple[int, list[int], int]]:
        found = []
        for slot in range(sequence.getBindingsSize(handle)):
            index = sequence.getBindingSlotMrtIndex(handle, slot)
            shape = [int(size) for size in self._resources.getTensorShape(index)]
            binding = sequence.getBindingSlotBinding(handle, slot)
            found.append((binding, shape, int(self._resources.getVkFormat(index))))
        return found
