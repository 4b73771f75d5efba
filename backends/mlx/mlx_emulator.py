"""Runs MLX's payloads with MLX for CPUs: an interpreter of the instructions in upstream's schema.

A payload is a header and a flatbuffer, which flatc reads as JSON by the schema; both are in
ExecuTorch's wheel. Weights are the program's named data. Slots hold the tensors and the numbers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from etbuild.dtypes import DTYPES
from etlink.process import ROOTS
from runner import emulated

_HEADER = 24
_SCHEMA = "executorch/backends/mlx/serialization/schema.fbs"
_FLATC = "executorch/data/bin/flatc"
_TYPES = {d.scalar_type: getattr(mx, "bool_" if d.name == "bool" else d.name, None) for d in DTYPES}
_HELD = {d.scalar_type: d.numpy for d in DTYPES if d.numpy}
_Operands = dict[str, Any]


def install() -> None:
    """Registers the backend."""
    emulated.register_backend("MLXBackend", _Graph)


def _decoded(payload: bytes) -> dict[str, Any]:
    """A payload's graph, by the names in the schema; fields that are not set are missing."""
    root = next(r for r in os.environ[ROOTS].split(os.pathsep) if Path(r, _SCHEMA).is_file())
    flags = ["--json", "--strict-json", "--raw-binary", "--defaults-json"]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        file = Path(folder, "graph.bin")
        file.write_bytes(payload[_HEADER:])
        command = [Path(root, _FLATC), *flags, "-o", folder, Path(root, _SCHEMA), "--", file]
        subprocess.run(command, check=True, capture_output=True)
        text = file.with_suffix(".json").read_text(encoding="utf-8")
    # flatc's names of floats that JSON has not.
    text = re.sub(r'(?<=[:\[, ])(-?)"?inf"?(?=[,\s\]}])', r"\1Infinity", text)
    text = re.sub(r'(?<=[:\[, ])-?"?nan"?(?=[,\s\]}])', "NaN", text)
    graph: dict[str, Any] = json.loads(text)
    return graph


class _Graph:
    """A part of a program."""

    def __init__(self, delegate: emulated.Delegate) -> None:
        if delegate.payload[4:8] != b"MLX0":
            raise ValueError(f"the payload begins with {delegate.payload[4:8]!r}, expected b'MLX0'")
        graph = self._graph = _decoded(delegate.payload)
        self._meta = graph.get("tensor_meta", [])
        self._tensors: dict[int, mx.array] = {}
        self._numbers: dict[int, Any] = {}
        constants = graph["num_constant_tensors"]
        for named in graph.get("named_slots", []):
            index = named["slot"]["idx"]
            if _is_tensor(named["slot"]) and index < constants:
                self._tensors[index] = self._constant(index, delegate.named_data(named["name"]))
        for slot in graph.get("mutable_buffer_map", []):
            index = slot["idx"]
            dtype = _TYPES[self._meta[index]["scalar_type"]]
            self._tensors[index] = mx.zeros(self._shape(index), dtype)
        if graph["init_chain_idx"] >= 0:
            self._run(graph["init_chain_idx"])

    def _shape(self, index: int) -> list[int]:
        return [size["value"] for size in self._meta[index]["shape"]]

    def _constant(self, index: int, data: bytes) -> mx.array:
        scalar_type = self._meta[index]["scalar_type"]
        return _to_mlx(np.frombuffer(data, _HELD[scalar_type]), scalar_type).reshape(
            self._shape(index)
        )

    def __call__(self, values: Sequence[Any]) -> list[np.ndarray]:
        inputs, outputs = self._graph.get("input_map", []), self._graph.get("output_map", [])
        for slot, value in zip(inputs, values, strict=False):
            if _is_tensor(slot):
                scalar_type = self._meta[slot["idx"]]["scalar_type"]
                self._tensors[slot["idx"]] = _to_mlx(value, scalar_type)
            else:
                self._numbers[slot["idx"]] = value.item() if hasattr(value, "item") else value
        self._run(self._graph["main_chain_idx"])
        return [_to_numpy(self._as_planned(slot["idx"])) for slot in outputs]

    def _as_planned(self, index: int) -> mx.array:
        """A tensor in the type that the program has for it: upstream's backend converts outputs."""
        return self._tensors[index].astype(_TYPES[self._meta[index]["scalar_type"]])

    def _run(self, chain: int) -> None:
        for instruction in self._graph["instruction_chains"][chain]["instructions"]:
            name = instruction["op_type"]
            if name not in OPERATORS:
                raise NotImplementedError(f"the operator {name} of MLX's payloads is not emulated")
            operands = {k: self._operand(v) for k, v in instruction["op"].items() if k not in _OUT}
            got = OPERATORS[name](operands)
            if "outs" in instruction["op"]:
                for slot, part in zip(instruction["op"]["outs"], got, strict=True):
                    self._tensors[slot["idx"]] = part
            elif "out" in instruction["op"]:
                slots = self._tensors if isinstance(got, mx.array) else self._numbers
                slots[instruction["op"]["out"]["idx"]] = got

    def _operand(self, value: Any) -> Any:
        """An operand's tensor or number; others are as they are."""
        if isinstance(value, list):
            return [self._operand(item) for item in value]
        if not isinstance(value, dict):
            return value
        # A number, or a slot of one or the other.
        if value.get("is_vid") or value.get("kind") == 1:
            return self._numbers[value["vid"]["idx"]]
        if value.get("kind") == 2 or ("tid" in value and "kind" not in value):
            return self._tensors[value["tid"]["idx"]]
        return value["literal"] if "literal" in value else self._tensors[value["idx"]]


_OUT = ("out", "outs")


def _is_tensor(slot: dict[str, Any]) -> bool:
    return slot["slot_type"] in (0, "TensorSlot")


def _to_mlx(value: np.ndarray, scalar_type: int) -> mx.array:
    array = mx.array(np.array(value, order="C"))
    return array.view(mx.bfloat16) if _TYPES[scalar_type] == mx.bfloat16 else array


def _to_numpy(array: mx.array) -> np.ndarray:
    array = mx.contiguous(array)
    return np.array(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array)


def _slices(o: _Operands, x: mx.array) -> tuple[slice, ...]:
    """The index of a part of a tensor along one axis."""
    index = [slice(None)] * x.ndim
    index[o["axis"]] = slice(o["start"], min(o["stop"], x.shape[o["axis"]]), o["step"])
    return tuple(index)


def _slice_update(o: _Operands) -> mx.array:
    changed = mx.array(o["dst"])
    changed[_slices(o, changed)] = o["update"]
    return changed


def _index_copy(o: _Operands) -> mx.array:
    update, axis = o["update"], o["axis"]
    shape = [1] * update.ndim
    shape[axis] = -1
    indices = mx.broadcast_to(o["indices"].reshape(shape), update.shape)
    return mx.put_along_axis(o["dst"], indices, update, axis=axis)


def _scatter_add(o: _Operands) -> mx.array:
    """Adds to elements along an axis, which indices name for each update."""
    axis = o["axis"] % o["x"].ndim
    indices = np.array(o["indices"])
    places = list(np.indices(indices.shape))
    places[axis] = indices % o["x"].shape[axis]
    return mx.array(o["x"]).at[tuple(map(mx.array, places))].add(o["updates"])


def _gather(o: _Operands) -> mx.array:
    """Elements along some axes; the others are whole, and behind those of the indices."""
    x, axes, sizes = o["x"], o["axes"], o["slice_sizes"]
    others = [axis for axis in range(x.ndim) if axis not in axes]
    if any(sizes[axis] != 1 for axis in axes) or any(sizes[a] != x.shape[a] for a in others):
        raise NotImplementedError(f"slices of the sizes {sizes} are not emulated")
    picked = mx.transpose(x, [*axes, *others])[tuple(o["indices"])]
    return picked.reshape(*picked.shape[: picked.ndim - len(others)], *sizes)


def _take(o: _Operands) -> mx.array:
    x, index, axis = o["x"], o["index"], o["axis"]
    # MLX takes a number for the place in memory.
    return mx.take(x, index % x.shape[axis] if isinstance(index, int) else index, axis=axis)


def _split(o: _Operands) -> Sequence[mx.array]:
    """Parts of the sizes; one size is that of each, and the last part may be smaller."""
    x, sizes, axis = o["x"], o["sizes"], o["axis"]
    if len(sizes) == 1:
        ends = list(range(sizes[0], x.shape[axis], sizes[0]))
    else:
        ends = list(accumulate(sizes))[:-1]
    return mx.split(x, ends, axis=axis)


def _flip(o: _Operands) -> mx.array:
    x = o["x"]
    axes = {axis % x.ndim for axis in o["axes"]}
    return x[tuple(slice(None, None, -1 if n in axes else 1) for n in range(x.ndim))]


def _filled(shape: Sequence[int], value: float, dtype: Any) -> mx.array:
    # From Python, `full` gives floats for a float, whatever the type.
    is_whole = mx.issubdtype(dtype, mx.integer)
    return mx.full(shape, mx.array(int(value) if is_whole else value, dtype))


def _addmm(o: _Operands) -> mx.array:
    product = o["mat1"] @ o["mat2"]
    product = product if o["alpha"] == 1 else o["alpha"] * product
    bias = o.get("bias")
    if bias is None:
        return product
    return product + (bias if o["beta"] == 1 else o["beta"] * bias)


def _gelu(o: _Operands) -> mx.array:
    x = o["x"]
    if o["approximate"] == "tanh":
        return 0.5 * x * (1 + mx.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + mx.erf(x / 2**0.5))


def _clip(o: _Operands) -> mx.array:
    return mx.clip(o["x"], o.get("a_min"), o.get("a_max"))


def _sdpa(o: _Operands) -> mx.array:
    mask = "causal" if o["causal"] else o.get("mask")
    return mx.fast.scaled_dot_product_attention(o["q"], o["k"], o["v"], scale=o["scale"], mask=mask)


def _rope(o: _Operands) -> mx.array:
    freqs = o.get("freqs")
    return mx.fast.rope(
        o["x"],
        o["dims"],
        traditional=o["traditional"],
        base=None if freqs is not None else o["base"],
        scale=o["scale"],
        offset=o["offset"],
        freqs=freqs,
    )


def _quantized(function: Callable[..., mx.array], *operands: str) -> Callable[..., mx.array]:
    def call(o: _Operands) -> mx.array:
        how = {"group_size": o["group_size"], "bits": o["bits"], "mode": o["mode"]}
        if "transpose" in o:
            how["transpose"] = o["transpose"]
        return function(*(o[name] for name in operands), o.get("biases"), **how)

    return call


def _convolution(function: Callable[..., mx.array], axes: str) -> Callable[..., mx.array]:
    """A convolution; axes: "hw" or, with one, ""."""

    def call(o: _Operands) -> mx.array:
        names = ["stride", "padding", "dilation", "output_padding"]
        given = [name for name in names if any(key.startswith(name) for key in o)]
        settings = {n: tuple(o[f"{n}_{a}"] for a in axes) if axes else o[n] for n in given}
        return function(o["x"], o["w"], groups=o["groups"], **settings)

    return call


def _broadcast(o: _Operands) -> mx.array:
    x, shape = o["x"], o["shape"]
    own = [1] * (len(shape) - x.ndim) + list(x.shape)
    return mx.broadcast_to(x, [k if n == -1 else n for n, k in zip(shape, own, strict=True)])


def _pad(o: _Operands) -> mx.array:
    widths = list(zip(o["pad_width"][::2], o["pad_width"][1::2], strict=True))
    return mx.pad(o["x"], widths, mode=o["mode"], constant_values=o["constant_value"])


def _cast(o: _Operands, made: mx.array) -> mx.array:
    return made.astype(_TYPES[o["scalar_type"]]) if o.get("scalar_type") is not None else made


def _unary(function: Callable[[mx.array], mx.array]) -> Callable[[_Operands], mx.array]:
    return lambda o: function(o["x"])


def _binary(function: Callable[..., Any]) -> Callable[[_Operands], Any]:
    return lambda o: function(o["a"], o["b"])


def _reduction(function: Callable[..., mx.array]) -> Callable[[_Operands], mx.array]:
    def call(o: _Operands) -> mx.array:
        more = {"ddof": o["ddof"]} if "ddof" in o else {}
        axes = tuple(o["axes"]) if o.get("axes") else None
        return function(o["x"], axis=axes, keepdims=o["keepdims"], **more)

    return call


# Operators whose names are those of MLX's functions, in the schema's spelling.
_UNARY = (
    *("Abs", "Arccos", "Arccosh", "Arcsin", "Arcsinh", "Arctan", "Arctanh", "Ceil", "Contiguous"),
    *("Cos", "Cosh", "Erf", "Exp", "Expm1", "Floor", "Log", "Log10", "Log1p", "Log2", "LogicalNot"),
    *("Reciprocal", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Square", "Tan", "Tanh"),
)
_BINARY = (
    *("Add", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Divide", "Equal", "FloorDivide", "Greater"),
    *("GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalOr", "Maximum", "Minimum"),
    *("Multiply", "NotEqual", "Power", "Remainder", "Subtract"),
)
_REDUCTIONS = ("All", "Any", "LogSumExp", "Max", "Mean", "Min", "Prod", "Std", "Sum", "Var")


def _function(name: str) -> Callable[..., Any]:
    """MLX's function for "LogicalAnd", which is `logical_and`."""
    known = {"LogSumExp": "logsumexp"}
    function: Callable[..., Any] = getattr(
        mx, known.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    )
    return function


OPERATORS: dict[str, Callable[[_Operands], Any]] = {
    **{f"{name}Node": _unary(_function(name)) for name in _UNARY},
    **{f"{name}Node": _binary(_function(name)) for name in _BINARY},
    **{f"{name}Node": _reduction(_function(name)) for name in _REDUCTIONS},
    "ARangeNode": lambda o: _cast(o, mx.arange(o["start"], o["stop"], o["step"])),
    "AddIntNode": _binary(lambda a, b: a + b),
    "AddmmNode": _addmm,
    "ArgPartitionNode": lambda o: mx.argpartition(o["x"], o["kth"], axis=o["axis"]),
    "ArgmaxNode": lambda o: mx.argmax(o["x"], axis=o["axis"], keepdims=o["keepdims"]),
    "ArgminNode": lambda o: mx.argmin(o["x"], axis=o["axis"], keepdims=o["keepdims"]),
    "ArgsortNode": lambda o: mx.argsort(o["x"], axis=o["axis"]),
    "AsStridedNode": lambda o: mx.as_strided(o["x"], o["shape"], o["strides"], o["offset"]),
    "AsTypeNode": lambda o: _cast(o, o["x"]),
    "Atan2Node": _binary(mx.arctan2),
    "BitwiseInvertNode": _unary(mx.bitwise_invert),
    "BroadcastToNode": _broadcast,
    "ClipNode": _clip,
    "ConcatenateNode": lambda o: mx.concatenate(o["tensors"], axis=o["axis"]),
    "Conv1DNode": _convolution(mx.conv1d, ""),
    "Conv2DNode": _convolution(mx.conv2d, "hw"),
    "Conv3DNode": _convolution(mx.conv3d, "dhw"),
    "ConvTranspose1DNode": _convolution(mx.conv_transpose1d, ""),
    "ConvTranspose2DNode": _convolution(mx.conv_transpose2d, "hw"),
    "ConvTranspose3DNode": _convolution(mx.conv_transpose3d, "dhw"),
    "CumsumNode": lambda o: mx.cumsum(
        o["x"], axis=o["axis"], reverse=o["reverse"], inclusive=o["inclusive"]
    ),
    "DequantizeNode": _quantized(mx.dequantize, "w", "scales"),
    "ExpandDimsNode": lambda o: mx.expand_dims(o["x"], o["axis"]),
    "FlipNode": _flip,
    "FloorDivideIntNode": _binary(lambda a, b: a // b),
    "FullLikeNode": lambda o: _cast(o, _filled(o["x"].shape, o["v"], o["x"].dtype)),
    "FullNode": lambda o: _filled(o["shape"], o["v"], _TYPES[o["scalar_type"]]),
    "GatherNode": _gather,
    "GeluNode": _gelu,
    "IdCopyNode": _unary(lambda x: x),
    "IndexCopyNode": _index_copy,
    "ItemIntNode": lambda o: int(o["x"].item()),
    "LayerNormNode": lambda o: mx.fast.layer_norm(o["x"], o.get("weight"), o.get("bias"), o["eps"]),
    "LogAddExpNode": _binary(mx.logaddexp),
    "ModIntNode": _binary(lambda a, b: a % b),
    "MultiplyIntNode": _binary(lambda a, b: a * b),
    "NegNode": _unary(mx.negative),
    "NoopNode": lambda o: None,
    "PadNode": _pad,
    "PartitionNode": lambda o: mx.partition(o["x"], o["kth"], axis=o["axis"]),
    "QuantizedMatmulNode": _quantized(mx.quantized_matmul, "x", "w", "scales"),
    "RMSNormNode": lambda o: mx.fast.rms_norm(o["x"], o.get("weight"), o["eps"]),
    "RepeatNode": lambda o: mx.repeat(o["x"], o["repeats"], axis=o["axis"]),
    "ReshapeNode": lambda o: mx.reshape(o["x"], o["shape"]),
    "RollNode": lambda o: mx.roll(o["x"], o["shift"], o.get("axes")),
    "RopeNode": _rope,
    "RoundNode": lambda o: mx.round(o["x"], o["decimals"]),
    "ScatterAddNode": _scatter_add,
    "SdpaNode": _sdpa,
    "SiluNode": _unary(lambda x: x * mx.sigmoid(x)),
    "SliceNode": lambda o: o["x"][_slices(o, o["x"])],
    "SliceUpdateNode": _slice_update,
    "SoftmaxNode": lambda o: mx.softmax(o["x"], axis=o["axis"], precise=o["precise"]),
    "SortNode": lambda o: mx.sort(o["x"], axis=o["axis"]),
    "SplitNode": _split,
    "SqueezeNode": lambda o: mx.squeeze(o["x"], tuple(o["dims"]) if o.get("dims") else None),
    "StackNode": lambda o: mx.stack(o["tensors"], axis=o["axis"]),
    "SubtractIntNode": _binary(lambda a, b: a - b),
    "SymSizeNode": lambda o: o["a"].shape[o["dim"]],
    "TakeAlongAxisNode": lambda o: mx.take_along_axis(o["x"], o["indices"], axis=o["axis"]),
    "TakeNode": _take,
    "TileNode": lambda o: mx.tile(o["x"], o["reps"]),
    "TransposeNode": lambda o: mx.transpose(o["x"], o["perm"]),
    "TriNode": lambda o: mx.tri(o["n"], o["m"], o["k"], _TYPES[o["scalar_type"]]),
    "TrilNode": lambda o: mx.tril(o["x"], o["k"]),
    "TriuNode": lambda o: mx.triu(o["x"], o["k"]),
    "TruncNode": _unary(lambda x: mx.sign(x) * mx.floor(mx.abs(x))),
    "WhereNode": lambda o: mx.where(o["condition"], o["x"], o["y"]),
}
