"""How much quantization changes a model's outputs, before anything is lowered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from etbuild import Method, ModelSpec

from etexport.exported import eager_outputs
from etexport.outputs import sqnr_db


def measure(spec: ModelSpec, quantized: Mapping[str, Any]) -> dict[str, Any]:
    """Compares quantized methods with eager ones on their example and test inputs.

    Both run on copies, so that a state such as a KV cache stays as it was, and is the same for each
    input. Random numbers that a model draws don't change what is drawn later.

    Args:
      spec: the model.
      quantized: its quantized methods: modules, or exported programs.

    Returns:
      Per method the number of `inputs`, and `outputs` with the lowest ratio over these as
      `sqnr_db`, rounded to 0.1 dB, or None and a `note`; or `skipped`, the reason why it was not
      compared.
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
    ratios: list[list[float | str]] = []
    inputs = (method.example_inputs, *method.test_inputs)
    for arguments in inputs:
        expected = eager_outputs(method.module, arguments)
        got = eager_outputs(quantized, arguments)
        if len(got) != len(expected):
            return {"skipped": f"got {len(got)} outputs, the eager model gives {len(expected)}"}
        ratios.append([_ratio(g, e) for g, e in zip(got, expected, strict=True)])
    outputs = [_lowest(of_output) for of_output in zip(*ratios, strict=True)]
    return {"inputs": len(inputs), "outputs": outputs}


def _ratio(got: Any, expected: Any) -> float | str:
    """In dB, or why there is none."""
    if not isinstance(expected, torch.Tensor) or not isinstance(got, torch.Tensor):
        return "not a tensor"
    if got.shape != expected.shape:
        return f"got {list(got.shape)}, the eager model gives {list(expected.shape)}"
    ratio = sqnr_db(got, expected)
    if ratio == math.inf:
        return "the same as eager"
    return ratio if math.isfinite(ratio) else "eager gives zeros, or one of them is not finite"


def _lowest(values: Sequence[float | str]) -> dict[str, Any]:
    ratios = [ratio for ratio in values if isinstance(ratio, float)]
    notes = [note for note in values if isinstance(note, str)]
    bad = [note for note in notes if note != "the same as eager"]
    if bad or not ratios:
        return {"sqnr_db": None, "note": (bad or notes)[0]}
    return {"sqnr_db": round(min(ratios), 1)}
