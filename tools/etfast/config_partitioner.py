"""Answers once what XNNPACK's partitioner asks of a program again for each node.

Replaces `get_matched_nodes_from_configs` of ExecuTorch's partitioner, for whose time the tables of
a signature are kept, and so are the groups of nodes that come from one linear layer; and, for the
same reason, torch.export's `_populate_param_buffer_metadata_to_new_gm`. Upstream makes a table of
all inputs to find one of them, for each node, and walks over the whole graph for each `addmm`.

Why it is equivalent: both functions and the constraints that they call only read. A constraint that
gives a node other arguments for a while (`AddmmConfig`) asks for no groups until it has put the old
ones back. What is kept is dropped when the function returns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etlower.replacing import replaced
from torch._export import utils as export_utils
from torch.export import _trace, exported_program
from torch.export.graph_signature import ExportGraphSignature

from etfast.unit import Unit

_TABLES = ("inputs_to_buffers", "inputs_to_lifted_tensor_constants", "inputs_to_parameters")
# The attribute of a signature that has its tables, while they are kept.
_KEPT = "_etfast_tables"


@contextlib.contextmanager
def _keeping(signature: ExportGraphSignature) -> Iterator[None]:
    """Has a signature make each table once."""
    if _KEPT in vars(signature):
        yield
        return
    vars(signature)[_KEPT] = {}
    try:
        yield
    finally:
        del vars(signature)[_KEPT]


def _kept(name: str) -> property:
    upstream = vars(ExportGraphSignature)[name].fget

    def table(signature: ExportGraphSignature) -> Mapping[str, str]:
        kept = vars(signature).get(_KEPT)
        if kept is None:
            return upstream(signature)
        if name not in kept:
            kept[name] = upstream(signature)
        return kept[name]

    return property(table)


class _Groups:
    """The nodes that come from one layer, by graph, while a partitioner asks for them."""

    def __init__(self, upstream: Callable[..., Any]) -> None:
        self._upstream = upstream
        self._asking: Any = None
        self._kept: dict[Any, Any] = {}

    @contextlib.contextmanager
    def of(self, graph: Any) -> Iterator[None]:
        """Keeps the groups of one graph."""
        before = self._asking, self._kept
        self._asking, self._kept = graph, {}
        try:
            yield
        finally:
            self._asking, self._kept = before

    def find(self, graph: Any, wanted: list[Any], *filters: Any) -> Any:
        """As `get_source_partitions`."""
        if graph is not self._asking or filters:
            return self._upstream(graph, wanted, *filters)
        key = tuple(wanted)
        if key not in self._kept:
            self._kept[key] = self._upstream(graph, wanted)
        return self._kept[key]


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.backends.xnnpack.partition.config import gemm_configs
    from executorch.exir.backend.canonical_partitioners import config_partitioner

    partitioner = config_partitioner.ConfigerationBasedPartitioner
    match = partitioner.get_matched_nodes_from_configs
    populate = export_utils._populate_param_buffer_metadata_to_new_gm
    groups = _Groups(gemm_configs.get_source_partitions)

    def matched(self: Any, ep: Any) -> Any:
        with _keeping(ep.graph_signature), groups.of(ep.graph):
            return match(self, ep)

    def populated(metadata: Any, graph_module: Any, signature: ExportGraphSignature) -> None:
        with _keeping(signature):
            populate(metadata, graph_module, signature)

    name = populate.__name__
    return replaced(
        (partitioner, match.__name__, matched),
        (gemm_configs, "get_source_partitions", groups.find),
        (exported_program, name, populated),
        (_trace, name, populated),
        *((ExportGraphSignature, table, _kept(table)) for table in _TABLES),
    )


UNIT = Unit(
    name="config_partitioner",
    relies_on={
        "executorch.backends.xnnpack.partition.config.gemm_configs": {
            "AddmmConfig": "fb9e9b5db5fc6af6",
        },
        "executorch.exir.backend.canonical_partitioners.config_partitioner": {
            "ConfigerationBasedPartitioner.get_matched_nodes_from_configs": "0a4b7b5eef4b1a06",
            "is_constant_data": "87f02620097396a2",
        },
        "torch._export.utils": {"_populate_param_buffer_metadata_to_new_gm": "89e75119b33fa818"},
        "torch.export.graph_signature": {
            "ExportGraphSignature.inputs_to_buffers": "46d089e80e39192e",
            "ExportGraphSignature.inputs_to_lifted_tensor_constants": "267dde1485fc2c13",
            "ExportGraphSignature.inputs_to_parameters": "9570497adc19a1c4",
        },
        "torch.fx.passes.utils.source_matcher_utils": {"get_source_partitions": "2efa189daa77e24f"},
    },
    install=_install,
    needs=("executorch.backends.xnnpack.partition.config.gemm_configs",),
)
