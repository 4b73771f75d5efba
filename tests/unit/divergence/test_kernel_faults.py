"""Faults in backends and kernels, which no graph has: the module that has one is named.

A kernel that reads weights in another order, takes a scale twice or leaves a bias out gives what a
right one gives for other weights. So these are changed in each .pte file before it runs: the
program, and those with taps and cuts. The eager model and all graphs keep theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from etlink import pte, tables
from faulty import Detector, Mlp, WindowedDetector, made
from test_faults import INT8, compared

INT4 = "int8_dynamic_act_int4_weight"
Change = Callable[[np.ndarray], np.ndarray]


def rolled(values: np.ndarray) -> np.ndarray:
    """Reads one channel's values for another one's."""
    return np.roll(values, 1, axis=0)


def mirrored(values: np.ndarray) -> np.ndarray:
    """Reads the last axis from its end."""
    return np.flip(values, axis=-1)


def doubled(values: np.ndarray) -> np.ndarray:
    """Takes a factor twice."""
    return values * 2


def lost(values: np.ndarray) -> np.ndarray:
    """Leaves it out."""
    return values * 0


def negated(values: np.ndarray) -> np.ndarray:
    """Has the sign wrong; integers in 8 bits have no +128."""
    return -np.maximum(values, -127) if values.dtype == np.int8 else -values


@dataclass(frozen=True)
class KernelFault:
    """A fault of a kernel.

    Attributes:
      net: the net.
      module: whose call is wrong.
      tensor: "weight", "bias", or "scale": of the weight.
      change: what the kernel does to it.
      recipe: of XNNPACK.
    """

    net: type[torch.nn.Module]
    module: str
    tensor: str
    change: Change
    recipe: str = "fp32"

    def __str__(self) -> str:
        return f"{self.module}.{self.tensor} {self.change.__name__} {self.recipe}"

    def plant(self, net: torch.nn.Module, file: Path) -> None:
        """Changes the tensor in a .pte file, which may be cut before it."""
        module = net.get_submodule(self.module)
        name = "weight" if self.tensor == "scale" else self.tensor
        values = getattr(module, name).detach().numpy()
        found = list(scales(file, values) if self.tensor == "scale" else copies(file, values))
        raw = bytearray(file.read_bytes())
        for offset, array in found:
            data = np.ascontiguousarray(self.change(array).astype(array.dtype)).tobytes()
            raw[offset : offset + len(data)] = data
        file.write_bytes(raw)
        _planted.append(bool(found))


# Whether a tensor was found, by file.
_planted: list[bool] = []


def copies(file: Path, values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Places of a tensor in a file, as floats or in 8 bits; with the array as it lies there."""
    raw = file.read_bytes()
    for order in _orders(values):
        offset = raw.find(np.transpose(values, order).tobytes())
        if offset >= 0:
            yield offset, np.transpose(values, order).copy()
            return
    for _, offset, size in _named_data(file):
        array = np.frombuffer(raw[offset : offset + size], np.int8)
        for order in _orders(values):
            wanted = np.transpose(values, order)
            if size == values.size and _alike(array, wanted) > 0.95:
                yield offset, array.reshape(wanted.shape)
                return


def _orders(values: np.ndarray) -> Iterator[tuple[int, ...]]:
    return itertools.permutations(range(values.ndim))


def scales(file: Path, weight: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Places of the scales of a weight's channels in 8 bits."""
    raw = file.read_bytes()
    largest = np.abs(weight).reshape(len(weight), -1).max(axis=1)
    for key, offset, size in _named_data(file):
        if key.startswith("scale_") and size == 4 * len(weight):
            array = np.frombuffer(raw[offset : offset + size], np.float32)
            # Those of the bias are the same, but for a factor.
            if np.allclose(array, largest / 127, rtol=0.05):
                yield offset, array


def _alike(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one.astype(float), other.reshape(-1).astype(float))[0, 1])


def _named_data(file: Path) -> Iterator[tuple[str, int, int]]:
    content = pte.read(file)
    for entry in content.program.namedData or []:
        offset, size = content.segments[entry.segmentIndex]
        yield tables.text(entry.key), offset, size


ATTENTION = "layers.0.attention"
FAULTS = [
    KernelFault(WindowedDetector, "patches", "weight", rolled),
    KernelFault(WindowedDetector, "layers.0.norm1", "bias", rolled),
    KernelFault(WindowedDetector, f"{ATTENTION}.qkv", "weight", mirrored),
    KernelFault(WindowedDetector, f"{ATTENTION}.proj", "bias", lost),
    KernelFault(WindowedDetector, "layers.0.mlp.0", "weight", doubled),
    KernelFault(WindowedDetector, "layers.0.mlp.2", "weight", rolled),
    KernelFault(WindowedDetector, "layers.1.attention.qkv", "bias", lost),
    KernelFault(WindowedDetector, "layers.1.norm2", "bias", lost),
    KernelFault(WindowedDetector, "norm", "bias", negated),
    KernelFault(WindowedDetector, "classes", "weight", mirrored),
    KernelFault(WindowedDetector, "boxes", "bias", negated),
    KernelFault(Detector, "blocks.0.depthwise", "weight", rolled),
    KernelFault(Detector, "blocks.0.pointwise", "weight", doubled),
    KernelFault(Detector, "blocks.1.depthwise", "bias", lost),
    KernelFault(Detector, "blocks.1.pointwise", "weight", mirrored),
    KernelFault(Detector, "deep", "weight", mirrored),
    KernelFault(Detector, "head", "weight", rolled),
    KernelFault(Mlp, "layers.0", "scale", doubled, INT8),
    KernelFault(Mlp, "layers.2", "weight", rolled, INT8),
    KernelFault(Mlp, "layers.4", "weight", negated, INT8),
    KernelFault(Mlp, "head", "scale", doubled, INT8),
    KernelFault(Detector, "blocks.0.pointwise", "scale", doubled, INT8),
    KernelFault(Detector, "head", "weight", rolled, INT8),
    KernelFault(Mlp, "head", "bias", lost, INT4),
]


@pytest.mark.release
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_module_with_the_faulty_kernel_is_named(fault: KernelFault) -> None:
    net, inputs = made(fault.net)
    _planted.clear()
    result: Any = compared(net, inputs, fault.recipe, change=lambda file: fault.plant(net, file))
    assert _planted[0], "the program has no such tensor"
    assert result.first is not None
    column, fall = result.first
    assert column == "program"
    # A linear layer and its ReLU are one kernel in 8 bits: both are named.
    named = [fall.module, *fall.together] if fault.recipe == INT8 else [fall.module]
    assert fault.module in named
