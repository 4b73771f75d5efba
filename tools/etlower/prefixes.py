"""The first rows of a buffer, which a program reads where they lie.

A slice of a KV cache is a copy of it in a program. `prefix` is a slice whose number of rows may
follow from the model's inputs; of a buffer that the method writes to, a program has it without a
copy. ExecuTorch has no operator for such a view, but one that sets the sizes of a tensor and
touches none of its elements, `empty`: the tensor gets the buffer's own memory.

Of anything else a prefix is a slice. Delegates that need fixed sizes get all rows.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.dialects._ops import ops
from executorch.exir.tensor import TensorSpec
from executorch.export import ExportRecipe
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from etlower import operators
from etlower.partitioners import partitioners_of_recipe

_OPERATOR = "etlower.prefix.default"
_BASE, _OFFSET = "etlower_prefix_of", "etlower_prefix_offset"


_sizes_may_follow = contextvars.ContextVar("sizes may follow from values", default=True)


def length(rows: torch.Tensor, most: int) -> Any:
    """A number of rows for `prefix`.

    Args:
      rows: the number, (1,), an integer.
      most: rows of the buffer.

    Returns:
      The number, between 1 and `most`; `most`, while a program is made by delegates that need fixed
      sizes.
    """
    if not _sizes_may_follow.get():
        return most
    number = rows.clamp(1, most).item()
    # Partitioners ask for both bounds.
    torch._check(number >= 1)
    torch._check(number <= most)
    return number


def prefix(buffer: torch.Tensor, rows: Any, part: int | None = None) -> torch.Tensor:
    """The first rows of a tensor, or of a part of it.

    Args:
      buffer: (n, …), or with parts (parts, n, …).
      rows: how many, from `length`.
      part: number of the part.

    Returns:
      (rows, …), or (1, rows, …).

    Example:

        self.cache.index_copy_(0, positions, values)
        seen = prefix(self.cache, length(positions[-1:] + 1, self.cache.shape[0]))
    """
    if not isinstance(rows, int) or rows != buffer.shape[_rows_dim(part)]:
        return _prefix(buffer, rows, part)
    return buffer if part is None else buffer[part : part + 1]


def _rows_dim(part: int | None) -> int:
    return 0 if part is None else 1


def _shape(buffer: torch.Tensor, rows: Any, part: int | None) -> list[Any]:
    dim = _rows_dim(part)
    return [1] * dim + [rows, *buffer.shape[dim + 1 :]]


@torch.library.custom_op("etlower::prefix", mutates_args=())
def _prefix(buffer: torch.Tensor, rows: int, part: int | None = None) -> torch.Tensor:
    return (buffer[:rows] if part is None else buffer[part : part + 1, :rows]).clone()


@_prefix.register_fake
def _(buffer: torch.Tensor, rows: int, part: int | None = None) -> torch.Tensor:
    return buffer.new_empty(_shape(buffer, rows, part))


@contextlib.contextmanager
def as_taken(recipe: ExportRecipe) -> Iterator[None]:
    """While a model is exported for a recipe: whether sizes may follow from values.

    They may with partitioners that say so (`takes_bounded_sizes`), and without any.
    """
    chosen = partitioners_of_recipe(recipe)
    taken = all(getattr(each, "takes_bounded_sizes", False) for each in chosen)
    token = _sizes_may_follow.set(taken)
    try:
        yield
    finally:
        _sizes_may_follow.reset(token)


def in_place(
    config: ExecutorchBackendConfig, programs: Mapping[str, ExportedProgram]
) -> ExecutorchBackendConfig:
    """Lets a program read prefixes of buffers where they lie.

    Args:
      config: what the program would be emitted with.
      programs: by method, in the edge dialect; their graphs change.

    Returns:
      The configuration to emit the program with.
    """
    found = [_replace(program) for program in programs.values()]
    if not any(found):
        return config
    planned = config.memory_planning_pass
    return dataclasses.replace(
        config,
        to_out_var_pass=_Bases(config.to_out_var_pass),
        memory_planning_pass=(
            {method: _Planning(each) for method, each in planned.items()}
            if isinstance(planned, dict)
            else _Planning(planned)
        ),
    )


def _replace(program: ExportedProgram) -> bool:
    """Replaces the prefixes of a method; returns whether any of them is one of a buffer."""
    in_buffers = False
    for _, node in operators.walk(program.graph_module):
        if operators.name(node) != _OPERATOR:
            continue
        source, rows, part = (*node.args, None)[:3]
        buffer, value = _buffer(program, source), source.meta["val"]
        if buffer is None:
            _slice(node, source, rows, part)
            continue
        in_buffers = True
        node.target = ops.edge.aten.empty.memory_format
        node.args = (_shape(value, rows, part),)
        node.kwargs = {"dtype": value.dtype}
        node.meta[_BASE] = buffer.name
        node.meta[_OFFSET] = (part or 0) * value[0].nbytes
    return in_buffers


def _slice(node: Node, source: Node, rows: Any, part: int | None) -> None:
    """Makes a copy of a prefix."""
    node.target = ops.edge.aten.slice_copy.Tensor
    node.args = (source, _rows_dim(part), 0, rows)
    if part is None:
        return
    with node.graph.inserting_before(node):
        of_part = node.graph.call_function(node.target, (source, 0, part, part + 1))
    of_part.meta["val"] = source.meta["val"][part : part + 1]
    node.update_arg(0, of_part)


def _buffer(program: ExportedProgram, source: Node) -> Node | None:
    """The buffer whose last value a tensor is, if the method writes to it in place."""
    signature = program.graph_signature
    name = signature.buffers_to_mutate.get(source.name)
    if name is None or source.target != ops.edge.aten.index_put_.default:
        return None
    written = source.args[0]
    return written if signature.inputs_to_buffers.get(written.name) == name else None


class _Bases(PassBase):
    """The last pass before memory is planned: each prefix is planned as its buffer.

    Args:
      before: upstream's pass in this place, which makes a kernel's call of each node.
    """

    def __init__(self, before: Any) -> None:
        super().__init__()
        self._before = before

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes the tensors' specifications."""
        done = self._before(graph_module)
        nodes = {node.name: node for node in done.graph_module.graph.nodes}
        for node in nodes.values():
            if _BASE in node.meta:
                node.meta[_BASE] = nodes[node.meta[_BASE]].meta["spec"], node.meta["spec"]
                node.meta["spec"], _ = node.meta[_BASE]
        return done


class _Planning:
    """Plans memory as another pass does, and then gives prefixes their own sizes.

    Args:
      planned: upstream's pass.
    """

    def __init__(self, planned: Any) -> None:
        vars(self)["_planned"] = planned

    def __getattr__(self, name: str) -> Any:
        return getattr(self._planned, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._planned, name, value)

    def run(self, graph_module: GraphModule, *rest: Any) -> PassResult:
        """Plans the memory of a method."""
        run = getattr(self._planned, "run", None)
        done = run(graph_module, *rest) if run else self._planned(graph_module)
        for node in done.graph_module.graph.nodes:
            if _BASE in node.meta:
                base, own = node.meta.pop(_BASE)
                own.__class__, own._of = _Prefix, base
                own._offset = node.meta.pop(_OFFSET)
                node.meta["spec"] = node.kwargs["out"].meta["spec"] = own
        return done


class _Prefix(TensorSpec):
    """The specification of a prefix: its place is in its buffer's, which may be planned later."""

    _of: TensorSpec
    # Bytes of the buffer before it.
    _offset: int

    @property
    def mem_offset(self) -> int | None:
        """The place where it begins in the memory that is planned."""
        base = self._of.mem_offset
        return None if base is None else base + self._offset

    @mem_offset.setter
    def mem_offset(self, _: int) -> None:
        pass


def _place(name: str) -> property:
    return property(lambda spec: getattr(spec._of, name), lambda _, value: None)


for _each in ("mem_id", "mem_obj_id", "lifetime"):
    setattr(_Prefix, _each, _place(_each))
