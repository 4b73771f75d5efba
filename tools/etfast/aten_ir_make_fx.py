"""Decomposes a functional graph in one trace that runs no operator that stays as it is.

Replaces `_aot_export_joint_with_descriptors` of torch.export, on which `run_decompositions`
stands, and marks what `_export_to_aten_ir_make_fx` traced. ExecuTorch calls that three times for a
program. There each graph is run twice on tensors that note writes to them, over fake tensors, over
a tracer, to find out which inputs are written to and to give every node its shape; but few graphs
write to anything but buffers, and most nodes stay.

Why it is equivalent: the same tracer (`make_fx`) makes the same nodes in the same order. An
operator with a decomposition is run as there. One without gets a node of its own, and the fake
tensor that the trace before made for it, if its inputs are what they were then: tensors are marked
by the trace that made them, so what a pass has changed since is computed anew. Writes are the
copies into buffers at the end, or one `index_put_` or `index_copy_` for a buffer, which becomes an
operator that makes a tensor of its own; on any other graph upstream's function runs. A view of
such a buffer is made where it is used, as there: its debug handle says which node it came from.
Upstream makes nodes for sizes, too, which it throws away again, but which count in the names of
others: graphs with symbolic sizes are only traced here for backends that don't write names of
nodes down.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any

from etlower.replacing import replaced
from torch._functorch._aot_autograd.input_output_analysis import create_graph_signature
from torch.utils import _pytree as pytree

from etfast import functional_tracer
from etfast.unit import Unit

# Partitioners of backends whose payloads hold no names of nodes.
_NAMELESS = "executorch.backends.xnnpack."


def _is_nameless(partitioner: type) -> bool:
    """Tells whether a partitioner, maybe a recipe's own, is one of such a backend."""
    return any(each.__module__.startswith(_NAMELESS) for each in partitioner.__mro__)


def _signature(
    traced: functional_tracer.Traced, args: Any, kwargs: Any, fake_params_buffers: Any
) -> Any:
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
    export = _trace._export_to_aten_ir_make_fx
    generate = _program._gen_edge_manager_for_partitioners
    # Whether the backends of what is being lowered write no names of nodes down.
    nameless: list[bool] = []

    def _gen_edge_manager_for_partitioners(partitioner: Any, *args: Any, **kwargs: Any) -> Any:
        partitioners = [p for several in (partitioner or {}).values() for p in several]
        nameless.append(all(_is_nameless(type(each)) for each in partitioners))
        try:
            return generate(partitioner, *args, **kwargs)
        finally:
            nameless.pop()

    def _export_to_aten_ir_make_fx(*args: Any, **kwargs: Any) -> Any:
        artifact = export(*args, **kwargs)
        functional_tracer.mark_exported(artifact.gm)
        return artifact

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
            functional_tracer.check(mod, symbolic=bool(nameless and nameless[-1]))
            traced = functional_tracer.trace(mod, args, kwargs, decompositions)
        except functional_tracer.Unsuitable:
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
        functional_tracer.mark(graph_module)
        return graph_module, signature

    return replaced(
        (_program, "_gen_edge_manager_for_partitioners", _gen_edge_manager_for_partitioners),
        (_trace, "_export_to_aten_ir_make_fx", _export_to_aten_ir_make_fx),
        (_trace, "_aot_export_joint_with_descriptors", _aot_export_joint_with_descriptors),
    )


UNIT = Unit(
    name="aten_ir_make_fx",
    relies_on={
        "torch.export._trace": {
            "_export_to_aten_ir_make_fx": "66cda307e5804fc7",
            "_aot_export_joint_with_descriptors": "04b178e484c78a0f",
        },
        "torch._functorch.aot_autograd": {
            "aot_export_joint_with_descriptors": "ba40aec7a57ce009",
        },
        "torch._functorch._aot_autograd.graph_capture": {
            "aot_dispatch_base_graph": "925ff207a17e4eee",
        },
        "torch._functorch._aot_autograd.input_output_analysis": {
            "create_graph_signature": "367f7280b44123f9",
        },
        "torch._subclasses.functional_tensor": {
            "FunctionalTensorMode.__torch_dispatch__": "7b7572351c375e68",
        },
        "torch.fx.experimental.proxy_tensor": {
            "proxy_call": "879bdf47594b028f",
            "track_tensor_tree": "c6de8aaed9c07643",
        },
        "torch._export.utils": {
            "_special_op_to_preserve_cia": "00b0665a2cdc0355",
        },
        "executorch.exir.program._program": {
            "_gen_edge_manager_for_partitioners": "14a2b38bd338a215",
        },
    },
    install=_install,
)
