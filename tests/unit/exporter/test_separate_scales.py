"""Joins of values of very different ranges stay in float, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from etbuild import Method, ModelSpec
from etlower import separate_scales
from etlower.arrays import of_torch
from etlower.dead_slices import Slices
from etlower.stages import Watch
from quiet_torch import outputs, run, xnnpack
from torch import nn
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

Join = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

JOINS: dict[str, Join] = {
    "cat": lambda a, b: torch.cat([a, b], 1),
    "cat, the small one first": lambda a, b: torch.cat([b, a], 1),
    "of three": lambda a, b: torch.cat([a, b, a * 0.5], 2),
    "stack": lambda a, b: torch.stack([a, b], 1),
    "hstack": lambda a, b: torch.hstack([a, b]),
    "then views": lambda a, b: torch.cat([a, b], 1).permute(0, 2, 1).reshape(1, -1, 2, 4),
    "then arithmetic": lambda a, b: torch.relu(torch.cat([a, b], 1) * 2.0 + 1.0),
    "stack, then arithmetic": lambda a, b: torch.stack([a, b], 1) * 0.5,
    "in another one": lambda a, b: torch.cat([torch.cat([b, b * 2], 1), a], 1),
    "then with itself": lambda a, b: torch.cat([y := torch.cat([a, b], 1), y * 0.5], 2),
    "stack, then of two": lambda a, b: torch.cat([torch.stack([a, b], 1).flatten(1, 2)] * 2, 1),
    "two with one input": lambda a, b: torch.cat([torch.cat([a, b], 1), torch.cat([b, b], 1)], 2),
    "scattered": lambda a, b: torch.slice_scatter(torch.cat([a, a], 1), b, 1, 0, 4) * 1.5,
}


class Function(nn.Module):
    """A function."""

    def __init__(self, function: Join) -> None:
        super().__init__()
        self.forward = function


class Head(nn.Module):
    """Places up to some hundreds, and scores up to 1."""

    def __init__(self, join: Join, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Conv2d(3, 8, 3, padding=1)
        self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 4, 1)
        self.join, self.factor = join, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.body(x))
        boxes = self.boxes(y).flatten(2) * self.factor
        return self.join(boxes, torch.sigmoid(self.scores(y) * 3).flatten(2))


def head(join: str, factor: float) -> ModelSpec:
    """The net, calibrated on what it is tested with."""
    net = Head(JOINS[join], factor).eval()
    calls = [(torch.randn(1, 3, 8, 8),) for _ in range(3)]
    return ModelSpec(
        {"forward": Method(net, calls[0], test_inputs=calls)}, calibration=lambda: calls
    )


def weak(spec: ModelSpec, recipe: str, folder: Path) -> tuple[list[str], list[str]]:
    """Lists what is weak in the program's outputs, and what was noted when it was lowered."""
    notes: list[str] = []
    manager = run(spec, xnnpack(recipe), Watch(noted=notes.append))
    slices = Slices()
    method = spec.methods["forward"]
    for inputs in method.test_inputs:
        got = outputs(manager, folder, "forward", *inputs)
        slices.add(
            "forward", [of_torch(v) for v in got], [of_torch(method.module(*inputs).detach())]
        )
    return [part.text for part in slices.weak()], notes


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.few(1)
def test_ranges_that_differ(join: str, tmp_path: Path) -> None:
    found, notes = weak(head(join, 640.0), "int8_static_per_channel", tmp_path)
    assert found == []
    # XNNPACK's quantizer leaves these alone, but not the arithmetic behind them.
    assert bool(notes) == (join not in ("stack", "hstack"))
    assert all("test_separate_scales.py:" in note for note in notes)


def test_one_scale_a_tensor(tmp_path: Path) -> None:
    """Another recipe."""
    found, notes = weak(head("cat", 640.0), "int8_static_per_tensor", tmp_path)
    assert found == []
    assert len(notes) == 1
    assert notes[0].startswith("cat (test_separate_scales.py:")
    assert "joins values whose ranges differ, from 0.9" in notes[0]


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.few(1)
def test_ranges_that_resemble_each_other(join: str, tmp_path: Path) -> None:
    """The program has the bytes that it has without all this, and nothing is noted."""
    found, notes = weak(head(join, 2.0), "int8_static_per_channel", tmp_path)
    assert (found, notes) == ([], [])


def test_results_with_scales() -> None:
    """Some quantizers annotate the graph's output, which others of its inputs keep."""
    inputs = (torch.rand(1, 4), torch.rand(1, 4) * 640)
    net = Function(lambda a, b: (torch.cat([a, b], 1), a * 2))
    model = torch.export.export(net, inputs).module(check_guards=False)
    [output] = model.graph.find_nodes(op="output")
    joined, other = output.all_input_nodes
    scale = QuantizationSpec(torch.int8, MinMaxObserver)
    output.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation({joined: scale, other: scale})
    separate_scales.keep(model, lambda run: run(*inputs), lambda _: None)
    assert output.meta[Q_ANNOTATION_KEY].input_qspec_map == {joined: None, other: scale}


def test_state_stays(tmp_path: Path) -> None:
    """The ranges are measured on runs that leave no trace."""

    class Counting(Head):
        def __init__(self) -> None:
            super().__init__(JOINS["cat"], 640.0)
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return super().forward(x) + self.count

    net = Counting().eval()
    run(
        ModelSpec({"forward": Method(net, (torch.randn(1, 3, 8, 8),))}),
        xnnpack("int8_static_per_channel"),
    )
    assert not net.count.any()
