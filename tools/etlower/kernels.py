"""Operators of a program that no library of ExecuTorch's has a kernel for.

The runtime's own registry is asked, not a list: that of the executorch package which lowers. Such
a program is written, and fails when it is loaded, unless an app brings the kernel. Of namespaces
that no library knows all kernels are an app's own.
"""

from __future__ import annotations

import importlib
from typing import Any

from torch.fx import Node

from etlower import operators

# Packages of upstream's whose kernels join the registry when they are imported.
_MORE = ("executorch.kernels.quantized", "executorch.extension.llm.custom_ops.custom_ops")


def missing(manager: Any) -> list[dict[str, Any]]:
    """Operators that a program calls and that nothing registers.

    Args:
      manager: upstream's ExecutorchProgramManager.

    Returns:
      By method and operator: `method`, `operator` ("aten::add.out"), `modules` (paths of those that
      call it, as far as they are known), `foreign`: whether no library has its namespace.
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
            "modules": _modules(manager.exported_program(method).graph_module, operator),
            "foreign": operator.partition("::")[0] not in known,
        }
        for method, operator in sorted(called)
        if operator not in registry
    ]


def registered() -> frozenset[str]:
    """Operators that the runtime in this process has: "aten::add.out"."""
    from executorch.extension.pybindings import portable_lib

    return frozenset(portable_lib._get_operator_names())


def _full(name: str, overload: str) -> str:
    return f"{name}.{overload}" if overload else name


def _modules(graph: Any, operator: str) -> list[str]:
    calls = (node for _, node in operators.walk(graph) if _called(node) == operator)
    modules = {operators.module_of(node) for node in calls}
    return sorted(modules - {""})


def _called(node: Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else _full(schema.name, schema.overload_name)
