"""Traces a functional graph for its decomposition, without running operators that stay."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch._export import utils as export_utils
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx import traceback as fx_traceback
from torch.fx.experimental import proxy_tensor
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree

from etfast.fake_tensors import Note, description, learned, number

# The target of the node that a trace made a fake tensor for, and what was known of sizes then.
_TRACED = Note("traced")
_COPY = torch.ops.aten.copy_.default
# Writes to a buffer, and what gives the same as a tensor of its own.
_WRITES = {
    torch.ops.aten.index_copy_.default: torch.ops.aten.index_copy.default,
    torch.ops.aten.index_put_.default: torch.ops.aten.index_put.default,
}
# The view of a written buffer that upstream makes where it is used.
_PERMUTE = torch.ops.aten.permute.default
_ASSERTION = torch.ops.aten._assert_tensor_metadata.default
# They return nothing, and stay.
_ASSERTIONS = frozenset({_ASSERTION, torch.ops.aten._assert_scalar.default})
# Sizes that follow from values, and what reads them if the operator does not stay.
_ITEM = torch.ops.aten.item.default
_SCALAR = torch.ops.aten._local_scalar_dense.default
_UNBACKED = "unbacked_bindings"
_SIZE = torch.ops.aten.sym_size.int
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
# ExecuTorch's namespace of operators that stand for others, with their implementation.
_STAYS = "EDGE_DO_NOT_DECOMP"
# Functions that a tracer sees by itself, or needn't see: on sizes, and on lists of results.
_PLAIN = frozenset(
    {
        operator.add,
        operator.floordiv,
        operator.ge,
        operator.getitem,
        operator.gt,
        operator.le,
        operator.lt,
        operator.eq,
        operator.ne,
        operator.mod,
        operator.mul,
        operator.neg,
        operator.pow,
        operator.sub,
        operator.truediv,
        torch.sym_float,
        torch.sym_int,
        torch.sym_max,
        torch.sym_min,
        torch.sym_not,
        _SIZE,
    }
)
# Traced in other ways than as one node of their own, or these write without their schema saying so.
_SPECIAL = frozenset(
    {
        torch.ops.aten.native_batch_norm.default,
        torch.ops.aten.instance_norm.default,
        torch.ops.aten.detach.default,
        torch.ops.aten.is_nonzero.default,
        torch.ops.aten.lift.default,
        torch.ops.aten.lift_fresh.default,
        torch.ops.aten.lift_fresh_copy.default,
    }
)

# They return their input where they are not trained.
_DROPOUTS = frozenset(
    {
        torch.ops.aten.alpha_dropout.default,
        torch.ops.aten.dropout.default,
        torch.ops.aten.feature_alpha_dropout.default,
        torch.ops.aten.feature_dropout.default,
    }
)


class Unsuitable(Exception):
    """A graph that upstream's function must trace."""


def mark(graph_module: GraphModule) -> None:
    """Marks the fake tensors that a trace has just made for a graph's nodes."""
    for node in graph_module.graph.nodes:
        for leaf in _leaves(node.meta.get("val")):
            if type(leaf) is FakeTensor:
                _TRACED.put(leaf, (node.target, learned(leaf)))


def mark_exported(graph_module: GraphModule) -> None:
    """Marks the fake tensors of a graph that torch.export has just traced.

    Operators that are made of others are run again: torch.export may compute these by another
    decomposition than the one that is in force later, which is seen in strides.
    """
    mark(graph_module)
    for node in graph_module.graph.nodes:
        made_of_others = isinstance(node.target, OpOverload) and node.target._can_decompose()
        # Decomposing leaves gradients behind.
        gradients = getattr(node.meta.get("tensor_meta"), "requires_grad", True)
        for leaf in _leaves(node.meta.get("val")):
            if type(leaf) is FakeTensor and (made_of_others or gradients):
                _TRACED.put(leaf, (None, 0))


def _leaves(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


def check(graph_module: Any, symbolic: bool) -> None:
    """Looks for what only upstream's function can trace.

    Args:
      graph_module: what is to be traced.
      symbolic: whether sizes may be symbolic.

    Raises:
      Unsuitable: there is some.
    """
    if not isinstance(graph_module, GraphModule):
        raise Unsuitable
    written: set[str] = set()
    put: set[str] = set()
    for node in graph_module.graph.nodes:
        if _UNBACKED in node.meta:
            if not symbolic or not _is_number_of_value(node):
                raise Unsuitable
            continue
        if not symbolic and any(map(_is_symbolic, _leaves(node.meta.get("val")))):
            raise Unsuitable
        if node.op in ("placeholder", "get_attr"):
            continue
        if node.op == "output":
            _check_output(node)
        elif node.op != "call_function":
            raise Unsuitable
        elif node.target in _WRITES:
            buffer = node.args[0]
            if buffer.op != "get_attr" or len(buffer.users) > 1 or buffer.target in put:
                raise Unsuitable
            if not all(_takes_written(user) or _is_late(user) for user in node.users):
                raise Unsuitable
            put.add(buffer.target)
        elif node.target is _COPY:
            # As the value of a buffer at the end is put into the graph of a program.
            buffer, value = node.args
            if buffer.op != "get_attr" or buffer.target in written | put or _is_input(value):
                raise Unsuitable
            written.add(buffer.target)
        elif node.target not in _PLAIN and (written or not _is_functional(node)):
            raise Unsuitable


def _is_number_of_value(node: Node) -> bool:
    """Tells whether a node is a whole number that follows from a tensor's values."""
    return node.target in (_ITEM, _SCALAR) and isinstance(node.meta.get("val"), torch.SymInt)


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, FakeTensor):
        return value._has_symbolic_sizes_strides
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _is_input(value: Any) -> bool:
    return not isinstance(value, Node) or value.op in ("placeholder", "get_attr")


def _check_output(node: Node) -> None:
    for value in pytree.tree_leaves(node.args):
        if not isinstance(value, Node):
            continue
        if _is_input(value) or value.target in _WRITES:
            raise Unsuitable
        if not isinstance(value.meta.get("val"), torch.Tensor):
            raise Unsuitable


_FUNCTIONAL: dict[OpOverload, bool] = {}


def _takes_written(node: Node) -> bool:
    """Tells whether an operator neither views its inputs nor is made of operators that may."""
    return (
        isinstance(node.target, OpOverload)
        and node.target not in _PLAIN
        and not any(argument.alias_info for argument in node.target._schema.arguments)
        and not node.target._can_decompose()
    )


def _is_late(node: Node) -> bool:
    """Tells whether a node is a view of a written buffer that one operator takes.

    Upstream makes such a view anew for the operator that takes it: the view belongs to that node
    and stands right before it. Debug handles, which payloads hold, tell.
    """
    return (
        node.target is _PERMUTE
        and node.args[0].target in _WRITES
        and len(node.users) == 1
        and all(map(_takes_written, node.users))
    )


def _is_functional(node: Node) -> bool:
    if node.target in _DROPOUTS:
        _, _, is_trained = node.args
        return is_trained is False
    return isinstance(node.target, OpOverload) and _functional(node.target)


def _functional(target: OpOverload) -> bool:
    """Tells whether an operator writes nothing, and its result's shape depends on shapes alone."""
    known = _FUNCTIONAL.get(target)
    if known is None:
        known = _FUNCTIONAL[target] = not (
            target in _SPECIAL
            or target._schema.is_mutable
            or (not target._schema.returns and target not in _ASSERTIONS)
            or torch.Tag.data_dependent_output in target.tags
            or torch.Tag.maybe_aliasing_or_mutating in target.tags
        )
    return known


@dataclass(frozen=True)
class _Late:
    """The arguments of a view that is made where it is used."""

    args: Any
    kwargs: Any


class Tracing(Interpreter):
    """Runs a graph under a tracer; nodes that stay as they are aren't run.

    Args:
      graph_module: its parameters and buffers are fake tensors that the tracer knows.
      table: the decompositions.
    """

    def __init__(self, graph_module: GraphModule, table: Any) -> None:
        # Fake tensors hold no memory, so that none is dropped after its last use.
        super().__init__(graph_module, garbage_collect_values=False)
        self.written: dict[str, Any] = {}
        self._table = table
        self._tracer = proxy_tensor.get_proxy_mode().tracer
        self._stays = export_utils._special_op_to_preserve_cia

    def run_node(self, n: Node) -> Any:
        if n.op == "call_function":
            if n.target is _SIZE:
                return self.env[n.args[0]].shape[n.args[1]]
            if n.target is _COPY or n.target in _WRITES:
                return self._written(n)
            if _is_late(n):
                # Upstream drops this node again, and its name stays in use.
                self._operator(n, n.target)
                return _Late(*self.fetch_args_kwargs_from_env(n))
            if isinstance(n.target, OpOverload):
                return self._operator(n, n.target)
        return super().run_node(n)

    def _written(self, node: Node) -> Any:
        """Returns the final contents of a buffer: an output, too."""
        with self._set_current_node(node):
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            value = _WRITES.get(node.target, torch.ops.aten.copy.default)(*args, **kwargs)
        self.written[node.args[0].target] = value
        return value

    def _operator(self, node: Node, target: OpOverload) -> Any:
        with self._set_current_node(node):
            for source in node.all_input_nodes:
                late = self.env[source]
                if type(late) is _Late:
                    self.env[source] = _PERMUTE(*late.args, **late.kwargs)
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            if _UNBACKED in node.meta:
                return self._number(node, args, kwargs)
            if target in self._table:
                return target(*args, **kwargs)
            if target._can_decompose() and target.py_kernels.get(_COMPOSITE) is not self._stays:
                result = self._decomposed(target, args, kwargs)
                if result is not NotImplemented:
                    return result
            if target not in _ASSERTIONS and _known(node) and self._unchanged(node):
                return self._kept(node, args, kwargs)
            return target(*args, **kwargs)

    def _decomposed(self, target: OpOverload, args: Any, kwargs: Any) -> Any:
        """An operator that is made of others: these may write to what they make themselves."""
        mode = FunctionalTensorMode(export=True)
        with mode:
            args, kwargs = pytree.tree_map_only(
                FakeTensor, FunctionalTensor.to_functional, (args, kwargs)
            )
            result = target.decompose(*args, **kwargs)
        if result is NotImplemented:
            return result
        return pytree.tree_map_only(FunctionalTensor, FunctionalTensor.from_functional, result)

    def _unchanged(self, node: Node) -> bool:
        """Tells whether a node's inputs are what they were when its value was made."""
        for source in node._input_nodes:
            now, then = self.env[source], source.meta.get("val")
            if now is then:
                continue
            if type(now) is not type(then):
                return False
            same = _same if type(now) is FakeTensor else _same_size
            if not same(now, then):
                return False
        return True

    def _number(self, node: Node, args: Any, kwargs: Any) -> Any:
        """Keeps the symbol of a number; upstream makes a new one, and gives it the old name."""
        stays = _ITEM.py_kernels.get(_COMPOSITE) is self._stays
        value, proxy = self._again(node, node.target if stays else _SCALAR, args, kwargs)
        proxy_tensor.track_tensor_tree(value, proxy, constant=None, tracer=self._tracer)
        proxy.node.meta[_UNBACKED] = node.meta[_UNBACKED]
        return value

    def _kept(self, node: Node, args: Any, kwargs: Any) -> Any:
        value, proxy = self._again(node, node.target, args, kwargs)
        tracer, known = self._tracer, node.meta.get("tensor_meta")
        if known is None or type(value) is not FakeTensor:
            return proxy_tensor.track_tensor_tree(value, proxy, constant=None, tracer=tracer)
        proxy_tensor.track_tensor(value, proxy, constant=None, tracer=tracer)
        # What track_tensor_tree writes down for a single tensor.
        proxy.node.meta["val"] = proxy_tensor.extract_val(value)
        proxy.node.meta["tensor_meta"] = known
        return value

    def _again(self, node: Node, target: OpOverload, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Makes a node without running it; returns the value that it had, and its proxy."""
        tracer = self._tracer
        # As TorchFunctionMetadataMode counts calls.
        tracer.torch_fn_metadata = target
        tracer.torch_fn_counts[target] = tracer.torch_fn_counts.get(target, 0) + 1
        args, kwargs = map_aggregate((args, kwargs), tracer.unwrap_proxy)
        name = tracer.graph._target_to_str(target.overloadpacket.__name__)
        with proxy_tensor.set_original_aten_op(target):
            proxy = tracer.create_proxy("call_function", target, args, kwargs, name=name)
        return node.meta["val"], proxy


def _known(node: Node) -> bool:
    """Tells whether a trace made a node's value."""
    leaves = _leaves(node.meta.get("val"))
    for leaf in leaves:
        if type(leaf) is not FakeTensor:
            return False
        then, known = _TRACED.of(leaf) or (None, 0)
        if not _same_operator(node.target, then) or known != learned(leaf):
            return False
    return bool(leaves)


def _same_operator(now: OpOverload, then: Any) -> bool:
    """Tells whether operators do the same: ExecuTorch has other names for those that shall stay."""
    if now is then:
        return True
    return (
        now.namespace == _STAYS
        and isinstance(then, OpOverload)
        and now._schema.name.partition("::")[2] == then._schema.name.partition("::")[2]
        and now._overloadname == then._overloadname
    )


def _same(now: FakeTensor, then: FakeTensor) -> bool:
    """Tells whether fake tensors say the same, with the very same sizes."""
    return (
        now.fake_mode is then.fake_mode
        and now.constant is None
        and then.constant is None
        and description(now) == description(then)
    )


def _same_size(now: Any, then: Any) -> bool:
    """Tells whether two sizes are the same number or expression; False for anything else."""
    return type(now) in (int, torch.SymInt) and number(now) == number(then)


def _sizes_first(graph: Graph) -> None:
    """Moves nodes of sizes behind what they are of: upstream makes all at once, and drops most."""
    for node in reversed(graph.find_nodes(op="call_function", target=_SIZE)):
        source = node.args[0]
        if source.op != "placeholder":
            source.append(node)
            source.users = {node: None, **source.users}


@dataclass(frozen=True)
class Traced:
    """A traced graph, and what it was made of.

    Attributes:
      graph_module: the graph; its inputs are parameters, buffers and the user's, in this order.
      parameters: names of the parameters.
      buffers: names of the buffers.
      written: names of the buffers that it writes to, in the order of its first outputs.
      inputs: the tree of all its inputs.
      outputs: the tree of the module's outputs.
    """

    graph_module: GraphModule
    parameters: list[str]
    buffers: list[str]
    written: list[str]
    inputs: Any
    outputs: Any


def trace(module: GraphModule, args: Any, kwargs: Any, table: Any) -> Traced:
    """Traces a graph that `check` let pass.

    Args:
      module: its parameters and buffers are fake tensors.
      args: fake tensors, nested as the module takes them.
      kwargs: more of them.
      table: the decompositions.

    Raises:
      Unsuitable: inputs that are not fake tensors, or one of them twice.
    """
    from torch._functorch._aot_autograd.functional_utils import (
        propagate_input_mutation_stacktraces,
    )

    parameters = dict(module.named_parameters(remove_duplicate=False))
    buffers = dict(module.named_buffers(remove_duplicate=False))
    held = {**parameters, **buffers}
    names = list(held)
    flat, in_spec = pytree.tree_flatten(([*held.values(), *args], kwargs))
    if not all(isinstance(leaf, FakeTensor) for leaf in flat):
        raise Unsuitable
    # Weights may be tied; what may be written to is a tensor of its own.
    weights = set(map(id, parameters.values()))
    others = [id(leaf) for leaf in flat[len(parameters) :]]
    if len(weights.union(others)) < len(weights) + len(others):
        raise Unsuitable
    out: dict[str, Any] = {}

    def run(*flat_args: Any) -> tuple[Any, ...]:
        given = dict(zip(names, flat_args[: len(names)], strict=True))
        with (
            torch.nn.utils.stateless._reparametrize_module(module, given),
            proxy_tensor.maybe_disable_thunkify(),
            fx_traceback.preserve_node_meta(),
        ):
            tracing = Tracing(module, table)
            outputs = tracing.run(*flat_args[len(names) :])
        leaves, out["spec"] = pytree.tree_flatten(outputs)
        out["written"] = [name for name in names if name in tracing.written]
        return *(tracing.written[name] for name in out["written"]), *leaves

    run._orig_mod = module
    from torch._dispatch.python import enable_python_dispatcher

    with enable_python_dispatcher():
        traced = proxy_tensor.make_fx(run, decomposition_table=table, record_module_stack=True)(
            *flat
        )
    for node in traced.graph.nodes:
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            raise Unsuitable
    traced.graph.eliminate_dead_code()
    _sizes_first(traced.graph)
    traced.recompile()
    propagate_input_mutation_stacktraces(traced.graph)
    return Traced(traced, list(parameters), list(buffers), out["written"], in_spec, out["spec"])
