"""Takes known results over where a pass traces a graph anew; upstream computes all again.

Replaces `_fx` of ExecuTorch's passes and of torch's, through which every node goes in every pass.
There the operator is run on fake tensors to find its result's shape and type: a millisecond a node
where shapes are symbolic, dozens of times a node. Replaces `run_node` of their interpreters, too,
which describes each node in words for a message that is mostly never written; a pass that asks for
the words (`node_debug_str`) gets them then.

Why it is equivalent: a result is taken over only where it came from running the same operator on
the very same fake tensors and on equal numbers, which is written down with the result when it is
computed. What is computed anew and turns out to say the same as what the node had before gives way
to that, so that what depends on it is known, too. Not taken over are results that may differ each
time: with sizes that depend on data and are not their arguments', constants, of operators that
write to or view their inputs; nor what was computed before more became known of a symbolic size.
Graphs with control flow are upstream's: there each branch is compared with what it is called with,
and that must be as new as the branch.
"""

from __future__ import annotations

import contextlib
import operator
from typing import Any

from etlower.replacing import replaced
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree

from etfast.known_results import (
    PLAIN,
    SYMBOLIC,
    Seen,
    functional,
    kept_result,
    key_of,
    known_result,
)
from etfast.unit import Unit

# Names of attributes of a pass: whether it is in a graph with control flow, and the node at hand.
_ASIDE = "_etfast_aside"
_NODE = "_etfast_node"


def has_control_flow(graph_module: GraphModule) -> bool:
    """Tells whether a graph has branches or loops, whatever operator runs them."""
    return any(
        isinstance(getattr(graph_module, str(node.target), None), GraphModule)
        for node in graph_module.graph.find_nodes(op="get_attr", sort=False)
    )


def _left_alone(upstream: Any) -> Any:
    """A pass's `call_submodule`, which leaves graphs with control flow, and all in them, alone."""

    def call_submodule(self: Any, graph_module: GraphModule, inputs: Any) -> Any:
        outer = self.__dict__.get(_ASIDE, False)
        self.__dict__[_ASIDE] = outer or has_control_flow(graph_module)
        try:
            return upstream(self, graph_module, inputs)
        finally:
            self.__dict__[_ASIDE] = outer

    return call_submodule


def _unwrapped(value: Any, kind: type, name: str) -> Any:
    """An argument with the given attribute of each proxy value instead of the proxy value."""
    cls = type(value)
    if cls is kind:
        return getattr(value, name)
    if cls is list or cls is tuple or cls is immutable_list:
        return cls([_unwrapped(item, kind, name) for item in value])
    if cls is dict or cls is immutable_dict:
        return cls({key: _unwrapped(item, kind, name) for key, item in value.items()})
    if cls in PLAIN or cls in SYMBOLIC or cls is FakeTensor:
        return value
    return pytree.tree_map_only(kind, operator.attrgetter(name), value)


def _run_node(interpreter: type) -> Any:
    """The `run_node` of a pass's interpreter, which only notes the node."""

    def run_node(self: Any, n: Any) -> Any:
        self.node = n
        self.callback.__dict__[_NODE] = n
        return super(interpreter, self).run_node(n)

    return run_node


def _words() -> property:
    """A pass's `node_debug_str`: of the node at hand, or what the pass itself has written."""

    def words(self: Any) -> str | None:
        node = self.__dict__.get(_NODE)
        return self.__dict__.get("node_debug_str") if node is None else node.format_node()

    def write(self: Any, value: str | None) -> None:
        self.__dict__["node_debug_str"] = value
        self.__dict__[_NODE] = None

    return property(words, write)


def _replacement(value_of: type, owner: Any) -> Any:
    """The `_fx` for passes of a class, whose values are of another class."""
    from executorch.exir.delegate import executorch_call_delegate
    from executorch.exir.dialects.edge._ops import EdgeOpOverload

    from etfast import delegates

    operators = (OpOverload, EdgeOpOverload)
    seen = Seen()
    set_metadata = owner.ExportTracer.set_metadata
    upstream = owner._fx

    def _fx(self: Any, kind: str, target: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if self.__dict__.get(_ASIDE, False):
            return upstream(self, kind, target, args, kwargs, meta)
        args_data = _unwrapped(args, value_of, "data")
        kwargs_data = _unwrapped(kwargs, value_of, "data")
        key = run = None
        if kind == "call_function":
            if isinstance(target, operators) and functional(target):
                # An operator of the edge dialect runs the one that it stands for.
                run = target._op if isinstance(target, EdgeOpOverload) else target
                key = key_of(run, args_data, kwargs_data)
            elif target is executorch_call_delegate:
                key = key_of(target, args_data[1:], kwargs_data)
                key = key and (*key, args_data[0])
        known, mode = meta.data.get("val") if key else None, self.tracer.fake_tensor_mode
        if known is not None and known_result(known, key, mode):
            res_data = known
        elif target is operator.getitem:
            res_data = target(*args_data)
        elif key is None:
            res_data = getattr(self.interpreter, kind)(target, args_data, kwargs_data)
        else:
            leaves = pytree.tree_leaves((args_data, kwargs_data))
            what = mode, run, args_data, kwargs_data
            result = None
            if run is None:
                result = delegates.outputs(args_data[0], args_data[1:], mode)
                if result is not None and isinstance(known, list | tuple):
                    known = type(result)(known)
            elif known is not None and seen.holds(*what, known, leaves):
                result = known
            if result is None:
                result = self.interpreter.call_function(target, args_data, kwargs_data)
                if run is not None:
                    seen.put(*what, result, leaves)
            res_data = kept_result(result, known, key, leaves)
        name = None
        if isinstance(target, OpOverload):
            name = self.tracer.graph._target_to_str(target.overloadpacket.__name__)
        args_proxy = _unwrapped(args, value_of, "proxy")
        kwargs_proxy = _unwrapped(kwargs, value_of, "proxy")
        res_proxy = self.tracer.create_proxy(kind, target, args_proxy, kwargs_proxy, name=name)
        res_proxy.node.meta.update(meta.data)
        if type(res_data) is FakeTensor and type(self.tracer).set_metadata is set_metadata:
            # What it writes down for a single fake tensor.
            res_proxy.node.meta["val"] = res_data
            res_proxy.node.meta["tensor_meta"] = None
        else:
            self.tracer.set_metadata(res_proxy.node, res_data)
        return value_of(res_data, res_proxy)

    return _fx


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.exir import pass_base
    from torch._export import pass_base as older

    owners = (
        (pass_base._ExportPassBase, pass_base.ProxyValue),
        (older._ExportPassBaseDeprecatedDoNotUse, older.ProxyValue),
    )
    return replaced(
        *((owner, "_fx", _replacement(value_of, owner)) for owner, value_of in owners),
        *((owner, "call_submodule", _left_alone(owner.call_submodule)) for owner, _ in owners),
        *((owner, "node_debug_str", _words()) for owner, _ in owners),
        *(
            (owner.ExportInterpreter, "run_node", _run_node(owner.ExportInterpreter))
            for owner, _ in owners
        ),
    )


UNIT = Unit(
    name="export_pass",
    relies_on={
        "executorch.exir.pass_base": {
            "_ExportPassBase._fx": "d21aacbb5c107fba",
            "_ExportPassBase.call_submodule": "d0245b732570ca52",
            "_ExportPassBase.ExportTracer.set_metadata": "ca07dc1f73717617",
            "_ExportPassBase.ExportInterpreter.run_node": "4825448c64e2c672",
        },
        "torch._export.pass_base": {
            "_ExportPassBaseDeprecatedDoNotUse._fx": "fc5bee485d9e884b",
            "_ExportPassBaseDeprecatedDoNotUse.call_submodule": "62f7a41be427a3e0",
            "_ExportPassBaseDeprecatedDoNotUse.ExportTracer.set_metadata": "a220bfbf1f92d4a8",
            "_ExportPassBaseDeprecatedDoNotUse.ExportInterpreter.run_node": "4825448c64e2c672",
        },
        "torch.fx.experimental.symbolic_shapes": {
            "ShapeEnv._set_replacement": "4e295501e5df4300",
        },
    },
    install=_install,
)
