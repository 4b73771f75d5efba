"""The values that modules take and return: in the eager model, and in graphs exported from it.

Hooks record each call of a module of the eager model. In an exported graph, a call of a module is
the nodes that have it in their `nn_module_stack`: what others read of them are its outputs, what
they read of others its inputs. Both lists are in the order of the calls, so the n-th call of a
module here is the n-th there, under whichever name. Values are paired by shape, and where several
fit, by what they are.

Quantization adds nodes that belong to no module. A value that is quantized is compared as it is
dequantized, since that is what the next module reads, and what a delegate returns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node

from etlower import operators
from etlower.eager import with_own_state
from etlower.inputs import deep_copy
from etlower.outputs import leaves, sqnr_db

# A call of a module in a graph: the keys and names of its `nn_module_stack`, the module's last.
_CallKey = tuple[tuple[str, str], ...]
# Of values that are told apart by what they are: less alike is not the same value.
_ALIKE_DB = 20.0
# Of operators that torch computes itself.
NAMESPACES = {"", "aten", "higher_order", "prim", "prims", "quantized_decomposed", "torchao"}
# Not an operator on quantized values, such as "quantized_conv2d_nchw".
_QUANTIZES = re.compile(r"(fake_)?quantize(_|\.)")
_DEQUANTIZES = re.compile(r"dequantize(_|\.)")


@dataclass
class EagerCall:
    """A call of a module: the tensors that it took and returned, flat."""

    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor] = field(default_factory=list)


@dataclass
class EagerRun:
    """A run of an eager model.

    Attributes:
      outputs: flat.
      calls: of each module, by number of the module, in the order in which they began.
      numbers: of the modules, by qualified name; a shared one has several names.
    """

    outputs: list[Any]
    calls: dict[int, list[EagerCall]]
    numbers: dict[str, int]


@dataclass(frozen=True)
class Place:
    """A value's place in an eager run: module (its number), call, "inputs" or "outputs", index."""

    module: int
    call: int
    side: str
    index: int

    def of(self, run: EagerRun) -> torch.Tensor:
        """Returns the value in a run of the same model."""
        return getattr(run.calls[self.module][self.call], self.side)[self.index]


@dataclass(eq=False)
class Point:
    """A value of a graph that the eager model has, too.

    Attributes:
      node: the node that computes it, before it is quantized.
      module: qualified name of the module whose operator that is; empty: the model itself.
      place: in an eager run.
      outputs_of: names of the modules that return it, the innermost first; empty: it is only the
        input of a module, computed by operators of the module around that one.
      is_lost: whether the module has no operator in the graph, and the node is its input.
    """

    node: Node
    module: str
    place: Place
    outputs_of: list[str] = field(default_factory=list)
    is_lost: bool = False


def run_eager(module: torch.nn.Module, inputs: Sequence[Any]) -> EagerRun:
    """Runs a copy of a module and records all calls in it.

    Args:
      module: the model; its state stays as it is.
      inputs: positional arguments.
    """
    model = with_own_state(module)
    names = list(model.named_modules(remove_duplicate=False))
    numbers: dict[int, int] = {}
    for _, part in names:
        numbers.setdefault(id(part), len(numbers))
    calls: dict[int, list[EagerCall]] = {}
    begun: list[EagerCall] = []

    def before(part: Any, args: Any, kwargs: Any) -> None:
        # Branches and loops are traced before they run, and their modules have no nodes to compare.
        if torch.compiler.is_dynamo_compiling():
            return
        call = EagerCall(_copies((args, kwargs)))
        begun.append(call)
        calls.setdefault(numbers[id(part)], []).append(call)

    def after(part: Any, args: Any, kwargs: Any, output: Any) -> None:
        if torch.compiler.is_dynamo_compiling():
            return
        begun.pop().outputs = _copies(output)

    for part in dict(zip(numbers, (m for _, m in _unique(names)), strict=True)).values():
        part.register_forward_pre_hook(before, with_kwargs=True)
        part.register_forward_hook(after, with_kwargs=True)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        outputs = leaves(model(*deep_copy(tuple(inputs))))
    by_name = {name: numbers[id(part)] for name, part in names}
    return EagerRun(_plain_copies(outputs), calls, by_name)


def _unique(names: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for name, part in names:
        if id(part) not in seen:
            seen.add(id(part))
            yield name, part


def _copies(value: Any) -> list[torch.Tensor]:
    return [v.detach().clone() for v in leaves(value) if isinstance(v, torch.Tensor)]


def _plain_copies(values: Sequence[Any]) -> list[Any]:
    return [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in values]


def functional(program: ExportedProgram) -> ExportedProgram:
    """A copy of a program whose operators change nothing in place; else the same operators."""
    with torch.no_grad():
        return program.run_decompositions({})


def flat_inputs(program: ExportedProgram, inputs: Sequence[Any]) -> list[Any]:
    """The arguments of a program's graph: weights, constants and inputs, in its order.

    Args:
      program: exported.
      inputs: positional arguments of its method.
    """
    given = iter(leaves(tuple(deep_copy(tuple(inputs)))))
    values = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            values.append(next(given))
        elif spec.target in program.state_dict:
            values.append(program.state_dict[spec.target].detach().clone())
        else:
            value = program.constants[spec.target]
            values.append(value.clone() if isinstance(value, torch.Tensor) else value)
    return values


class _Recorder(Interpreter):
    def __init__(self, program: ExportedProgram) -> None:
        super().__init__(program.graph_module)
        self.values: dict[str, Any] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n.op == "call_function" and isinstance(value, torch.Tensor):
            self.values[n.name] = value.detach()
        return value


def run_graph(
    program: ExportedProgram, inputs: Sequence[Any]
) -> tuple[list[Any], dict[str, torch.Tensor]]:
    """Runs a program's operators one by one in torch.

    Args:
      program: functional.
      inputs: positional arguments of its method.

    Returns:
      The outputs of the method, flat; the tensors by name of the node.
    """
    recorder = _Recorder(program)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        outputs = recorder.run(*flat_inputs(program, inputs))
    kept = user_outputs(program)
    return [outputs[i] for i in kept], recorder.values


def user_outputs(program: ExportedProgram) -> list[int]:
    """Positions of the method's own outputs among those of the graph."""
    names = ("USER_OUTPUT",)
    specs = program.graph_signature.output_specs
    return [i for i, spec in enumerate(specs) if spec.kind.name in names]


def namespace(node: Node) -> str:
    """Namespace of a node's operator: "aten"; empty: it has none."""
    return str(getattr(node.target, "namespace", ""))


def is_quantization(node: Node) -> bool:
    """Tells whether a node quantizes, dequantizes, or chooses the parameters of that."""
    name = _own_name(node)
    return bool(_QUANTIZES.match(name) or _DEQUANTIZES.match(name)) or "qparams" in name


def _own_name(node: Node) -> str:
    """Name of an operator without its namespace, which may be "quantized_decomposed"."""
    return operators.name(node).partition(".")[2]


def source(node: Node) -> Node:
    """The node whose value this one is, but for quantization."""
    while is_quantization(node) and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def measured(node: Node) -> Node:
    """The node to compare in a node's place: its value as it is dequantized, where all read that.

    Scales that are chosen at run time count as part of the reader.
    """
    users = list(node.users)
    if not users or not all(_is_static_quantize(user) for user in users):
        return node
    return next((u for u in users[0].users if is_quantization(u)), node)


def _is_static_quantize(node: Node) -> bool:
    scale = node.args[1] if len(node.args) > 1 else None
    chosen = isinstance(scale, Node) and scale.op == "call_function"
    return bool(_QUANTIZES.match(_own_name(node))) and not chosen


def is_fused(node: Node) -> bool:
    """Tells whether a node stands within a quantized pattern: as a convolution before its ReLU.

    A backend computes such a pattern in integers. Where something else reads the value, it may
    compute in floats instead.
    """
    if measured(node) is not node or all(user.op == "output" for user in node.users):
        return False
    return any(
        _DEQUANTIZES.match(_own_name(each)) and _reads_values(each) for each in node.all_input_nodes
    )


def _reads_values(dequantize: Node) -> bool:
    """Tells whether what is dequantized was computed, and quantized with a known scale."""
    inner = dequantize.args[0]
    return isinstance(inner, Node) and inner.op == "call_function" and _is_static_quantize(inner)


def points(
    program: ExportedProgram, values: Mapping[str, torch.Tensor], run: EagerRun
) -> tuple[list[Point], dict[str, str]]:
    """Finds the values of a graph that the eager model has, too.

    Args:
      program: functional.
      values: of its nodes, as `run_graph` returns them, for the same inputs as the run's.
      run: of the eager model.

    Returns:
      The points in the order of the graph; and by module, why it has none.
    """
    weights = _weights(program)
    calls = _calls(program)
    found: dict[Node, Point] = {}
    problems: dict[str, str] = {}
    for name, keys in _by_module(calls, run).items():
        eager_calls = run.calls.get(run.numbers[name], [])
        if len(keys) != len(eager_calls):
            problems[name] = (
                f"called {len(eager_calls)} times in eager mode, {len(keys)} times in the graph"
            )
            continue
        for number, (key, call) in enumerate(zip(keys, eager_calls, strict=True)):
            _pair(found, values, run, calls, key, call, number, weights)
    for point in found.values():
        point.outputs_of.sort(key=lambda module: -len(module))
    lost = _lost(list(found.values()), {key[-1][1] for key in calls}, values, run)
    order = {node: number for number, node in enumerate(program.graph.nodes)}
    return sorted([*found.values(), *lost], key=lambda point: order[point.node]), problems


def _lost(
    found: list[Point], named: set[str], values: Mapping[str, torch.Tensor], run: EagerRun
) -> list[Point]:
    """Points of modules without an operator in the graph.

    Such a module is part of the one before it, as a batch norm that was folded into a convolution:
    that one's value is then this one's, and its point becomes so. Or it was left out.
    """
    in_graph = {run.numbers[name] for name in named if name in run.numbers}
    lost: list[Point] = []
    for name, number in run.numbers.items():
        calls = run.calls.get(number, [])
        if number in in_graph or len(calls) != 1 or _is_unchanged(calls[0]):
            continue
        place = Place(number, 0, "outputs", 0)
        for point in found:
            if not _is_same(point.place.of(run), calls[0].inputs[0]):
                continue
            if any(namespace(reader) not in NAMESPACES for reader in _readers(point.node)):
                # A backend's operator may stand for several modules, and has the name of one.
                break
            value = values.get(measured(point.node).name)
            before, after = (_ratio(value, at.of(run)) for at in (point.place, place))
            if after > before:
                point.place, point.outputs_of = place, [*point.outputs_of, name]
            else:
                lost.append(Point(point.node, name, place, [name], is_lost=True))
            break
    return lost


def _ratio(value: torch.Tensor | None, expected: torch.Tensor) -> float:
    if value is None or value.shape != expected.shape:
        return -math.inf
    return sqnr_db(value, expected)


def _is_unchanged(call: EagerCall) -> bool:
    """Tells whether a call has no single tensor that it turns into another."""
    if len(call.inputs) != 1 or len(call.outputs) != 1:
        return True
    return _is_same(call.inputs[0], call.outputs[0])


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def _by_module(calls: Mapping[_CallKey, list[Node]], run: EagerRun) -> dict[str, list[_CallKey]]:
    """Calls by module, under the first of its names in the graph."""
    by_number: dict[int, list[_CallKey]] = {}
    for key in calls:
        number = run.numbers.get(key[-1][1])
        if number is not None:
            by_number.setdefault(number, []).append(key)
    return {keys[0][-1][1]: keys for keys in by_number.values()}


def _calls(program: ExportedProgram) -> dict[_CallKey, list[Node]]:
    """Nodes by call of a module, in the order in which the calls begin."""
    calls: dict[_CallKey, list[Node]] = {}
    for node in program.graph.nodes:
        stack = node.meta.get("nn_module_stack") or {}
        if node.op != "call_function" or is_quantization(node):
            continue
        key: _CallKey = ()
        for part, entry in stack.items():
            key = (*key, (str(part), operators.dotted(str(entry[0]))))
            calls.setdefault(key, []).append(node)
    return calls


def _weights(program: ExportedProgram) -> set[str]:
    return {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is not InputKind.USER_INPUT
    }


def _pair(
    found: dict[Node, Point],
    values: Mapping[str, torch.Tensor],
    run: EagerRun,
    calls: Mapping[_CallKey, list[Node]],
    key: _CallKey,
    call: EagerCall,
    number: int,
    weights: set[str],
) -> None:
    nodes = calls[key]
    name = key[-1][1]
    inside = set(nodes)
    read = [source(each) for node in nodes for each in node.all_input_nodes]
    inputs = [n for n in dict.fromkeys(read) if n not in inside and n.name not in weights]
    outputs = [n for n in nodes if any(user not in inside for user in _readers(n))]
    for side, candidates in (("inputs", inputs), ("outputs", outputs)):
        tensors = getattr(call, side)
        for index, node in _matches(tensors, candidates, values).items():
            if node.op != "call_function":
                continue
            place = Place(run.numbers[name], number, side, index)
            point = found.setdefault(node, Point(node, operators.module_of(node), place))
            if side == "outputs" and name not in point.outputs_of:
                point.outputs_of.append(name)


def _readers(node: Node) -> Iterator[Node]:
    """Readers of a node's value, quantized or not."""
    for user in node.users:
        if is_quantization(user):
            yield from _readers(user)
        else:
            yield user


def _matches(
    tensors: Sequence[torch.Tensor], nodes: Sequence[Node], values: Mapping[str, torch.Tensor]
) -> dict[int, Node]:
    """Pairs tensors with nodes, by index of the tensor; what nothing fits, in order."""
    free = [node for node in nodes if node.name in values or node.op == "placeholder"]
    pairs: dict[int, Node] = {}
    for index, tensor in enumerate(tensors):
        fits = [node for node in free if _fits(node, values, tensor)]
        chosen = fits[0] if len(fits) == 1 else _most_alike(tensor, fits, values)
        if chosen is not None:
            pairs[index] = chosen
            free.remove(chosen)
    left = [index for index in range(len(tensors)) if index not in pairs]
    computed = [
        node
        for node, index in zip(free, left, strict=False)
        if node.op == "call_function" and _is_of_kind(values.get(node.name), tensors[index])
    ]
    if len(left) == len(computed) == len(free):
        # A fault may have changed what a value is, or its shape.
        pairs |= dict(zip(left, computed, strict=True))
    return pairs


def _is_of_kind(value: torch.Tensor | None, tensor: torch.Tensor) -> bool:
    """Tells whether both are floats; a backend's own operators return integers instead."""
    return value is None or value.is_floating_point() == tensor.is_floating_point()


def _fits(node: Node, values: Mapping[str, torch.Tensor], tensor: torch.Tensor) -> bool:
    value = values.get(node.name, node.meta.get("val"))
    return (
        isinstance(value, torch.Tensor)
        and value.dtype == tensor.dtype
        and len(value.shape) == len(tensor.shape)
        and (node.op == "placeholder" or value.shape == tensor.shape)
    )


def _most_alike(
    tensor: torch.Tensor, nodes: Sequence[Node], values: Mapping[str, torch.Tensor]
) -> Node | None:
    known = [node for node in nodes if node.name in values]
    ratios = {node: sqnr_db(values[node.name], tensor) for node in known}
    best = max(known, key=lambda node: ratios[node], default=None)
    return best if best is not None and ratios[best] > _ALIKE_DB else None


def levels(
    program: ExportedProgram, ratios: Mapping[Node, float | None], start: float
) -> dict[Node, float]:
    """The least ratio of all that a node is computed from, without its own, in dB.

    Args:
      program: its graph has the nodes.
      ratios: of nodes that were compared; None: no ratio.
      start: of the inputs.
    """
    before: dict[Node, float] = {}
    at: dict[Node, float] = {}
    for node in program.graph.nodes:
        before[node] = min((at[each] for each in node.all_input_nodes), default=start)
        ratio = ratios.get(node)
        at[node] = before[node] if ratio is None else min(before[node], ratio)
    return before


def upstream(node: Node, stop: Callable[[Node], bool]) -> list[Node]:
    """The nodes that a node is computed from, up to those where `stop` holds; in no order."""
    seen: set[Node] = set()
    waiting = list(node.all_input_nodes)
    while waiting:
        each = waiting.pop()
        if each in seen or stop(each):
            continue
        seen.add(each)
        waiting += each.all_input_nodes
    return list(seen)
