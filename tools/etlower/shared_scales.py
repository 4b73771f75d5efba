"""Scales that annotations of PT2E share in a circle.

An annotation says of a value that it has the scale of another one, and torchao (0.18) has equal
specifications of one value share a scale as well. Where both together lead back to where they
began, as at a slice that is joined with itself beside other readers, it looks for the scale until
Python stops it, or asks for an observer that it has not made.
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import prepare
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    QuantizationSpecBase,
    SharedQuantizationSpec,
)

# A node, for its result, or an edge (source, node), as a SharedQuantizationSpec refers to them.
_Place = Any
# What torchao compares of two specifications of a value.
COMPARED = (
    *("dtype", "is_dynamic", "quant_min", "quant_max", "qscheme", "ch_axis"),
    *("scale", "zero_point"),
)


def untangle(model: GraphModule) -> list[Node]:
    """Has all that share a scale in a circle point to one of them, which says what it is.

    Args:
      model: an annotated graph; its annotations are changed only where torchao fails with them.

    Returns:
      Nodes of circles in which nothing says what the scale is.
    """
    specs = prepare._get_edge_or_node_to_qspec(model)
    try:
        prepare._get_obs_or_fq_map(
            prepare._get_edge_or_node_to_group_id(specs), specs, is_qat=False
        )
    except (AssertionError, RecursionError):
        return _point_to_first(_Groups(specs))
    return []


def _point_to_first(groups: _Groups) -> list[Node]:
    unknown = []
    for members in groups.members():
        if not any(isinstance(groups.specs[place], SharedQuantizationSpec) for place in members):
            continue
        first, *others = members
        spec = groups.stated(first)
        if spec is None:
            unknown += [_annotated(place) for place in members]
            continue
        _write(first, spec)
        for place in others:
            _write(place, SharedQuantizationSpec(first))
    return unknown


class _Groups:
    """Places that share a scale, as torchao has them share it, whatever refers to what."""

    def __init__(self, specs: dict[_Place, QuantizationSpecBase]) -> None:
        self.specs = specs
        self._parents = {place: place for place in specs}
        self._order = {place: position for position, place in enumerate(specs)}
        for place, spec in specs.items():
            if isinstance(spec, SharedQuantizationSpec) and spec.edge_or_node in specs:
                self._join(place, spec.edge_or_node)
        for place in specs:
            for other in _others_of_value(place):
                if other in specs and _are_equal(self.stated(place), self.stated(other)):
                    self._join(place, other)

    def members(self) -> list[list[_Place]]:
        """All groups, and their places, in the order of the graph."""
        found: dict[_Place, list[_Place]] = {}
        for place in self.specs:
            found.setdefault(self._first(place), []).append(place)
        return list(found.values())

    def stated(self, place: _Place) -> QuantizationSpecBase | None:
        """The first specification of a place's group that refers to no other place."""
        first = self._first(place)
        for other, spec in self.specs.items():
            if not isinstance(spec, SharedQuantizationSpec) and self._first(other) == first:
                return spec
        return None

    def _first(self, place: _Place) -> _Place:
        while self._parents[place] != place:
            place = self._parents[place]
        return place

    def _join(self, one: _Place, other: _Place) -> None:
        first, second = sorted((self._first(one), self._first(other)), key=self._order.__getitem__)
        self._parents[second] = first


def _others_of_value(place: _Place) -> list[_Place]:
    """Other places of the value that a node reads, where its annotation lets it share a scale."""
    if isinstance(place, Node):
        return []
    source, reader = place
    if not reader.meta[Q_ANNOTATION_KEY].allow_implicit_sharing:
        return []
    return [source, *((source, user) for user in source.users if user is not reader)]


def _are_equal(one: QuantizationSpecBase | None, other: QuantizationSpecBase | None) -> bool:
    if one is None or other is None:
        return False
    return all(prepare._has_same_attr(one, other, name) for name in COMPARED)


def _annotated(place: _Place) -> Node:
    node: Node = place if isinstance(place, Node) else place[1]
    return node


def _write(place: _Place, spec: QuantizationSpecBase) -> None:
    annotation = _annotated(place).meta[Q_ANNOTATION_KEY]
    if isinstance(place, Node):
        annotation.output_qspec = spec
    else:
        annotation.input_qspec_map[place[0]] = spec
