"""Tracers make of arguments what they would have made of them without the unit."""

from __future__ import annotations

import collections
import enum
import gc
from typing import Any

import pytest
import torch
from etfast import create_arg, path
from torch.fx import Graph, Proxy
from torch.fx.experimental.proxy_tensor import PythonKeyTracer

Pair = collections.namedtuple("Pair", "one other")


class Choice(enum.IntEnum):
    FIRST = 1


@pytest.mark.parametrize(
    "value",
    [
        1,
        2.5,
        "text",
        True,
        None,
        torch.float16,
        torch.device("cpu"),
        torch.contiguous_format,
        [1, [2, (3, None)]],
        (),
        torch.Size([1, 2]),
        {"a": [1], "b": 2},
        slice(1, None),
        Choice.FIRST,
        torch.ops.aten.add.Tensor,
    ],
    ids=str,
)
def test_the_same_argument(value: Any) -> None:
    tracer = PythonKeyTracer()
    before = tracer.create_arg(value)
    with path.installed(path.units(["create_arg"])):
        after = tracer.create_arg(value)
    assert after == before
    assert type(after) is type(before)


def test_proxies_in_lists() -> None:
    tracer = PythonKeyTracer()
    tracer.graph = Graph()
    proxy = Proxy(tracer.graph.placeholder("x"), tracer)
    with path.installed(path.units(["create_arg"])):
        assert tracer.create_arg([proxy, (proxy, 1)]) == [proxy.node, (proxy.node, 1)]


def test_what_it_does_not_know_is_upstreams() -> None:
    asked: list[Any] = []
    create = create_arg.looking_first(lambda _, a: asked.append(a))
    pair = Pair(1, 2)
    for value in (pair, Choice.FIRST, torch.ones(1)):
        create(None, value)
    assert [id(a) for a in asked] == [id(pair), id(Choice.FIRST), id(asked[2])]


def test_the_collector_is_as_before() -> None:
    before = gc.get_threshold()
    with path.installed(path.units(["garbage_collection"])):
        assert gc.get_threshold() != before
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
