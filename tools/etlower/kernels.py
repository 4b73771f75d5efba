"""Operators of a program that no library of ExecuTorch's has a kernel for.

The runtime's own registry is asked, not a list: that of the executorch package which lowers. Such
a program is written, and fails when it is loaded, unless an app brings the kernel. Of namespaces
that no library knows all kernels are an app's own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from etbuild import BuildError
from executorch.exir.passes.executorch_prim_ops_registry import (
    _PYTHON_SYM_OPS_TO_EXECUTORCH_SYM_OPS,
)
from executorch.exir.verification import verifier
from executorch.exir.verification.arg_validator import EdgeOpArgValidator
from torch._export.verifier import SpecViolationError
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from etlower import operators
from etlower.replacing import replaced

# Packages of upstream's whose kernels join the registry when they are imported.
_MORE = ("executorch.kernels.quantized", "executorch.extension.llm.custom_ops.custom_ops")


def missing(manager: Any) -> list[dict[str, Any]]:
    """Operators that a program calls and that nothing registers.

    Args:
      manager: upstream's ExecutorchProgramManager.

    Returns:
      By method and operator: `method`, `operator` ("aten::add.out"), `modules` (paths of those that
      call it) and `lines` of code ("net.py:12"), as far as they are known, `foreign`: whether no
      library has its namespace.
    """
    plans = manager.executorch_program.execution_plan
    called = {(plan.name, _full(o.name, o.overload)) for plan in plans for o in plan.operators}
    registry = registered()
    if not all(operator in registry for _, operator in called):
        for package in _MORE:
            importlib.import_module(package)
        registry = registered()
    known = {operator.partition("::")[0] for operator in registry}
    return [
        {
            "method": method,
            "operator": operator,
            **_places(manager.exported_program(method).graph_module, operator),
            "foreign": operator.partition("::")[0] not in known,
        }
        for method, operator in sorted(called)
        if operator not in registry
    ]


def registered() -> frozenset[str]:
    """Operators that the runtime in this process has: "aten::add.out"."""
    from executorch.extension.pybindings import portable_lib

    return frozenset(portable_lib._get_operator_names())


@contextlib.contextmanager
def known_are_valid() -> Iterator[None]:
    """Lets upstream's check of graphs pass what is not core ATen and has a kernel in the runtime.

    The check is for backends. An operator that none of them takes needs a kernel, which is there.
    Functions of sizes that torch wrote in Python (`torch.sym_float`) have one as well. Sizes that
    vary keep their ranges where an operator has a list of results.
    """
    known = [*verifier.DISALLOW_LIST, *_beyond_core(), *_PYTHON_SYM_OPS_TO_EXECUTORCH_SYM_OPS]
    with replaced((verifier, "DISALLOW_LIST", known), (EdgeOpArgValidator, "run_node", _run_node)):
        yield


_upstreams_run_node = EdgeOpArgValidator.run_node


def _run_node(self: Any, node: Node) -> Any:
    """Checks a node as upstream does, but a list of results as one result.

    Upstream (ExecuTorch 1.5.1) takes the list's first tensor for the list and asks for its length:
    a size that varies has the example's from then on.
    """
    value = node.meta.get("val")
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    if [each.type for each in returns] != [torch.ListType.ofTensors()]:
        return _upstreams_run_node(self, node)
    node.meta["val"] = [value]
    try:
        return _upstreams_run_node(self, node)
    finally:
        node.meta["val"] = value


@functools.cache
def _beyond_core() -> list[OpOverload]:
    found = []
    for namespace, _, full in sorted(name.partition("::") for name in registered()):
        base, _, overload = full.partition(".")
        packet = getattr(torch.ops.aten, base, None) if namespace == "aten" else None
        if packet is None or overload not in packet.overloads():
            continue
        arguments = _arguments(getattr(packet, overload))
        others = (getattr(packet, other) for other in packet.overloads() if other != overload)
        found += [op for op in others if _arguments(op) == arguments and not op._schema.is_mutable]
    return [op for op in found if torch.Tag.core not in op.tags]


def _arguments(op: OpOverload) -> list[tuple[str, str]]:
    return [(each.name, str(each.type)) for each in op._schema.arguments if not each.is_out]


def _full(name: str, overload: str) -> str:
    return f"{name}.{overload}" if overload else name


def _places(graph: Any, operator: str) -> dict[str, list[str]]:
    calls = [node for _, node in operators.walk(graph) if _called(node) == operator]
    modules = {operators.module_of(node) for node in calls}
    # Without folders, which differ from run to run.
    lines = {operators.line_of(node).rpartition("/")[2] for node in calls}
    return {"modules": sorted(modules - {""}), "lines": sorted(lines - {""})}


def _called(node: Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else _full(schema.name, schema.overload_name)


@contextlib.contextmanager
def explained(graphs: Callable[[], Mapping[str, GraphModule]], label: str) -> Iterator[None]:
    """Explains upstream's errors on operators that are not core ATen, have no out variant, or get
    tensors of types that do not go together.

    Args:
      graphs: by method, as far as they were lowered.
      label: of the model.

    Raises:
      BuildError: with the operator, its inputs, and the line of the model.
    """
    try:
        yield
    except (AssertionError, SpecViolationError, RuntimeError) as error:
        _explain_decomposition(error, graphs(), label)
        _explain_types(error, label)
        _explain_empty(error, graphs(), label)
        not_core = {f"aten.{name}" for name in _NOT_CORE.findall(str(error))}
        refused = not_core | _without_out_variant(str(error))
        if not refused:
            raise
        raise BuildError(_refusal(graphs(), sorted(refused), label), _WITHOUT_KERNEL) from error


def _explain_types(error: Exception, label: str) -> None:
    found = _MISMATCHED.search(str(error)) if "mismatched dtypes" in str(error) else None
    if found is None:
        return
    operator, types, trace = found.groups()
    line = operators.line_in(trace)
    raise BuildError(
        f"{label}: the model calls {operator}{f' ({line})' if line else ''} with tensors of the "
        f"types {types.replace('torch.', '')}, and ExecuTorch's kernels take no such types.",
        "Convert them in the model first: x.float(), or x.to(other.dtype).",
    ) from error


def _explain_decomposition(error: Exception, graphs: Mapping[str, GraphModule], label: str) -> None:
    """Solvers of linear algebra end in a check of values, which upstream cannot trace."""
    if "token for effect" not in str(error):
        return
    called = {_packet(node) for graph in graphs.values() for _, node in operators.walk(graph)}
    solvers = sorted(name for name in called if _SOLVER.search(name.rpartition(".")[2]))
    raise BuildError(_refusal(graphs, solvers, label), _WITHOUT_KERNEL) from error


_SOLVER = re.compile("linalg|cholesky|^(inverse|pinverse|logdet|slogdet|det|lu_solve)$")


def _explain_empty(error: Exception, graphs: Mapping[str, GraphModule], label: str) -> None:
    if "0 in strides" not in str(error):
        return
    for method, graph in sorted(graphs.items()):
        for _, node in operators.walk(graph):
            if any(0 in tensor.shape for tensor in operators.inputs(node)):
                raise BuildError(
                    f'{label}: the method "{method}" calls {operators.name(node)}'
                    f"{operators.place_of(node)} with {operators.inputs_of(node)}, and ExecuTorch "
                    "has no order of memory for what that gives.",
                    "Leave empty tensors out of the model: decide in Python whether there is "
                    "anything to do.",
                ) from error


_MISMATCHED = re.compile(
    r"Operator: <EdgeOpOverload: ([\w.]+)>.*? with args: (.*)\n"
    r"stack trace: ((?:.|\n)*?)(?=\nOperator|\Z)"
)
_NOT_CORE = re.compile(r"Operator torch\._ops\.aten\.(\w+)\.\w+ is not in Core ATen")
_NAMED = re.compile(r"(\w+)::(\w+)")
_WITHOUT_KERNEL = (
    "Compute it of other operators, or move it out of the model. If the app that runs the program "
    "registers a kernel for it, keep the operator in the recipe (preserve_ops of its "
    "EdgeCompileConfig), and name it in app_operators of the program."
)


def _without_out_variant(text: str) -> set[str]:
    names = re.search(r"Missing out variants: \{(.*)\}", text)
    return {".".join(name) for name in _NAMED.findall(names[1])} if names else set()


def _packet(node: Node) -> str:
    """Name of an operator without its overload: "aten.add"."""
    return ".".join(operators.name(node).split(".")[:2])


def _refusal(graphs: Mapping[str, GraphModule], refused: Sequence[str], label: str) -> str:
    for method, graph in sorted(graphs.items()):
        for _, node in operators.walk(graph):
            if _packet(node) in refused:
                return (
                    f'{label}: the method "{method}" calls {operators.name(node)}'
                    f"{operators.place_of(node)} with {operators.inputs_of(node)}, and no library "
                    "of ExecuTorch has a kernel for it."
                )
    names = ", ".join(refused)
    return f"{label}: the model needs {names}, and no library of ExecuTorch has a kernel for it."
