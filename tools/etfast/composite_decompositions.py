"""Finds and replaces operators that are composed of others in one go.

Replaces three functions of torch.export under `run_decompositions`, which ExecuTorch calls three
times for each method. They take the same time for a network of any size, and were half of a small
one's lowering. `_override_composite_implicit_decomp` gives 558 operators kernels under twenty keys,
each by a decorator whose annotations Python evaluates anew. `_collect_all_valid_cia_ops` asks for
all registrations once for each of forty namespaces, and `_materialize_cpp_cia_ops` looks each up.

Why it is equivalent: the same kernels stand under the same keys, tables of kernels are only read by
key, and what was there before comes back. Registrations are compared with those that were looked
up, so an operator that a library adds later is found. Upstream's condition is asked of those that
are composed, by this list or by a kernel in Python: it is false for all others.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from etlower.replacing import replaced
from torch._export import utils as export_utils

from etfast.unit import Unit

_KEY = torch._C.DispatchKey.CompositeImplicitAutograd


def _run_original(fake_tensor_mode: Any, _op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs an operator on fake tensors, whatever replaces it."""
    original = kwargs.pop("original_callable")
    with fake_tensor_mode:
        return original(*args, **kwargs)


@contextlib.contextmanager
def _override_composite_implicit_decomp(cia_ops_to_callable: Mapping[Any, Any]) -> Iterator[None]:
    from torch.export import exported_program as upstream

    autograd_keys = upstream._AUTOGRAD_ALIAS_BACKEND_KEYS_TO_OVERRIDE
    backend_keys = upstream._BACKEND_KEYS_TO_OVERRIDE
    before = {}
    for op, decomposition in cia_ops_to_callable.items():
        kernels = before[op] = op.py_kernels.copy()
        original = upstream._get_decomp_for_cia(op)
        op.py_kernels.update(
            dict.fromkeys(autograd_keys, upstream.autograd_not_implemented(op, deferred_error=True))
            | dict.fromkeys(backend_keys, original)
            | kernels
            | {_KEY: decomposition}
        )
        op._dispatch_cache.clear()
        if not upstream._is_op_registered_to_fake_rule(op):
            run = functools.partial(_run_original, original_callable=original)
            upstream.register_op_impl(op)(run)
    try:
        yield
    finally:
        for op, kernels in before.items():
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()
            upstream._deregister_op_impl(op)


def _install() -> contextlib.AbstractContextManager[None]:
    from torch.export import decomp_utils, exported_program

    materialize = export_utils._materialize_cpp_cia_ops
    known: list[str] = []

    def _materialize_cpp_cia_ops() -> None:
        registered = torch._C._dispatch_get_registrations_for_dispatch_key(_KEY.name)
        if registered != known:
            materialize()
            known[:] = registered

    def _collect_all_valid_cia_ops() -> set[Any]:
        _materialize_cpp_cia_ops()
        composed = set(known)
        result = set(export_utils._collect_all_valid_cia_ops_for_aten_namespace())
        for namespace in (getattr(torch.ops, name) for name in torch.ops._dir if name != "aten"):
            if isinstance(namespace, torch._ops._OpNamespace):
                result.update(
                    op
                    for packet in (getattr(namespace, name) for name in namespace)
                    for op in packet.op_overloads()
                    if (op.name() in composed or _KEY in op.py_kernels)
                    and export_utils._is_preservable_cia_op(op)
                )
        return result

    collect = "_collect_all_valid_cia_ops"
    override = "_override_composite_implicit_decomp"
    return replaced(
        (export_utils, "_materialize_cpp_cia_ops", _materialize_cpp_cia_ops),
        (export_utils, collect, _collect_all_valid_cia_ops),
        (exported_program, collect, _collect_all_valid_cia_ops),
        (decomp_utils, collect, _collect_all_valid_cia_ops),
        (exported_program, override, _override_composite_implicit_decomp),
    )


UNIT = Unit(
    name="composite_decompositions",
    relies_on={
        "torch.export.exported_program": {
            "_override_composite_implicit_decomp": "4422dc79d0792af7",
            "_split_decomp_table_to_cia_and_python_decomp": "a4ccae438dfcc5df",
        },
        "torch.export.decomp_utils": {
            "CustomDecompTable": "ee50b3c0dca0f8ca",
        },
        "torch._ops": {
            "OperatorBase.py_impl": "8173bd205b783783",
        },
        "torch._subclasses.fake_impls": {
            "register_op_impl": "405e93300718a185",
            "_deregister_op_impl": "b25dfd97c983a622",
        },
        "torch._export.utils": {
            "_materialize_cpp_cia_ops": "51472f6b4e2c3782",
            "_collect_all_valid_cia_ops": "1d09a99ea79bd377",
            "_collect_all_valid_cia_ops_for_namespace": "c26d5cd619830773",
            "_is_preservable_cia_op": "00d78e92c3d6d9f6",
            "_is_cia_op": "4588c37719fb8356",
            "_check_valid_to_preserve": "a225772212a823aa",
            "_get_decomp_for_cia": "3ae30c72c7d7bce2",
        },
    },
    install=_install,
)
