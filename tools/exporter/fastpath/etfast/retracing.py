"""A pass that traces a graph anew takes known results over, where upstream computes all again.

Replaces `_fx` of ExecuTorch's passes and of torch's, through which every node goes in every pass.
There the operator is run on fake tensors to find its result's shape and type: a millisecond a node
where shapes are symbolic, dozens of times a node.

Why it is equivalent: a result is taken over only where it came from running the same operator on
the very same fake tensors and on equal numbers, which is written down with the result when it is
computed. What is computed anew and turns out to say the same as what the node had before gives way
to that, so that what depends on it is known, too. Not taken over are results that may differ each
time: with sizes that depend on data, constants, of operators that write to or view their inputs.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from etfast.unit import Unit, Upstream, replaced

# Name of the attribute of a fake tensor that says where it came from.
_MADE = "_etfast_made"
# Name of the attribute that tells fake tensors apart: an address may be used again.
_SERIAL = "_etfast_serial"

_serials = itertools.count()
_REAL: Any = WeakTensorKeyDictionary()
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class _Unknown(Exception):
    """An argument that can't be compared."""


def key_of(target: Any, args: Any, kwargs: Any) -> tuple[Any, ...] | None:
    """What a result depends on, comparable; None: not only on what can be compared.

    Args:
      target: an operator.
      args: its arguments: fake tensors, numbers, lists of them.
      kwargs: more of them.
    """
    found: list[Any] = [target, torch.is_grad_enabled(), torch.get_default_dtype()]
    try:
        for arg in args:
            _add(found, arg)
        for name, arg in kwargs.items():
            found.append(name)
            _add(found, arg)
    except _Unknown:
        return None
    return tuple(found)


def _add(found: list[Any], arg: Any) -> None:
    kind = type(arg)
    if kind is FakeTensor:
        if arg.real_tensor is not None:
            raise _Unknown
        found.append(_serial(arg))
        found.append(None if arg.constant is None else _serial_of_real(arg.constant))
    elif kind is torch.Tensor or kind is torch.nn.Parameter:
        found.append(_serial_of_real(arg))
    elif kind in _PLAIN or kind is torch.memory_format:
        found.append(kind)
        found.append(arg)
    elif kind in _SYMBOLIC:
        found.append(kind)
        found.append(arg.node.expr)
    elif isinstance(arg, list | tuple):
        found.append(len(arg))
        for item in arg:
            _add(found, item)
    else:
        raise _Unknown


def _serial(tensor: FakeTensor) -> tuple[str, int]:
    """What tells this fake tensor from all others; a deep copy of it is another one."""
    known = tensor.__dict__.get(_SERIAL)
    if known is None or known[0] != id(tensor):
        known = (id(tensor), ("tensor", next(_serials)))
        tensor.__dict__[_SERIAL] = known
    return known[1]


def _serial_of_real(tensor: torch.Tensor) -> tuple[str, int]:
    """The same for a tensor with values; these may be saved, so nothing is written on them."""
    known = _REAL.get(tensor)
    if known is None:
        known = _REAL[tensor] = ("real", next(_serials))
    return known


def known_result(value: Any, key: tuple[Any, ...], mode: Any) -> bool:
    """Whether a value is what running an operator on the key's arguments gave, in this mode.

    Operators without fake arguments (`full`) give a result of the mode that they are run in.
    """
    if type(value) is FakeTensor:
        return value.fake_mode is mode and _was_made(value, key, (0, 0))
    if not isinstance(value, list | tuple) or not value:
        return False
    count = len(value)
    return all(
        type(item) is FakeTensor
        and item.fake_mode is mode
        and _was_made(item, key, (number + 1, count))
        for number, item in enumerate(value)
    )


def _was_made(tensor: FakeTensor, key: tuple[Any, ...], place: tuple[int, int]) -> bool:
    made = tensor.__dict__.get(_MADE)
    if made is None or made[0] != id(tensor) or tensor.constant is not None:
        return False
    return made[1].get(key) == place


def kept_result(value: Any, known: Any, key: tuple[Any, ...], arguments: set[int]) -> Any:
    """Writes down with a result what it was computed from.

    Args:
      value: the result.
      known: the result that the node had before, of whatever; None: it had none.
      key: what it was computed from.
      arguments: ids of the operator's tensors: one that is returned as it is came from elsewhere.

    Returns:
      The result; where that is no different from the known one the known one, so that what is
      computed from it is known, too.
    """
    items = [value] if type(value) is FakeTensor else value
    if not isinstance(items, list | tuple) or not items:
        return value
    for item in items:
        if type(item) is not FakeTensor or id(item) in arguments or not _repeatable(item):
            return value
    if len({id(item) for item in items}) < len(items):
        return value
    before = [known] if type(known) is FakeTensor else known
    if _equal(items, before, arguments):
        value, items = known, before
    for number, item in enumerate(items):
        place = (0, 0) if items is not value else (number + 1, len(items))
        made = item.__dict__.get(_MADE)
        if made is None or made[0] != id(item):
            made = item.__dict__[_MADE] = (id(item), {})
        made[1][key] = place
    return value


def _equal(items: Any, before: Any, arguments: set[int]) -> bool:
    """Whether results are what a node had before, but for being other objects."""
    if type(before) is not type(items) or len(before) != len(items):
        return False
    if len({id(item) for item in before}) < len(before):
        return False
    return all(
        type(old) is FakeTensor
        and id(old) not in arguments
        and old.fake_mode is new.fake_mode
        and _repeatable(old)
        and _facts(old) == _facts(new)
        for old, new in zip(before, items, strict=True)
    )


def _facts(tensor: FakeTensor) -> tuple[Any, ...]:
    """All that a fake tensor says about what it stands for."""
    return (
        tensor.dtype,
        tensor.fake_device,
        tensor.layout,
        tensor.requires_grad,
        tuple(map(_number, tensor.shape)),
        tuple(map(_number, tensor.stride())) if tensor.layout is torch.strided else None,
        _number(tensor.storage_offset()) if tensor.layout is torch.strided else None,
        torch._C._dispatch_keys(tensor).raw_repr(),
    )


def _number(size: Any) -> Any:
    return size if type(size) is int else size.node.expr


def _repeatable(tensor: FakeTensor) -> bool:
    if tensor.constant is not None or tensor.real_tensor is not None:
        return False
    return not (tensor._has_symbolic_sizes_strides and has_free_unbacked_symbols(tensor))


_OPERATORS: dict[Any, bool] = {}


def _functional(target: Any) -> bool:
    """Whether an operator's result depends on its arguments alone."""
    known = _OPERATORS.get(target)
    if known is None:
        schema = getattr(target, "_schema", None)
        arguments = getattr(schema, "arguments", ())
        written = any(a.alias_info is not None and a.alias_info.is_write for a in arguments)
        tags = getattr(target, "tags", ())
        known = _OPERATORS[target] = schema is not None and not (
            written
            # A view has the memory of its argument: it is not the one that it was before.
            or getattr(target, "is_view", False)
            or torch.Tag.dynamic_output_shape in tags
            or torch.Tag.data_dependent_output in tags
        )
    return known


def _unwrapped(value: Any, kind: type, name: str) -> Any:
    """An argument with the given attribute of each proxy value in the proxy value's place."""
    cls = type(value)
    if cls is kind:
        return getattr(value, name)
    if cls is list or cls is tuple or cls is immutable_list:
        return cls([_unwrapped(item, kind, name) for item in value])
    if cls is dict or cls is immutable_dict:
        return cls({key: _unwrapped(item, kind, name) for key, item in value.items()})
    if cls in _PLAIN or cls in _SYMBOLIC or cls is FakeTensor:
        return value
    return pytree.tree_map_only(kind, operator.attrgetter(name), value)


def _replacement(value_of: type) -> Any:
    """The `_fx` for passes whose values are of a class."""
    from executorch.exir.delegate import executorch_call_delegate
    from executorch.exir.dialects.edge._ops import EdgeOpOverload

    operators = (OpOverload, EdgeOpOverload)

    def _fx(self: Any, kind: str, target: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        args_data = _unwrapped(args, value_of, "data")
        kwargs_data = _unwrapped(kwargs, value_of, "data")
        key = None
        if kind == "call_function":
            if isinstance(target, operators) and _functional(target):
                # An operator of the edge dialect runs the one that it stands for.
                run = target._op if isinstance(target, EdgeOpOverload) else target
                key = key_of(run, args_data, kwargs_data)
            elif target is executorch_call_delegate:
                key = key_of(target, args_data[1:], kwargs_data)
                key = key and (*key, args_data[0])
        known = meta.data.get("val") if key else None
        if known is not None and known_result(known, key, self.tracer.fake_tensor_mode):
            res_data = known
        elif target is operator.getitem:
            res_data = target(*args_data)
        else:
            res_data = getattr(self.interpreter, kind)(target, args_data, kwargs_data)
            if key:
                leaves = {id(leaf) for leaf in pytree.tree_leaves((args_data, kwargs_data))}
                res_data = kept_result(res_data, known, key, leaves)
        name = None
        if isinstance(target, OpOverload):
            name = self.tracer.graph._target_to_str(target.overloadpacket.__name__)
        args_proxy = _unwrapped(args, value_of, "proxy")
        kwargs_proxy = _unwrapped(kwargs, value_of, "proxy")
        res_proxy = self.tracer.create_proxy(kind, target, args_proxy, kwargs_proxy, name=name)
        res_proxy.node.meta.update(meta.data)
        self.tracer.set_metadata(res_proxy.node, res_data)
        return value_of(res_data, res_proxy)

    return _fx


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.exir import pass_base
    from torch._export import pass_base as older

    return replaced(
        (pass_base._ExportPassBase, "_fx", _replacement(pass_base.ProxyValue)),
        (older._ExportPassBaseDeprecatedDoNotUse, "_fx", _replacement(older.ProxyValue)),
    )


UNIT = Unit(
    name="retracing",
    versions="torch 2.13.0, executorch 1.5.1",
    relies_on=(
        Upstream(
            "executorch.exir.pass_base",
            "_ExportPassBase._fx",
            ("d21aacbb5c107fba936892ddf1aa96b79921e01ca1e3cedd79da0fc115aa54ea",),
        ),
        Upstream(
            "executorch.exir.pass_base",
            "_ExportPassBase.ExportTracer.set_metadata",
            ("ca07dc1f7371761765a582fe2651ccbb4a390a95bccfa7d3b0a3a9d3991cc0b1",),
        ),
        Upstream(
            "torch._export.pass_base",
            "_ExportPassBaseDeprecatedDoNotUse._fx",
            ("fc5bee485d9e884b47c847e126cb831c4b971f69c61454a6dee743f827439dfb",),
        ),
        Upstream(
            "torch._export.pass_base",
            "_ExportPassBaseDeprecatedDoNotUse.ExportTracer.set_metadata",
            ("a220bfbf1f92d4a85fe9d7392846760fa3c97941b0d9e41f2583481b3a1a942f",),
        ),
    ),
    install=_install,
)
