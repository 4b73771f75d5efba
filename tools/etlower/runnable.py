"""Refuses calls that no kernel of the runtime takes: the first call would fail.

ExecuTorch's portable kernels take less than torch's operators: their checks fail with error 0x12
when a program runs, and name no line of the model. So the final graph is checked before it is
written: `_CHECKS` has a condition per operator. Delegates' operators are not asked; partitioners
have done that.

Kernels also want their tensors in the order of rows, or all of them with the channels last. torch
gives some results another order though all inputs are in that of rows (`nonzero`), and the kernels
write rows whatever it is. Where dimensions have one element only, as the channels of a gray
picture, several orders name the same memory; kernels and delegates compare names. `Rows` says in
the graph which it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from etbuild import BuildError
from executorch.exir import memory
from executorch.exir.tensor import TensorSpec, stride_from_dim_order
from torch.export.graph_signature import OutputKind
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from etlower import operators

_LAST = (0, 2, 3, 1)
_CHANNELS_LAST = {_LAST, (0, 2, 3, 4, 1)}
# Their kernels compare the orders of their tensors, and no library has other kernels of them.
_STRICT = frozenset(
    {
        *("alias_copy", "amax", "amin", "argmax", "argmin", "avg_pool2d", "clone", "cumsum"),
        *("constant_pad_nd", "detach_copy", "diagonal_copy", "expand_copy", "flip", "glu"),
        *("index", "index_select", "masked_fill", "mean", "permute_copy", "pixel_shuffle"),
        *("repeat", "roll", "scatter_add", "select_copy", "select_scatter", "slice_copy"),
        *("slice_scatter", "split_copy", "split_with_sizes_copy", "squeeze_copy", "stack"),
        *("t_copy", "transpose_copy", "tril", "unbind_copy", "view_copy"),
    }
)


class Rows(PassBase):
    """Gives results the order of rows where all inputs have it, as the kernels write them.

    So it does with tensors that lie in the order of rows as well as in the one that torch gave
    them. `layouts` has seen to it that no kernel has such a one beside another order.

    Args:
      then: upstream's pass that makes a kernel's call of each node. Before it nodes have their
        specifications, and these are not made again.
    """

    def __init__(self, then: Any) -> None:
        super().__init__()
        self._then = then

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes the graph, and the branches and loops in it."""
        for node in graph_module.graph.find_nodes(op="placeholder"):
            _settle(node)
        for _, node in operators.walk(graph_module):
            _settle(node)
            name = operators.name(node)
            if name and "dim_order" not in name:
                sources = [spec for source in node.all_input_nodes for spec in _specs(source)]
                if not any(_is_odd(spec.dim_order) for spec in sources):
                    for spec in _specs(node):
                        _make_rows(spec)
        return self._then(graph_module)


def _specs(node: Node) -> list[Any]:
    found = node.meta.get("spec")
    parts = found if isinstance(found, tuple | list) else [found]
    return [spec for spec in parts if isinstance(spec, TensorSpec)]


def _make_rows(spec: Any) -> None:
    if _is_odd(spec.dim_order):
        _set_order(spec, tuple(range(len(spec.shape))))


def _set_order(spec: Any, order: tuple[int, ...]) -> None:
    spec.stride = tuple(stride_from_dim_order(list(spec.shape), list(order)))
    spec.dim_order = order


def _settle(node: Node) -> None:
    """Makes rows of a node's tensors that lie in rows as well as in the order that they have."""
    for spec in _specs(node):
        rows = tuple(range(len(spec.shape)))
        if tuple(spec.dim_order) != rows and _lies_in(spec, rows):
            _set_order(spec, rows)
            if node.kwargs.get("dim_order") is not None:
                node.update_kwarg("dim_order", list(rows))


def _lies_in(spec: Any, order: tuple[int, ...]) -> bool:
    """Tells whether an order of dimensions differs from a tensor's in those of one element only."""
    counted = [dim for dim, size in enumerate(spec.shape) if not _is_one(size)]
    own = [int(dim) for dim in spec.dim_order if int(dim) in counted]
    return len(order) == len(spec.shape) and own == [dim for dim in order if dim in counted]


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _is_odd(dim_order: Any) -> bool:
    order = tuple(int(dim) for dim in dim_order)
    return order != tuple(range(len(order))) and order not in _CHANNELS_LAST


def check(manager: Any, label: str) -> None:
    """Fails for a call that no kernel takes.

    Args:
      manager: upstream's ExecutorchProgramManager.
      label: of the model.

    Raises:
      BuildError: with the operator, the line of the model, and what to do instead.
    """
    _check_types(manager, label)
    for method in sorted(manager.methods):
        for _, node in operators.walk(manager.exported_program(method).graph_module):
            name = _name(node)
            found = _CHECKS.get(name, _nothing)(node) or (name in _STRICT and _orders(node))
            if not found:
                continue
            wrong, instead = found
            raise BuildError(
                f'{label}: the method "{method}" calls {name}{operators.place_of(node)}, and '
                f"no kernel of ExecuTorch takes it: {wrong}.",
                instead,
            )


def check_outputs(
    manager: Any, programs: Mapping[str, torch.export.ExportedProgram], label: str
) -> None:
    """Fails where passes gave an output another type, unless it was quantized.

    Args:
      manager: upstream's ExecutorchProgramManager.
      programs: by method, as they were exported.
      label: of the model.

    Raises:
      BuildError: with the output, and both types.
    """
    for method, program in sorted(programs.items()):
        before, after = _output_types(program), _output_types(manager.exported_program(method))
        for number, (expected, got) in enumerate(zip(before, after, strict=False)):
            if expected is None or got is None:
                continue
            # Recipes may quantize an output on purpose.
            is_quantized = expected.is_floating_point and not got.is_floating_point
            if expected != got and not is_quantized:
                raise BuildError(
                    f'{label}: the method "{method}", output {number}: passes of the lowering '
                    f"made it {str(got).removeprefix('torch.')}, expected "
                    f"{str(expected).removeprefix('torch.')} as in the model.",
                    "Convert it in the model (x.to(dtype)), compute it outside of the model, or "
                    "use another recipe.",
                )


def _output_types(program: torch.export.ExportedProgram) -> list[Any]:
    """Returns the types of what a method returns; None: of what is no tensor."""
    [output] = program.graph.find_nodes(op="output")
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    count = kinds.count(OutputKind.USER_OUTPUT)
    # They come last; of the buffers before them, those that are written to in place are no outputs.
    last = output.args[0][len(output.args[0]) - count :]
    values = [node.meta.get("val") if isinstance(node, Node) else None for node in last]
    return [value.dtype if isinstance(value, torch.Tensor) else None for value in values]


def _name(node: Node) -> str:
    if node.target is memory.view:
        return "view"
    return ".".join(operators.name(node).split(".")[:2]).removeprefix("aten.")


def _nothing(node: Node) -> tuple[str, str] | None:
    return None


def _doubles(node: Node) -> tuple[str, str] | None:
    if operators.values(node)[0].dtype != torch.float64:
        return None
    return (
        "got 64-bit floats, and it fails with them or computes in 32 bits",
        "Give it x.float(), and convert the result.",
    )


def _bytes(node: Node) -> tuple[str, str] | None:
    if operators.values(node)[0].dtype != torch.uint8:
        return None
    return (
        "got bytes, and it fails with them, or rounds otherwise than eager",
        "Give it x.float(), and convert the result: .round().clamp(0, 255).to(torch.uint8).",
    )


def _doubles_and_bytes(node: Node) -> tuple[str, str] | None:
    return _doubles(node) or _bytes(node)


def _padding(node: Node) -> tuple[str, str] | None:
    amounts = [amount for amount in node.args[1] if isinstance(amount, int)]
    if min(amounts, default=0) >= 0:
        return _empty(node)
    return (
        f"got the padding {list(amounts)}, expected no negative numbers",
        "Slice the tensor instead of padding it with a negative number: x[..., 1:].",
    )


def _masked_select(node: Node) -> tuple[str, str] | None:
    x, mask = (list(tensor.shape) for tensor in operators.values(node.args))
    if x == mask:
        return None
    return (
        f"got shapes {x} and {mask}, and its result has room for the elements of the first only",
        "Broadcast them before: torch.masked_select(*torch.broadcast_tensors(x, mask)).",
    )


def _scales_of_channels(node: Node) -> tuple[str, str] | None:
    x, scales = operators.values(node.args[0])[0], operators.values(node.args[1])[0]
    channels, count = x.shape[node.args[3]], scales.numel()
    if count == channels:
        return None
    return (
        f"got the number of scales {count} for channels of the number {channels}, and the process "
        "would end",
        "Leave its layer in floats: another recipe for it in overrides of et_recipe.",
    )


def _put_types(node: Node) -> tuple[str, str] | None:
    x, values = operators.values(node.args[0])[0], operators.values(node.args[2])[0]
    if x.dtype == values.dtype:
        return None
    names = [str(tensor.dtype).removeprefix("torch.") for tensor in (x, values)]
    return (
        f"got a tensor of type {names[0]} and values of type {names[1]}, expected one type",
        "Convert the values: values.to(x.dtype).",
    )


def _bounds(node: Node) -> tuple[str, str] | None:
    dtype = operators.values(node)[0].dtype
    bounds = [value for value in node.args[1:] if _is_number(value)]
    if not dtype.is_floating_point:
        return None
    wide = [bound for bound in bounds if torch.finfo(dtype).max < abs(bound) < math.inf]
    if not wide:
        return None
    return (
        f"got the bound {wide[0]}, which {str(dtype).removeprefix('torch.')} does not hold",
        "Leave the bound out, which changes nothing, or convert the tensor first: x.float().",
    )


def _sizes_that_vary(node: Node) -> tuple[str, str] | None:
    sizes = list(operators.values(node)[0].shape)
    if all(isinstance(size, int) for size in sizes):
        return None
    return (
        f"its result has the shape {[*map(str, sizes)]}, and its kernel takes no size that varies",
        "Fix the sizes in dynamic_shapes, or leave out antialias.",
    )


def _antialiased(node: Node) -> tuple[str, str] | None:
    return _sizes_that_vary(node) or _doubles_and_bytes(node)


def _whole_bounds(node: Node) -> tuple[str, str] | None:
    dtype = operators.values(node)[0].dtype
    if dtype.is_floating_point:
        return None
    bounds = [
        float(bound) for bound in (*node.args[1:], *node.kwargs.values()) if _is_number(bound)
    ]
    limits = torch.iinfo(dtype)
    wrong = [n for n in bounds if not n.is_integer() or not limits.min <= n <= limits.max]
    if not wrong:
        return None
    return (
        f"got whole numbers, and the bound {wrong[0]}",
        "Write it with torch.clamp, and bounds that are whole numbers.",
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _power(node: Node) -> tuple[str, str] | None:
    types = {tensor.dtype for tensor in operators.values(node.args)}
    numbers = {type(value) for value in node.args if not isinstance(value, Node)}
    if types != {torch.bool} or numbers - {bool}:
        return None
    return "got booleans", "Write it with torch.logical_or and torch.logical_not."


def _empty(node: Node) -> tuple[str, str] | None:
    given = [*operators.inputs(node), *operators.values(node)]
    empty = next((list(tensor.shape) for tensor in given if 0 in tensor.shape), None)
    if empty is None:
        return None
    return (
        f"got the shape {empty}, with which its kernel ends the process or computes garbage",
        "Leave empty tensors out of the model: decide in Python whether there is anything to do.",
    )


def _two_sided(node: Node) -> tuple[str, str] | None:
    if node.args[-1]:
        return None
    return (
        "got onesided=False, and it computes the frequencies from 0 on only",
        "Use torch.fft.rfft, whose result has all that is in a transform of real numbers.",
    )


def _norm_types(node: Node) -> tuple[str, str] | None:
    types = sorted({str(v.dtype).removeprefix("torch.") for v in operators.inputs(node)})
    if len(types) < 2:
        return _doubles(node)
    return (
        f"got tensors of the types {', '.join(types)}, expected one type",
        "Convert them before: x.to(weight.dtype).",
    )


def _joined_types(node: Node) -> tuple[str, str] | None:
    types = sorted({str(v.dtype).removeprefix("torch.") for v in operators.inputs(node)})
    if len(types) < 2:
        return None
    return (
        f"got tensors of the types {', '.join(types)}, and it reads all as it reads the first one",
        "Convert them before: x.to(dtype).",
    )


def _empty_product(node: Node) -> tuple[str, str] | None:
    """A product with no rows or columns is empty; one over a dimension of 0 would be zeros."""
    return _empty(node) if 0 not in operators.values(node)[0].shape else None


def _check_types(manager: Any, label: str) -> None:
    """Fails for inputs and outputs that the interface cannot hand over."""
    for method in sorted(manager.methods):
        graph = manager.exported_program(method).graph_module.graph
        ends = {
            "input": graph.find_nodes(op="placeholder"),
            "output": graph.find_nodes(op="output"),
        }
        for kind, nodes in ends.items():
            for node in nodes:
                given = operators.values(node) if kind == "input" else operators.inputs(node)
                if any(tensor.dtype.is_complex for tensor in given):
                    raise BuildError(
                        f'{label}: the method "{method}" has an {kind} of complex numbers: '
                        "ExecuTorch's interface has none.",
                        "Use torch.view_as_real and torch.view_as_complex in the model, so that "
                        "the app sees pairs of real numbers.",
                    )


def _orders(node: Node) -> tuple[str, str] | None:
    specs = [spec for n in (*node.all_input_nodes, node) for spec in _specs(n)]
    odd = next((spec for spec in specs if _is_odd(spec.dim_order)), None)
    if odd is None:
        return None
    order = [int(dim) for dim in odd.dim_order]
    return (
        f"got a tensor of shape {list(odd.shape)} whose dimensions lie in memory as {order}, "
        f"expected {sorted(order)}",
        "Add .contiguous() before the call, or give the method contiguous example inputs.",
    )


_CHECKS: Mapping[str, Callable[[Node], tuple[str, str] | None]] = {
    **dict.fromkeys(("amax", "amin", "avg_pool2d", "narrow_copy"), _empty),
    **dict.fromkeys(("addmm", "bmm", "mm"), _empty_product),
    **dict.fromkeys(("_adaptive_avg_pool2d", "upsample_bilinear2d"), _doubles_and_bytes),
    "_upsample_bilinear2d_aa": _antialiased,
    "_fft_r2c": _two_sided,
    **dict.fromkeys(("_log_softmax", "grid_sampler_2d"), _doubles),
    **dict.fromkeys(
        ("_native_batch_norm_legit", "native_group_norm", "native_layer_norm"), _norm_types
    ),
    **dict.fromkeys(
        (f"_native_batch_norm_legit{kind}" for kind in ("_no_training", ".no_stats")), _norm_types
    ),
    "cat": _joined_types,
    "clamp": _bounds,
    "constant_pad_nd": _padding,
    "hardtanh": _whole_bounds,
    "index_put": _put_types,
    "masked_select": _masked_select,
    "pow": _power,
    **dict.fromkeys(
        (f"quantized_decomposed.{kind}_per_channel" for kind in ("dequantize", "quantize")),
        _scales_of_channels,
    ),
}
