"""models/silero_vad.py: loading the package's file, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from etbuild import BuildError, ModelContext
from torch import nn

from models.silero_vad import SileroVad, build


class _Holder(nn.Module):
    """A TorchScript module that holds tensors under dotted names."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        super().__init__()
        groups: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            head, _, rest = name.partition(".")
            if rest:
                groups.setdefault(head, {})[rest] = tensor
            else:
                self.register_buffer(head, tensor)
        for head, inner in groups.items():
            self.add_module(head, _Holder(inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def packaged(module: SileroVad, path: Path, leave_out: str = "") -> Path:
    """Writes the module's tensors under the names that silero-vad's own file has."""
    theirs = {"stft_conv.weight": "stft.forward_basis_buffer"}
    for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        theirs[f"lstm_cell.{part}"] = f"decoder.rnn.{part}"
    for part in ("weight", "bias"):
        theirs[f"final_conv.{part}"] = f"decoder.decoder.2.{part}"
        for i in range(4):
            theirs[f"conv{i + 1}.{part}"] = f"encoder.{i}.reparam_conv.{part}"
    tensors = {
        f"_model.{theirs[name]}": tensor
        for name, tensor in module.state_dict().items()
        if name != leave_out
    }
    torch.jit.trace(_Holder(tensors), torch.zeros(1)).save(path)
    return path


def context(path: Path) -> ModelContext:
    return ModelContext(files={"silero/silero_vad.jit": path}, label="//m:vad")


def test_weights_come_from_the_packages_file(tmp_path):
    torch.manual_seed(0)
    original = SileroVad().eval()
    spec = build(context(packaged(original, tmp_path / "silero_vad.jit")))
    method = spec.methods["forward"]
    for inputs in (method.example_inputs, *method.test_inputs):
        with torch.no_grad():
            speech, state = method.module(*inputs)
            wanted_speech, wanted_state = original(*inputs)
        assert (speech.shape, state.shape) == ((1, 1), (2, 1, 128))
        assert torch.equal(speech, wanted_speech)
        assert torch.equal(state, wanted_state)


def test_a_missing_tensor_is_named(tmp_path):
    path = packaged(SileroVad(), tmp_path / "silero_vad.jit", leave_out="conv3.bias")
    name = r"no tensor '_model\.encoder\.2\.reparam_conv\.bias'"
    with pytest.raises(BuildError, match=rf"silero_vad.jit: expected.*{name}"):
        build(context(path))


def test_a_broken_file_is_an_error(tmp_path):
    path = tmp_path / "silero_vad.jit"
    path.write_bytes(b"no archive")
    with pytest.raises(BuildError, match="silero_vad.jit: expected the TorchScript file"):
        build(context(path))
