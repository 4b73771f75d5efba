"""The types of a class's fields are looked up once, and the JSON is upstream's."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from etfast import path
from executorch.exir._serialize import _dataclass


@dataclass
class Scale:
    value: float


@dataclass
class Weight:
    name: str
    scale: Scale
    data: bytes


WEIGHTS = [Weight("a", Scale(0.5), b"\x00\xff"), Weight("b", Scale(2.0), b"")]


def encoded() -> str:
    return json.dumps(WEIGHTS, cls=_dataclass._DataclassEncoder)


def test_each_class_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[type] = []
    hints = _dataclass.get_type_hints

    def watched(cls: type) -> dict[str, type]:
        asked.append(cls)
        return hints(cls)

    monkeypatch.setattr(_dataclass, "get_type_hints", watched)
    upstream = encoded()
    assert len(asked) == 2 * 4
    asked.clear()
    with path.installed(path.units(["dataclass_encoder"])) as used:
        assert used.active == ["dataclass_encoder"]
        assert encoded() == upstream
    assert asked == [Weight, Scale]
