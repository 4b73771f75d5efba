"""Groups weights by the modules of their qualified names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from etlink.lowered import Index

from etcli.report.contents import payload_bytes
from etcli.report.treemap import Node

# Fewer are shown side by side.
_MANY = 12
# End of the names that XNNPACK's partitioner makes up.
_FUSED = "_fused_bn"


def by_module(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Nests nodes whose names are qualified: those of "layers.3.…" below "layers.3".

    Args:
      nodes: of one kind, without children.

    Returns:
      The same bytes; a part with a single node is that node.
    """
    if len(nodes) < _MANY:
        return tuple(nodes)
    start = len(common_prefix([n.name for n in nodes]))
    parts: dict[str, list[Node]] = {}
    for node in nodes:
        parts.setdefault(_part(node.name[start:]), []).append(node)
    if len(parts) < 2 or len(parts) == len(nodes):
        return tuple(nodes)
    groups = []
    for name, inside in parts.items():
        if len(inside) == 1:
            groups.append(inside[0])
        else:
            size = sum(n.size for n in inside)
            groups.append(Node(name, size, inside[0].kind, children=tuple(inside)))
    return tuple(groups)


def common_prefix(names: Sequence[str]) -> str:
    """The components that all qualified names begin with, with the dot: "transformer."."""
    first = names[0].split(".")[:-1] if names else []
    for name in names:
        parts = name.split(".")[:-1]
        while first and parts[: len(first)] != first:
            first.pop()
    return ".".join([*first, ""]) if first else ""


def _part(name: str) -> str:
    """The first component, with the number that follows: "layers.3"."""
    parts = name.split(".")
    numbered = len(parts) > 2 and parts[1].isdecimal()
    return ".".join(parts[:2]) if numbered else parts[0]


def of_program(index: Index, calls: Mapping[str, Any]) -> dict[str, Any]:
    """Relates the runtime's events and a program's bytes to modules of the model.

    Args:
      index: of the lowered program.
      calls: modules by method and instruction, as EtLower writes them.

    Returns:
      `calls`; `bytes`, by module those of its own weights; `unnamed_bytes` of weights whose name is
      unknown; `payload_bytes` of delegates, whose backends may keep weights in them.
    """
    called = {name for method in calls.values() for name in _called(method)}
    known = {part for name in called for part in above(name)} - {""}
    sizes: dict[str, int] = {}
    unnamed = 0
    for name, size in _weights(index):
        if name:
            module = _owner(name, known)
            sizes[module] = sizes.get(module, 0) + size
        else:
            unnamed += size
    return {
        "calls": calls,
        "bytes": sizes,
        "unnamed_bytes": unnamed,
        "payload_bytes": sum(payload_bytes(index).values()),
    }


def above(module: str) -> list[str]:
    """A module's name and those of the modules around it: "", "layers", "layers.3"."""
    parts = module.split(".") if module else []
    return [".".join(parts[:n]) for n in range(len(parts) + 1)]


def _called(method: Mapping[str, Any]) -> Iterator[str]:
    yield from method["kernels"].values()
    for nodes in method["delegates"].values():
        yield from (module for module, _, _ in nodes)


def _owner(name: str, known: Set[str]) -> str:
    """The module of a weight; a scale "fc.weight.scale" belongs to the module "fc".

    Upstream calls the weights of a convolution that a batch norm was folded into by its name with
    "_" for dots: "_features_0_weight_fused_bn".
    """
    if name.endswith(_FUSED):
        flat = name.removesuffix(_FUSED).lstrip("_")
        modules = (m for m in known if flat.startswith(f"{m.replace('.', '_').lstrip('_')}_"))
        return max(modules, key=len, default="")
    around = above(name)[:-1]
    return next((module for module in reversed(around) if module in known), around[-1])


def _weights(index: Index) -> Iterator[tuple[str, int]]:
    """Name and bytes of each weight, once; empty: it has no name."""
    names = {tensor.buffer: tensor.name for tensor in index.tensors}
    seen: set[str] = set()
    for named in index.named_data:
        if named.sha256 not in seen:
            seen.add(named.sha256)
            yield named.names[0] if named.names else "", named.size
    for constant in index.constants:
        yield names.get(constant.buffer, ""), constant.size
