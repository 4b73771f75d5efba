"""Operator, arguments and module of a node of a graph."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

_SIZES = (int, torch.SymInt, torch.SymFloat, torch.SymBool)

# Operators whose results hold the elements of several inputs,
_JOINING = frozenset(
    (
        *("cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "pad", "row_stack"),
        *("stack", "vstack"),
    )
)
# of one,
MOVING_ONE = frozenset(
    (
        *("adjoint", "alias", "broadcast_to", "channel_shuffle", "chunk", "clone", "contiguous"),
        *("detach", "diagonal", "dsplit", "expand", "expand_as", "flatten", "flip", "fliplr"),
        *("flipud", "gather", "hsplit", "index", "index_select", "lift_fresh", "lift_fresh_copy"),
        *("mH", "mT", "matrix_H", "moveaxis", "movedim", "narrow", "numpy_T", "permute"),
        *("pixel_shuffle", "pixel_unshuffle", "ravel", "repeat", "repeat_interleave", "reshape"),
        *("reshape_as", "roll", "rot90", "select", "slice", "split", "split_with_sizes"),
        *("squeeze", "swapaxes", "swapdims", "t", "take", "take_along_dim", "tensor_split"),
        *("tile", "transpose", "tril", "triu", "unbind", "unflatten", "unfold", "unsafe_chunk"),
        *("unsafe_split", "unsqueeze", "view", "view_as", "vsplit"),
    )
)
# and of either.
MOVING = MOVING_ONE | _JOINING


def name(node: Node) -> str:
    """Name of the operator that a node calls: "aten.add.Tensor"; empty: it calls none.

    Picking one of several results, arithmetic on sizes, delegates and control flow are none.
    """
    target = node.target
    if isinstance(node.meta.get("val"), _SIZES):
        return ""
    # An edge operator wraps one of ATen's; ATen's own have another attribute of that name.
    overload = target if isinstance(target, OpOverload) else getattr(target, "_op", None)
    return str(overload) if node.op == "call_function" and isinstance(overload, OpOverload) else ""


def packet(node: Node) -> str:
    """Name of an operator without its namespace and its overload: "add"; empty: it calls none."""
    return name(node).partition(".")[2].partition(".")[0]


def stored(program: ExportedProgram) -> dict[str, str]:
    """Maps names of placeholders to names of the values that a program stores, but for state."""
    signature = program.graph_signature
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    state = set(signature.buffers_to_mutate.values())
    return {name: target for name, target in targets.items() if target not in state}


def adds_by_place(node: Node) -> bool:
    """Tells whether a call adds values where indices say, several at one place."""
    if packet(node) not in ("index_put", "index_put_"):
        return False
    return bool(node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate"))


def number_of(program: ExportedProgram, value: Any) -> float | None:
    """The number that an argument is, or the placeholder of a constant with one element.

    Args:
      program: whose constants are looked up.
      value: a node or an argument.

    Returns:
      The number; NaN: it isn't known, as partitioners get programs without constants' values; None:
      it is an input, a result, or state.
    """
    if not isinstance(value, Node):
        return value if isinstance(value, int | float) else None
    key = stored(program).get(value.name) if value.op == "placeholder" else None
    if key is None:
        return None
    tensor = program.constants.get(key, program.state_dict.get(key))
    if tensor is None or tensor.numel() != 1:
        return None
    tensor = tensor.constant if isinstance(tensor, FakeTensor) else tensor
    # Where a graph is traced, it would be a number that follows from values.
    with torch.utils._python_dispatch._disable_current_modes():
        return math.nan if tensor is None else float(tensor.item())


def following(nodes: Iterable[Node], constants: Collection[str]) -> set[Node]:
    """Finds what follows from constants alone.

    Args:
      nodes: of a graph, in order.
      constants: names of placeholders.

    Returns:
      The placeholders among them, and calls.
    """
    found: set[Node] = set()
    for node in nodes:
        given = node.all_input_nodes
        if node.name in constants or (node.op == "call_function" and found.issuperset(given)):
            found.add(node)
    return found


def values(value: Any) -> list[torch.Tensor]:
    """The tensors among a node's arguments or results; unset ones are left out."""
    if isinstance(value, Node):
        value = value.meta.get("val")
    if isinstance(value, tuple | list):
        return [tensor for part in value for tensor in values(part)]
    return [value] if isinstance(value, torch.Tensor) else []


def inputs(node: Node) -> list[torch.Tensor]:
    """The tensors that a node is called with."""
    return values([*node.args, *node.kwargs.values()])


def gives_floats(node: Node) -> bool:
    """Tells whether floats are among the results of a node."""
    return any(value.is_floating_point() for value in values(node))


def is_whole(tensor: torch.Tensor) -> bool:
    """Tells whether a tensor holds whole numbers: neither floats nor booleans."""
    return not tensor.dtype.is_floating_point and tensor.dtype != torch.bool


def has_other_factors(node: Node) -> bool:
    """Tells whether a resizing has a factor that is not the ratio of its sizes."""
    given = [
        v for each in node.args[1:] for v in (each if isinstance(each, list | tuple) else (each,))
    ]
    factors = [value for value in given if isinstance(value, float)]
    [before], [after] = values(node.args[0]), values(node)
    sizes = zip(before.shape[2:], after.shape[2:], factors, strict=False)
    return any(m * factor != n for m, n, factor in sizes)


def rounds_down(node: Node) -> bool:
    """Tells whether a quotient is rounded down.

    Eager and ExecuTorch's kernels look at the rest, delegates at the quotient, which may have been
    rounded to a whole number: `3.0 // 0.1` is 29 or 30.
    """
    return packet(node) == "floor_divide" or node.kwargs.get("rounding_mode") == "floor"


def is_empty(node: Node) -> bool:
    """Tells whether a tensor that a node reads or gives has no elements, whatever its sizes are."""
    tensors = [*inputs(node), *values(node)]
    return any(isinstance(n, int) and n == 0 for tensor in tensors for n in tensor.shape)


def read_results(node: Node) -> set[int]:
    """Numbers, from 0, of an operator's several results that something reads.

    Example:

        reads_places = 1 in operators.read_results(node)  # Of `max.dim`: maxima and places.
    """
    return {user.args[1] for user in node.users if user.target is operator.getitem and user.users}


def walk(module: GraphModule) -> Iterator[tuple[GraphModule, Node]]:
    """All calls of a graph and of the branches and loops in it, with the graph that each is in."""
    for node in module.graph.nodes:
        if node.op == "call_function":
            yield module, node
            for argument in node.all_input_nodes:
                inner = getattr(module, str(argument.target), None)
                if argument.op == "get_attr" and isinstance(inner, GraphModule):
                    yield from walk(inner)


def module_of(node: Node) -> str:
    """Qualified name of the module that called a node; empty: the model itself.

    torch keeps the calls from the outermost to the innermost module; a name can have the form of an
    attribute of "self", as strict export writes it: L['self'].layers[0].
    """
    stack = node.meta.get("nn_module_stack") or {}
    path = next(reversed(stack.values()))[0] if stack else ""
    return dotted(str(path))


def dotted(path: str) -> str:
    """A module's name without the forms of strict export: "layers.0"."""
    for mark in ("L['self']", "L__self__"):
        path = path.removeprefix(mark)
    for mark in ("._modules['", "['", "["):
        path = path.replace(mark, ".")
    return path.replace("']", "").replace("]", "").lstrip(".")


def line_of(node: Node) -> str:
    """The line of the model's code that called a node: "net.py:12"; empty: unknown."""
    return line_in(node.meta.get("stack_trace") or "")


def line_in(trace: str) -> str:
    """The line of the model's code in a trace of Python's; empty: it has none.

    Code of a package counts where the model has none of its own, as `package/net.py:12`; torch's
    never does, as it is the same for every model.
    """
    frames = re.findall(r'File "([^"]+)", line (\d+)', trace)
    own = [(file, line) for file, line in frames if "site-packages" not in file]
    packages = [(file.rpartition("site-packages/")[2], line) for file, line in frames]
    others = [(file, line) for file, line in packages if not file.startswith("torch/")]
    if not (own or others):
        return ""
    file, line = (own or others)[-1]
    return f"{file}:{line}"


def at_line(node: Node) -> str:
    """The same for the middle of a sentence: ", net.py:12"."""
    line = line_of(node)
    return f", {line}" if line else ""


def layer_of(node: Node) -> str:
    """Module and line without its folder: " of layers.0 (net.py:12)"; empty: neither is known."""
    module, line = module_of(node), os.path.basename(line_of(node))
    return f"{f' of {module}' if module else ''}{f' ({line})' if line else ''}"


def place_of(node: Node) -> str:
    """Module and line in brackets: " (module layers.0, net.py:12)"; empty: neither is known."""
    module, line = module_of(node), line_of(node)
    where = ", ".join([*([f"module {module}"] * bool(module)), *([line] * bool(line))])
    return f" ({where})" if where else ""


def inputs_of(node: Node) -> str:
    """Types and shapes of a node's tensors: "float32 [2, 4], int64 []"."""
    tensors = (
        f"{str(tensor.dtype).removeprefix('torch.')} {[*map(str, tensor.shape)]}"
        for tensor in inputs(node)
    )
    return ", ".join(tensors).replace("'", "") or "no tensors"
