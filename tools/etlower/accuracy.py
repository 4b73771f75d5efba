"""Measures how much quantization changes a model's outputs, before anything is lowered.

One forward of each model, on the example inputs: at the sizes that people ship, each more would
take as long as the quantization. Tests and `et evaluate` run the test inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from etbuild import Method, ModelSpec

from etlower.arrays import of_torch
from etlower.dead_slices import Slices
from etlower.eager import eager_outputs
from etlower.outputs import sqnr_db


def measure(spec: ModelSpec, quantized: Mapping[str, Any]) -> dict[str, Any]:
    """Compares quantized methods with eager ones on their example inputs.

    Both run on copies, so that a state such as a KV cache stays as it was. Random numbers that a
    model draws do not change what is drawn later.

    Args:
      spec: the model.
      quantized: its quantized methods: modules, or exported programs.

    Returns:
      Per method its `outputs` with the ratio as `sqnr_db`, rounded to 0.1 dB, or None and a
      `note`; or `skipped`, the reason why it was not compared. `weak` lists the parts of outputs
      that are dead or far worse than the rest, where there are any: `output` and `text`.
    """
    comparisons: dict[str, Any] = {}
    with torch.random.fork_rng(devices=[]):
        for name, method in spec.methods.items():
            try:
                comparisons[name] = _compare(method, quantized[name])
            except Exception as error:
                # It is a figure of the report: a program can be right without it.
                text = " ".join(str(error).split())[:300]
                comparisons[name] = {"skipped": f"{type(error).__name__}: {text}"}
    return comparisons


def _compare(method: Method, quantized: Any) -> dict[str, Any]:
    expected = eager_outputs(method.module, method.example_inputs)
    got = eager_outputs(quantized, method.example_inputs)
    if len(got) != len(expected):
        return {"skipped": f"got {len(got)} outputs, the eager model gives {len(expected)}"}
    compared: dict[str, Any] = {
        "outputs": [_ratio(g, e) for g, e in zip(got, expected, strict=True)]
    }
    slices = Slices()
    slices.add("", *([_array(value) for value in side] for side in (got, expected)))
    weak = [{"output": part.output, "text": part.text} for part in slices.weak()]
    return compared | ({"weak": weak} if weak else {})


def _array(value: Any) -> Any:
    known = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    return of_torch(value) if known else None


def _ratio(got: Any, expected: Any) -> dict[str, Any]:
    """In dB, or why there is none."""
    if not isinstance(expected, torch.Tensor) or not isinstance(got, torch.Tensor):
        return {"sqnr_db": None, "note": "not a tensor"}
    if got.shape != expected.shape:
        note = f"got {list(got.shape)}, the eager model gives {list(expected.shape)}"
        return {"sqnr_db": None, "note": note}
    ratio = sqnr_db(got, expected)
    if ratio == math.inf:
        return {"sqnr_db": None, "note": "the same as eager"}
    if not math.isfinite(ratio):
        note = "eager gives zeros, or one of them is not finite"
        return {"sqnr_db": None, "note": note}
    return {"sqnr_db": round(ratio, 1)}
