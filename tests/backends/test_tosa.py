"""TOSA programs give eager's numbers in Arm's reference model."""

from __future__ import annotations

import os
from pathlib import Path

import nets
import payloads
import torch
import tosa_reference_model
from etbuild import ModelContext


def test_floats() -> None:
    net = os.environ["NET"]
    spec = getattr(nets, net)(ModelContext())
    method = spec.methods["forward"]
    wanted = method.module(*method.example_inputs)
    (payload,) = payloads.delegates(Path(f"tests/backends/{net}_arm_tosa_fp.pte"))
    outputs, status = tosa_reference_model.run(
        payload.data,
        [value.numpy() for value in method.example_inputs],
        verbosity="LOW",
        initialize_variable_tensor_from_numpy=True,
    )
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID
    torch.testing.assert_close(torch.from_numpy(outputs[0]), wanted, atol=1e-4, rtol=1e-4)
