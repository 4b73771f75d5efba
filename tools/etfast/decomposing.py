"""A functional graph is decomposed in one trace that runs no operator that stays as it is.

Replaces `_aot_export_joint_with_descriptors` of torch.export, on which `run_decompositions` stands.
ExecuTorch calls that three times for a program. There each graph is run twice on tensors that note
writes to them, over fake tensors, over a tracer, to find out which inputs are written to and to
give every node its shape; but few graphs write to anything but buffers, and most nodes stay.

Why it is equivalent: the same tracer (`make_fx`) makes the same nodes in the same order. An
operator with a decomposition is run as there. One without gets a node of its own, and the fake
tensor that the trace before made for it, if its inputs are what they were then: tensors are marked
by the trace that made them, so what a pass has changed since is computed anew. Writes are the
copies into buffers at the end alone; on any other graph upstream's function runs. That makes nodes
for sizes, too, which it throws away again, but which count in the names of others: graphs with
symbolic sizes are only traced here for backends that don't write names of nodes down.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any

import torch
from torch._export import utils as export_utils
from torch._functorch._aot_autograd.input_output_analysis import create_graph_signature
from torch.utils import _pytree as pytree

from etfast import tracing
from etfast.unit import Unit, Upstream, replaced

# Partitioners of backends whose payloads hold no names of nodes.
_NAMELESS = "executorch.backends.xnnpack."


def _signature(traced: tracing.Traced, args: Any, kwargs: Any, fake_params_buffers: Any) -> Any:
    """The signature of a traced graph, by upstream's function."""
    held = [*traced.parameters, *traced.buffers]
    return create_graph_signature(
        traced.graph_module,
        types.SimpleNamespace(
            tokens={},
            num_mutated_inp_runtime_indices=len(traced.written),
            input_info=[
                types.SimpleNamespace(mutates_data=name in traced.written) for name in held
            ],
        ),
        traced.inputs,
        traced.outputs,
        user_args_flat=pytree.tree_leaves((args, kwargs)),
        params_and_buffers_flat=list(fake_params_buffers.values()),
        param_names=traced.parameters,
        buffer_names=traced.buffers,
        trace_joint=False,
        num_user_fw_outs=None,
        loss_index=None,
    )


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.exir.program import _program
    from torch.export import _trace

    upstream = _trace._aot_export_joint_with_descriptors
    generate = _program._gen_edge_manager_for_partitioners
    materialize = export_utils._materialize_cpp_cia_ops
    # Whether the backends of what is being lowered write no names of nodes down.
    nameless: list[bool] = []
    known: list[str] = []

    def _gen_edge_manager_for_partitioners(partitioner: Any, *args: Any, **kwargs: Any) -> Any:
        partitioners = [p for several in (partitioner or {}).values() for p in several]
        nameless.append(all(type(p).__module__.startswith(_NAMELESS) for p in partitioners))
        try:
            return generate(partitioner, *args, **kwargs)
        finally:
            nameless.pop()

    def _materialize_cpp_cia_ops() -> None:
        # Upstream looks each of a thousand operators up, once for each namespace.
        key = "CompositeImplicitAutograd"
        registered = torch._C._dispatch_get_registrations_for_dispatch_key(key)
        if registered != known:
            materialize()
            known[:] = registered

    def _aot_export_joint_with_descriptors(
        stack: Any,
        mod: Any,
        args: Any,
        *,
        kwargs: Any,
        decompositions: Any,
        fake_params_buffers: Any,
        _record_nn_module_stack: bool = True,
    ) -> Any:
        try:
            tracing.check(mod, symbolic=bool(nameless and nameless[-1]))
            traced = tracing.trace(mod, args, kwargs, decompositions)
        except tracing.Unsuitable:
            graph_module, signature = upstream(
                stack,
                mod,
                args,
                kwargs=kwargs,
                decompositions=decompositions,
                fake_params_buffers=fake_params_buffers,
                _record_nn_module_stack=_record_nn_module_stack,
            )
        else:
            graph_module = traced.graph_module
            signature = _signature(traced, args, kwargs, fake_params_buffers)
        tracing.mark(graph_module)
        return graph_module, signature

    return replaced(
        (_program, "_gen_edge_manager_for_partitioners", _gen_edge_manager_for_partitioners),
        (export_utils, "_materialize_cpp_cia_ops", _materialize_cpp_cia_ops),
        (_trace, "_aot_export_joint_with_descriptors", _aot_export_joint_with_descriptors),
    )


UNIT = Unit(
    name="decomposing",
    versions="torch 2.13.0, executorch 1.5.1",
    relies_on=(
        Upstream(
            "torch.export._trace",
            "_aot_export_joint_with_descriptors",
            ("04b178e484c78a0fe3f2779fab03adfc793a7406782ce012d0fe11ce4668e050",),
        ),
        Upstream(
            "torch._functorch.aot_autograd",
            "aot_export_joint_with_descriptors",
            ("ba40aec7a57ce0091a5660efda0898d54fef9eb204bc9c6c2fd6b570edc88b65",),
        ),
        Upstream(
            "torch._functorch._aot_autograd.graph_capture",
            "aot_dispatch_base_graph",
            ("925ff207a17e4eeed68e35b13d728721949f089c6dd654616a16ff018ded5130",),
        ),
        Upstream(
            "torch._functorch._aot_autograd.input_output_analysis",
            "create_graph_signature",
            ("367f7280b44123f93649afc410d275ee4309e74f22838630bede301600819c33",),
        ),
        Upstream(
            "torch._subclasses.functional_tensor",
            "FunctionalTensorMode.__torch_dispatch__",
            ("7b7572351c375e68d6eaffb999146565a3cfa80bd81b949d2cace3102cd67ee7",),
        ),
        Upstream(
            "torch.fx.experimental.proxy_tensor",
            "proxy_call",
            ("879bdf47594b028f3ef7f54be83fa2479c0b5b9d48f76642a54103671e852726",),
        ),
        Upstream(
            "torch.fx.experimental.proxy_tensor",
            "track_tensor_tree",
            ("c6de8aaed9c076432f73a17b0ad2fe0438ff444e7342cf4e8ae3c49753601c75",),
        ),
        Upstream(
            "torch._export.utils",
            "_materialize_cpp_cia_ops",
            ("51472f6b4e2c37824078c061741bf2861dcc0da2f439e19ab099ce5d0711b033",),
        ),
        Upstream(
            "torch._export.utils",
            "_special_op_to_preserve_cia",
            ("00b0665a2cdc03559c9d97c259cf11e5112cba001c111ed2e7c24520701522d9",),
        ),
        Upstream(
            "executorch.exir.program._program",
            "_gen_edge_manager_for_partitioners",
            ("14a2b38bd338a21515eb7169fcc503dba66d11d1a981585dc05c923e8817534c",),
        ),
    ),
    install=_install,
)
