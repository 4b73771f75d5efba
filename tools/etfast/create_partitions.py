"""Cuts partitions out by their own nodes, where upstream looks at all nodes for each.

Replaces what ExecuTorch's `_create_partitions_in_graph_module` and `to_backend` ask of the whole
graph for each partition: which nodes have its tag, whether a path leaves it and comes back, which
of its constants others use.

Why it is equivalent: tags don't change while partitions are cut out, so the nodes of all tags are
listed once, and sorted when they are asked for by their place in the graph of then. A path that
leaves a partition can't come back from behind its last node, as the graph is sorted: that is seen
once at the start, and sorting is the last thing that cutting out a partition does. Where the graph
isn't sorted, upstream's functions run.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from typing import Any

from etlower import partition_tags
from etlower.replacing import replaced
from torch.fx import Graph, GraphModule, Node

from etfast.unit import Unit


class Tags:
    """The nodes of a graph by tag.

    Attributes:
      graph: what they are of; a module may be given another one meanwhile.
      nodes: a tag's nodes, in no order that counts.
      data: names of the placeholders that stand for parameters, buffers and constants.
    """

    def __init__(self, graph_module: GraphModule, program: Any) -> None:
        self.graph = graph_module.graph
        self.nodes: dict[str, list[Node]] = defaultdict(list)
        for node in graph_module.graph.nodes:
            tag = partition_tags.of(node)
            if tag:
                self.nodes[tag].append(node)
        signature = program.graph_signature
        self.data = {
            *signature.inputs_to_parameters,
            *signature.inputs_to_buffers,
            *signature.inputs_to_lifted_tensor_constants,
        }

    def of(self, tag: str) -> list[Node]:
        """A tag's nodes in the order of the graph.

        Raises:
          RuntimeError: as upstream's, an output or an input has the tag, or a constant that another
            partition uses.
        """
        nodes = sorted(self.nodes.get(tag, ()))
        for node in nodes:
            if node.op == "output":
                raise RuntimeError(f"output node {node} should not be tagged")
            if node.op != "placeholder":
                continue
            if node.name not in self.data:
                raise RuntimeError(
                    "placeholder node for non-params, non-buffer, and non-tensor constants should "
                    f"not be tagged: {node} "
                )
            for user in node.users:
                users_tag = partition_tags.of(user)
                if users_tag != tag:
                    raise RuntimeError(
                        f"constant data node ({node}) is tagged with ({tag}) but has user ({user}) "
                        f"which has tag ({users_tag})"
                    )
        return nodes


def comes_back(partition: list[Node]) -> bool:
    """Tells whether a path leaves a partition of a sorted graph and leads back into it."""
    own = set(partition)
    last = max(node._sort_key for node in partition)
    queue = [user for node in own for user in node.users if user not in own]
    seen = set()
    while queue:
        node = queue.pop()
        if node in own:
            return True
        if node in seen or node._sort_key > last:
            continue
        seen.add(node)
        queue.extend(node.users)
    return False


def is_sorted(graph: Graph) -> bool:
    """Tells whether each node comes before all that use it."""
    return all(node < user for node in graph.nodes for user in node.users)


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.exir.backend import backend_api
    from torch.fx.passes.utils import fuser_utils

    create = backend_api._create_partitions_in_graph_module
    listed = backend_api._get_node_list_with_same_tag
    validate = fuser_utils.validate_partition
    duplicate = backend_api._maybe_duplicate_constant_nodes
    # What is being cut up: submodules of control flow come after, not within.
    current: list[Tags] = []

    def _create_partitions_in_graph_module(
        tagged_graph_module: GraphModule,
        partition_result: Any,
        owning_program: Any,
        is_submodule: bool,
    ) -> Any:
        given = (tagged_graph_module, partition_result, owning_program, is_submodule)
        if not is_sorted(tagged_graph_module.graph):
            return create(*given)
        current.append(Tags(tagged_graph_module, owning_program))
        # Upstream writes the whole graph out for a message that is shown when debugging alone.
        unseen = not logging.getLogger().isEnabledFor(logging.DEBUG)
        quiet = (
            replaced((GraphModule, "__str__", object.__repr__))
            if unseen
            else contextlib.nullcontext()
        )
        try:
            with quiet:
                return create(*given)
        finally:
            current.pop()

    def _get_node_list_with_same_tag(
        tagged_graph_module: GraphModule, tag: str, owning_program: Any
    ) -> list[Node]:
        if current and current[-1].graph is tagged_graph_module.graph and tag:
            return current[-1].of(tag)
        return listed(tagged_graph_module, tag, owning_program)

    def validate_partition(partition: list[Node]) -> bool:
        if current and partition and partition[0].graph is current[-1].graph:
            return not comes_back(partition)
        return validate(partition)

    def _maybe_duplicate_constant_nodes(tagged_exported_program: Any, tag: str) -> None:
        for node in tagged_exported_program.graph.find_nodes(op="placeholder"):
            if partition_tags.of(node) == tag and any(
                partition_tags.of(user) != tag for user in node.users
            ):
                duplicate(tagged_exported_program, tag)
                return

    return replaced(
        (backend_api, "_create_partitions_in_graph_module", _create_partitions_in_graph_module),
        (backend_api, "_get_node_list_with_same_tag", _get_node_list_with_same_tag),
        (backend_api, "_maybe_duplicate_constant_nodes", _maybe_duplicate_constant_nodes),
        (fuser_utils, "validate_partition", validate_partition),
    )


UNIT = Unit(
    name="create_partitions",
    relies_on={
        "executorch.exir.backend.backend_api": {
            "_create_partitions_in_graph_module": "2c8bd8d290ecfb2d",
            "_get_node_list_with_same_tag": "c23c9aa194460fcf",
        },
        "executorch.exir.backend.utils": {
            "_maybe_duplicate_constant_nodes": "fc17d3b7b99f9cf9",
            "_assign_new_tag": "96943ffbb443020b",
        },
        "executorch.exir.lowered_backend_module": {
            "create_submodule_from_nodes": "3279f5ec23b0b723",
        },
        "torch.fx.passes.utils.fuser_utils": {
            "fuse_as_graphmodule": "922a4119d015d0a0",
            "validate_partition": "a0c37557e1ac636a",
        },
        "torch.fx.passes.tools_common": {
            "legalize_graph": "6dc8094b32ebd463",
        },
    },
    install=_install,
)
