"""Inlines what a model computes under `torch.no_grad()`, for quantizers.

`torch.export` gives such a region a graph of its own. Quantizers see a method's graph only, so what
lies in a region would have no scales. OpenVINO's quantizer fails on it.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

_REGION = torch.ops.higher_order.wrap_with_set_grad_enabled


def inline_regions(module: GraphModule) -> None:
    """Inlines the regions of a graph, those in regions as well, and recompiles it."""
    # What is inlined may have regions, which then follow as nodes of this graph.
    while regions := module.graph.find_nodes(op="call_function", target=_REGION):
        for region in regions:
            _inline(module, region)
        module.recompile()


def _inline(module: GraphModule, region: Node) -> None:
    _, body, *operands = region.args
    path = body.target  # type: ignore[union-attr]
    nodes = module.get_submodule(path).graph.nodes  # type: ignore[union-attr, arg-type]
    inputs = [node for node in nodes if node.op == "placeholder"]
    copies = dict(zip(inputs, operands, strict=True))
    results: tuple[Node, ...] = ()
    with module.graph.inserting_before(region):
        for node in nodes:
            if node.op == "output":
                results = map_arg(node.args[0], copies.__getitem__)
            elif node.op != "placeholder":
                copy = module.graph.node_copy(node, copies.__getitem__)
                if node.op == "get_attr":
                    copy.target = f"{path}.{node.target}"
                copies[node] = copy
    for user in list(region.users):
        assert user.target is operator.getitem, user
        user.replace_all_uses_with(results[user.args[1]])  # type: ignore[index]
        module.graph.erase_node(user)
    module.graph.erase_node(region)
    if not body.users:  # type: ignore[union-attr]
        module.graph.erase_node(body)  # type: ignore[arg-type]
        if all(node.op != "get_attr" for node in nodes):
            module.delete_submodule(path)  # type: ignore[arg-type]
