"""etlower.inputs: copies that keep what torch does not copy, and inputs in the example's order."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from etbuild import BuildError
from etlower import expected, flags, model
from etlower.cases import outputs_of
from etlower.inputs import deep_copy, like_example
from etlower.outputs import Tolerance, difference
from executorch.exir import to_edge
from request_files import install, request
from runner.runtime import Program
from torch.utils import _pytree

NET = """
import torch
from etbuild import Method, ModelSpec

class Net(torch.nn.Module):
    def forward(self, x, scales):
        return x * scales["small"] - scales["more"]["large"] + scales["more"]["least"]

def example():
    more = {"large": torch.full((2,), 4.0), "least": torch.full((2,), 8.0)}
    return torch.ones(2), {"small": torch.full((2,), 2.0), "more": more}

def build():
    x, scales = example()
    more = dict(reversed(scales["more"].items()))
    turned = {"more": more, "small": scales["small"] * 3}
    return ModelSpec({"forward": Method(Net(), (x, scales), test_inputs=[[x, turned]])})

def keyless():
    x, scales = example()
    other = (x, {"tall": x, "more": x})
    return ModelSpec({"forward": Method(Net(), (x, scales), test_inputs=[other])})
"""


class Pair(NamedTuple):
    """Two parts with names."""

    left: Any
    right: Any


@pytest.mark.parametrize(
    ("value", "example"),
    [
        ({"b": 1, "a": 2}, {"a": 0, "b": 0}),
        (({"b": {"d": 1, "c": 2}, "a": 3},), ({"a": 0, "b": {"c": 0, "d": 0}},)),
        ([OrderedDict(b=1, a=2), 3], [OrderedDict(a=0, b=0), 0]),
        ({"b": 1, "a": 2}, OrderedDict(a=0, b=0)),
        (Pair({"b": 1, "a": 2}, 3), Pair({"a": 0, "b": 0}, 0)),
        ({2: "two", 1: "one"}, {1: "", 2: ""}),
        ((None, [], {"a": ()}), (None, [], {"a": ()})),
    ],
)
def test_dicts_take_the_order_of_the_example(value: Any, example: Any) -> None:
    got = like_example(value, example, "input")
    by_path = [dict(_pytree.tree_flatten_with_path(tree)[0]) for tree in (got, value)]
    assert by_path[0] == by_path[1]
    assert _pytree.tree_structure(got) == _pytree.tree_structure(example)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            ({"a": 1},),
            "input is not of the structure of the example inputs: got .*, expected .*'b'",
        ),
        (({"a": 1, "b": 2, "c": 3},), r"got \[0\]\['c'\], expected"),
        (({"a": 1, "x": 3},), r"got \[0\]\['x'\], expected \[0\]\['b'\]\."),
        (({"a": 1, "b": 2}, 3), r"got \[1\], expected"),
        (7, "got one value, expected"),
    ],
)
def test_other_keys_are_an_error(value: Any, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        like_example(value, ({"a": 0, "b": 0},), "input")


def differences(program: Path, asked: flags.Request) -> list[str]:
    """Sentences on what a program gives, and the eager model does not."""
    cases = list(expected.of_model(model.load_spec(asked)))
    assert cases
    problems = []
    with Program(program) as opened:
        for case in cases:
            opened.reset()
            got = outputs_of(opened, case.method, case.inputs)
            pairs = zip(got, case.outputs, strict=True)
            problems += [difference(g, e, Tolerance(1e-6, 0), case.method) for g, e in pairs]
    return [problem for problem in problems if problem]


def test_programs_and_eager_models_get_the_same_inputs(tmp_path: Path) -> None:
    """Through the runtime: the test's input has its keys in another order."""
    install(tmp_path, net=NET)
    method = model.load_spec(request(output=tmp_path)).methods["forward"]
    program = tmp_path / "net.pte"
    program.write_bytes(
        to_edge(torch.export.export(method.module, method.example_inputs)).to_executorch().buffer
    )
    assert differences(program, request(output=tmp_path)) == []


def test_other_keys_name_the_method(tmp_path: Path) -> None:
    install(tmp_path, net=NET)
    with pytest.raises(BuildError) as error:
        model.load_spec(request(entry_point="net:keyless"))
    assert str(error.value).startswith(
        '//m:net: the method "forward": test input 0 is not of the structure of the example '
        "inputs: got [1]['tall'], [1]['more'], expected [1]['small'], [1]['more']['large'], "
        "[1]['more']['least']."
    )


def test_programs_that_were_exported_with_keywords(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor, *, a: torch.Tensor, b: dict) -> torch.Tensor:
            return x + 2 * a - b["d"] * b["c"]

    x = torch.ones(2)
    named = {"b": {"d": x * 2, "c": x * 3}, "a": x * 4}
    exported = torch.export.export(Net(), (x,), named)
    file = tmp_path / "net.pt2"
    torch.export.save(exported, file)
    install(
        tmp_path, net=f"import torch\ndef build():\n    return torch.export.load({str(file)!r})\n"
    )
    program = tmp_path / "net.pte"
    program.write_bytes(to_edge(exported).to_executorch().buffer)
    assert differences(program, request()) == []


class Computed(torch.nn.Module):
    """A module that keeps a tensor that was computed from its parameter, in several places."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(4.0))
        self.twice = 2 * self.w
        self.listed = [self.twice, {"view": self.twice[1:]}]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(4,)."""
        return x * self.listed[0]


def test_a_weight_that_is_computed_anew() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = torch.nn.utils.weight_norm(torch.nn.Linear(4, 4))
    x = torch.randn(2, 4)
    torch.testing.assert_close(deep_copy(net)(x), net(x))


def test_computed_tensors_are_copied_once() -> None:
    net = Computed()
    copied = deep_copy(net)
    assert copied.listed[0] is copied.twice and copied.twice is not net.twice
    torch.testing.assert_close(copied(torch.ones(4)), net(torch.ones(4)))
    with torch.no_grad():
        net.twice.zero_()
    assert copied.listed[1]["view"].tolist() == [2.0, 4.0, 6.0]


def test_what_stays_itself_stays() -> None:
    net = Computed()
    copied = deep_copy(net, {id(net.w): net.w})
    assert copied.w is net.w and deep_copy(net).w is not net.w
    assert torch.Tensor.__deepcopy__.__name__ == "__deepcopy__"
