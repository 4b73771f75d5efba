"""Exports methods with torch.export, and explains where that fails."""

from __future__ import annotations

import collections
import contextlib
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
from etbuild import BuildError, Method, size_questions, write_out
from etbuild.errors import listed
from etbuild.exact import CHOICES, FOR_KERNELS, REASONS, WriteOut, Written, has_channels_last
from executorch.export import ExportRecipe
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from etlower import (
    bounds,
    control_flow_bodies,
    dynamic_shapes,
    hidden_views,
    operators,
    size_functions,
    smallest_sizes,
)
from etlower.outputs import leaves

# Names of torch's errors on values that it has to know.
_OF_VALUES = frozenset(
    {
        *("DataDependentOutputException", "DynamicOutputShapeException"),
        *("GuardOnDataDependentSymNode", "PendingUnbackedSymbolNotFound"),
    }
)
# Of an error's text.
_MOST_LETTERS = 300
# Of upstream's, on sizes without a bound when memory is planned.
_UNBOUNDED = (
    *("Cannot evaluate a finite upper bound", "does not fit in 64 bits"),
    "argument 'size' but instead found type 'immutable_list'",
)


def export(
    name: str,
    module: Any,
    method: Method,
    recipe: ExportRecipe,
    label: str,
    noted: Callable[[str], None] = lambda sentence: None,
) -> torch.export.ExportedProgram:
    """Exports one method, unless it is exported already; then the recipe's ATen passes.

    `noted` gets a sentence on each operator that was written out.
    """
    if isinstance(module, torch.export.ExportedProgram):
        program = module
    else:
        strict = recipe.strict if method.strict is None else method.strict
        with torch.no_grad():
            program = export_module(name, module, method, strict, label)
    _check_constants(name, program, method, label)
    _check_dropout(name, program, label)
    _check_scale(name, program, label)
    inputs = bounds.exported(program)
    with size_questions.answered_for_all(program.graph):
        program = _transformed(name, program, recipe, noted)
    bounds.check_export(inputs, bounds.exported(program), name, label)
    _make_tuples_plain(program)
    return program


def _transformed(
    name: str,
    program: torch.export.ExportedProgram,
    recipe: ExportRecipe,
    noted: Callable[[str], None],
) -> torch.export.ExportedProgram:
    """Writes out what kernels compute otherwise, and runs the recipe's ATen passes."""
    _put_weights_in_rows(program)
    size_functions.write_out_sums(program)
    for transform in (write_out(*FOR_KERNELS), *(recipe.aten_transform_passes or [])):
        if isinstance(transform, WriteOut):
            for sentence in written_out(transform.apply(program)):
                noted(f"{name}: {sentence}")
        else:
            program = transform(name, program)
    lowering = recipe.lowering_recipe
    if lowering and lowering.edge_compile_config and lowering.edge_compile_config._skip_dim_order:
        _leave_in_rows(program)
    size_functions.write_out(program)
    return program


def _leave_in_rows(program: torch.export.ExportedProgram) -> None:
    """Has a model put no channels last: programs without orders of dimensions cannot."""
    for _, node in operators.walk(program.graph_module):
        node.args, node.kwargs = pytree.tree_map(_plain_format, (node.args, node.kwargs))


def _plain_format(value: Any) -> Any:
    return torch.contiguous_format if isinstance(value, torch.memory_format) else value


def _put_weights_in_rows(program: torch.export.ExportedProgram) -> None:
    """Lays out weights in rows whose channels lie last, as `net.to(memory_format=…)` leaves them.

    Delegates and kernels refuse such weights, or compare their order with that of the input. What
    the program writes into stays as it is. The caller's module keeps its own.
    """
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate.values())
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for spec in signature.input_specs:
        for weights in (program.state_dict, program.constants):
            weight = weights.get(spec.target)
            is_fixed = isinstance(weight, torch.Tensor) and spec.target not in written
            if is_fixed and has_channels_last(weight):
                weights[spec.target] = _in_rows(weight)
                node = nodes[spec.arg.name]
                node.meta["val"] = node.meta["val"].contiguous()


def _in_rows(weight: torch.Tensor) -> torch.Tensor:
    rows = weight.detach().contiguous()
    is_parameter = isinstance(weight, torch.nn.Parameter)
    return torch.nn.Parameter(rows, weight.requires_grad) if is_parameter else rows


def written_out(calls: Sequence[Written]) -> list[str]:
    """A sentence per operator and rule: how often, where, why, and what it costs."""
    by_kind: dict[tuple[str, str], list[Written]] = {}
    for call in calls:
        by_kind.setdefault((call.operator, call.rule), []).append(call)
    sentences = []
    for (operator, rule), same in sorted(by_kind.items()):
        lines = {operators.line_of(call.node).rpartition("/")[2] for call in same} - {""}
        where = f" ({listed(sorted(lines))})" if lines else ""
        times = "" if len(same) == 1 else f"{len(same)} calls of "
        each = "" if len(same) == 1 else " each"
        count = max(call.count for call in same)
        allowed = f', unless allow_inexact has "{rule}"' if rule in CHOICES else ""
        sentences.append(
            f"{times}{operator}{where} became {count} operators{each}, as {REASONS[rule]}{allowed}."
        )
    return sentences


def _make_tuples_plain(program: torch.export.ExportedProgram) -> None:
    """Makes tuples of the named ones that a method returns, such as torch.topk's.

    A program returns them one after the other, and upstream's emitter knows no named ones.
    """
    signature = program.module_call_graph[0].signature
    if signature is not None:
        signature.out_spec = _plain(signature.out_spec)


def _plain(spec: Any) -> Any:
    if spec.is_leaf():
        return spec
    children = [_plain(child) for child in spec.children()]
    # A model's own are of pytree's kind `namedtuple`; torch's are classes of their own.
    is_named = (
        isinstance(spec.type, type) and issubclass(spec.type, tuple) and spec.type is not tuple
    )
    if is_named or spec.type is collections.namedtuple:
        return pytree.treespec_tuple(children)
    return pytree.TreeSpec(spec.type, spec.context, children)


def export_module(
    name: str, module: Any, method: Method, strict: bool, label: str
) -> torch.export.ExportedProgram:
    dynamic_shapes.check(name, module, method, label)
    try:
        program = torch.export.export(
            module, method.example_inputs, dynamic_shapes=_shapes(module, method), strict=strict
        )
    except Exception as error:
        check_eager(name, module, method, label)
        dynamic_shapes.explain(name, method, error, label)
        explain_values(error, label, f'the method "{name}"')
        if isinstance(error, BuildError | ImportError | MemoryError | RecursionError):
            raise
        # What follows in Dynamo's own errors is on Dynamo.
        said = str(error).partition("\n  Hint: ")[0].strip()
        raise BuildError(
            f'{label}: torch.export fails on the method "{name}"{_own_line(error)}: '
            f"{type(error).__name__}: {said}",
            _way_out(module, method, strict and type(error).__name__ == "Unsupported"),
        ) from error
    program = hidden_views.write_out(name, program, label)
    smallest_sizes.check(name, module, method, program, label)
    return program


def _way_out(module: Any, method: Method, is_of_dynamo: bool) -> str:
    """Advice on a line that torch.export fails on; `is_of_dynamo`: as Dynamo lacks something."""
    if is_of_dynamo:
        shapes = _shapes(module, method)
        with contextlib.suppress(Exception):
            torch.export.export(module, method.example_inputs, dynamic_shapes=shapes, strict=False)
            return (
                "Export the method without Dynamo, Method(…, strict=False): torch.export then "
                "takes it. Tensors that forward assigns to attributes must be buffers."
            )
    return "Write that line with other operators, or move it out of the model."


def _shapes(module: Any, method: Method) -> Any:
    """The dynamic shapes of a method's inputs, one by one where a graph that was captured has them.

    A method that takes `*inputs` has those of all in one place.
    """
    shapes, inputs = method.dynamic_shapes, method.example_inputs
    is_captured = isinstance(module, torch.fx.GraphModule)
    if not is_captured or not isinstance(shapes, tuple | list) or not shapes:
        return shapes
    last = shapes[-1]
    is_of_several = isinstance(last, tuple | list) and any(
        isinstance(each, tuple | list | dict) for each in last
    )
    if is_of_several and isinstance(inputs[len(shapes) - 1], torch.Tensor):
        return (*shapes[:-1], *last)
    return shapes


def check_eager(name: str, module: Any, method: Method, label: str) -> None:
    """Runs the model itself on its example inputs, where its export or lowering failed."""
    if isinstance(module, torch.export.ExportedProgram):
        return
    try:
        with torch.no_grad():
            module(*method.example_inputs)
    except Exception as error:
        if module is not method.module and _runs(method):
            said = " ".join(str(error).partition("\n")[0].split())[:_MOST_LETTERS].rstrip(".: ")
            raise BuildError(
                f'{label}: the method "{name}" fails once the recipe has quantized the weights of '
                f"its layers{_own_line(error)}: {type(error).__name__}: {said}.",
                "Layers whose weight the model reads outside of them, too, stay in float with "
                "another recipe for them (overrides of et_recipe).",
            ) from error
        shapes = ", ".join(
            f"{tuple(v.shape)} {str(v.dtype).removeprefix('torch.')}"
            if isinstance(v, torch.Tensor)
            else type(v).__name__
            for v in method.example_inputs
        )
        raise BuildError(
            f'{label}: the method "{name}" does not run on its example inputs ({shapes}): '
            f"{type(error).__name__}: {error}",
            "Correct example_inputs, or the model's forward.",
        ) from error


def _runs(method: Method) -> bool:
    try:
        with torch.no_grad():
            method.module(*method.example_inputs)
    except Exception:
        return False
    return True


def _check_constants(
    name: str, program: torch.export.ExportedProgram, method: Method, label: str
) -> None:
    """Fails where a number that callers give would be that of the example in every call."""
    inputs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    tests = [leaves(tuple(inputs)) for inputs in method.test_inputs]
    for number, spec in enumerate(inputs):
        if not isinstance(spec.arg, ConstantArgument):
            continue
        value = spec.arg.value
        others = [test[number] for test in tests if len(test) > number and test[number] != value]
        if isinstance(value, float) or others:
            raise BuildError(
                f'{label}: the method "{name}": input {number} ("{spec.arg.name}") is the number '
                f"{value}, which its program would keep in every call: got a "
                f"{type(value).__name__}, expected a tensor.",
                f"Give torch.tensor({value}) in example_inputs, or make it an attribute of the "
                "module and leave it out of the inputs.",
            )


def _check_dropout(name: str, program: torch.export.ExportedProgram, label: str) -> None:
    """Fails where dropout is left on: a program would draw other numbers in each call."""
    for module in control_flow_bodies.graphs(program.graph_module):
        for node in module.graph.nodes:
            if _drops(node):
                raise BuildError(
                    f'{label}: the method "{name}"{operators.at_line(node)}: {node.target} is in '
                    "training mode: its program would draw other numbers in each call.",
                    "Give the function the module's mode, as in F.dropout(x, p, self.training) "
                    "or dropout_p = self.p if self.training else 0.0; the modules are exported "
                    "in eval mode.",
                )


def _check_scale(name: str, program: torch.export.ExportedProgram, label: str) -> None:
    """Fails where attention is scaled by a root of a size that varies, which programs lack."""
    for module in control_flow_bodies.graphs(program.graph_module):
        for node in module.graph.nodes:
            if str(node.target) != "aten.scaled_dot_product_attention.default":
                continue
            width = node.args[0].meta["val"].shape[-1]
            if node.kwargs.get("scale") is None and not isinstance(width, int):
                raise BuildError(
                    f'{label}: the method "{name}"{operators.at_line(node)}: {node.target} scales '
                    f"by the root of the last dimension, which varies ({width}), and programs "
                    "compute no roots of sizes.",
                    "Fix the last dimension in dynamic_shapes, or give scale.",
                )


def _drops(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    arguments = {a.name: a.default_value for a in schema.arguments} if schema else {}
    probability = next((n for n in ("p", "dropout", "dropout_p") if n in arguments), None)
    named = "dropout" in (probability or "") or (schema and "dropout" in schema.name)
    if not probability or not named:
        return False
    arguments.update(zip(arguments, node.args, strict=False))
    arguments.update(node.kwargs)
    return bool(arguments[probability]) and arguments.get("train", True) is not False


def explain_values(error: Exception, label: str, what: str = "the model") -> None:
    """Fails with a sentence where torch cannot tell what a tensor's values would decide.

    Raises:
      BuildError: with the line of the model's code that the error has, and what to do.
    """
    said = (str(error).strip().splitlines() or [""])[0]
    is_one = type(error).__name__ in _OF_VALUES or any(part in said for part in _UNBOUNDED)
    if isinstance(error, BuildError) or not is_one:
        return
    raise BuildError(
        f"{label}: {what}{_own_line(error)}: a size or a branch follows from the values of a "
        f"tensor, and a program must know it, or a bound of it: {said}",
        "Use operators that keep their sizes (torch.where, products with a mask), move that part "
        "out of the model, or bound the size with torch._check.",
    ) from error


def _own_line(error: Exception) -> str:
    """The innermost line of the model's code in an error's trace: ", net.py:12"."""
    tools = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    others = ("site-packages", f"{tools}{os.sep}", os.path.dirname(os.__file__))
    # Dynamo runs no code of the model's, and notes where it was.
    frames = [
        *traceback.extract_tb(error.__traceback__),
        *(getattr(error, "real_stack", None) or ()),
    ]
    own = [frame for frame in frames if not any(part in frame.filename for part in others)]
    return f", {own[-1].filename}:{own[-1].lineno}" if own else ""
