"""Generates a graph's Python code when it is asked for; upstream does so on each change.

Replaces `torch.fx.GraphModule.recompile`. Lowering changes graphs thousands of times, and calls
few of them: passes interpret them node by node.

Why it is equivalent: whoever calls the module, or asks for its `forward` or its code, gets code
generated from its graph, as torch's own `_LazyGraphModule` does. What a graph's code generator says
of the module's inputs and outputs is still set at once.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from etlower.replacing import replaced
from torch.fx import GraphModule
from torch.fx import graph as fx_graph
from torch.fx import graph_module as fx_graph_module
from torch.fx.experimental import _config as fx_config

from etfast.unit import Unit

# What generated code leaves in the module, as GraphModule.recompile sets it.
_GENERATED = ("_code", "_lineno_map", "_prologue_start")
# The class that GraphModule.__new__ makes for each module.
_OWN_CLASS = "GraphModuleImpl"


class _Later:
    """Replaces something generated in the class of one module, until someone asks for it."""

    def __init__(self, name: str, module: GraphModule, generate: Any) -> None:
        self._name = name
        self._module = weakref.ref(module)
        self._generate = generate

    def __get__(self, module: Any, owner: type) -> Any:
        owner_module = self._module() if module is None else module
        if owner_module is None:
            raise AttributeError(self._name)
        self._generate(owner_module)
        return getattr(owner if module is None else owner_module, self._name)


class _Code:
    """The result of `recompile`: torch's PythonCode, once someone looks at it."""

    def __init__(self, module: GraphModule, generate: Any) -> None:
        self._module = module
        self._generate = generate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generate(self._module), name)


def _install() -> contextlib.AbstractContextManager[None]:
    upstream = GraphModule.recompile
    reduce = GraphModule.__reduce__
    reduce_package = GraphModule.__reduce_package__

    def recompile(self: GraphModule) -> Any:
        cls = type(self)
        if fx_config.enrich_profiler_metadata or not cls.__qualname__.endswith(_OWN_CLASS):
            return upstream(self)
        if isinstance(self._graph._codegen, fx_graph._PyTreeCodeGen):
            self._in_spec = self._graph._codegen.pytree_info.in_spec
            self._out_spec = self._graph._codegen.pytree_info.out_spec
        for name in _GENERATED:
            self.__dict__.pop(name, None)
            setattr(cls, name, _Later(name, self, upstream))
        cls.forward = _Later("forward", self, upstream)
        if "_wrapped_call" not in vars(cls):
            call = cls.__call__ if "__call__" in vars(cls) else None
            cls._wrapped_call = fx_graph_module._WrappedCall(cls, call)
        cls.__call__ = _call_wrapped
        self._recompile_submodules()
        return _Code(self, upstream)

    def generated(self: GraphModule) -> None:
        if "_code" not in self.__dict__:
            upstream(self)

    def __reduce__(self: GraphModule) -> Any:
        generated(self)
        return reduce(self)

    def __reduce_package__(self: GraphModule, exporter: Any) -> Any:
        generated(self)
        return reduce_package(self, exporter)

    return replaced(
        (GraphModule, "recompile", recompile),
        (GraphModule, "__reduce__", __reduce__),
        (GraphModule, "__reduce_package__", __reduce_package__),
    )


def _call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._wrapped_call(self, *args, **kwargs)


UNIT = Unit(
    name="recompile",
    relies_on={
        "torch.fx.graph_module": {
            "GraphModule.recompile": "98adb1519c457ae4",
            "GraphModule.__new__": "9b3b555879e4a3e7",
            "GraphModule.__reduce__": "479fb053d55614ee",
            "GraphModule.code": "520d5912f275d853",
            "GraphModule._recompile_submodules": "d8d048e4dfec55eb",
            "_WrappedCall": "d6224e8eaeaba038",
        },
    },
    install=_install,
)
