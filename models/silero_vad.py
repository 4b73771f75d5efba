"""Silero's voice activity detector for 16 kHz audio, from the file of the silero-vad package.

A caller cuts its audio into chunks of 512 samples (32 ms), puts the last 64 samples of the chunk
before in front of each (zeros at first), and hands the state of one call to the next.

Example (BUILD):

    et_model(
        name = "silero_vad",
        srcs = ["silero_vad.py"],
        entry_point = "models.silero_vad:build",
        data = ["@silero_vad//:silero_vad.jit"],
    )
"""

from __future__ import annotations

import torch
from etbuild import BuildError, Method, ModelContext, ModelSpec
from torch import nn
from torch.nn import functional

SAMPLES, CONTEXT, STATE = 512, 64, (2, 1, 128)
_BINS = 129
# Where the package's file holds what the module calls so; its other half is for 8 kHz.
_NAMES = {"stft_conv.weight": "stft.forward_basis_buffer", "lstm_cell.": "decoder.rnn."}
_NAMES |= {f"conv{i + 1}.": f"encoder.{i}.reparam_conv." for i in range(4)}
_NAMES |= {"final_conv.": "decoder.decoder.2."}


class SileroVad(nn.Module):
    """Spectrum, four convolutions, an LSTM cell and one output."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 2 * _BINS, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(_BINS, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Probability of speech in one chunk.

        Args:
          x: 64 samples of context and 512 of the chunk, -1 to 1: (1, 576).
          state: (2, 1, 128); zeros at the start of the audio.

        Returns:
          The probability, (1, 1), and the state for the next chunk, (2, 1, 128).
        """
        x = self.stft_conv(functional.pad(x, (0, CONTEXT), mode="reflect").unsqueeze(1))
        real, imaginary = x[:, :_BINS], x[:, _BINS:]
        x = torch.sqrt(real * real + imaginary * imaginary)
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = functional.relu(layer(x))
        h, c = self.lstm_cell(x.squeeze(-1), (state[0], state[1]))
        speech = torch.sigmoid(self.final_conv(functional.relu(h).unsqueeze(-1)))
        return speech.squeeze(-1), torch.stack((h, c))


def build(ctx: ModelContext) -> ModelSpec:
    """The entry point of the `et_model`; data: "silero_vad.jit", no args.

    Raises:
      BuildError: the file cannot be read or holds other tensors than the model has.
    """
    path = ctx.file("silero_vad.jit")
    module = SileroVad()
    try:
        held = ctx.checkpoint("silero_vad.jit")
        module.load_state_dict({name: held[_held_name(name)] for name in module.state_dict()})
    except (BuildError, LookupError, RuntimeError, TypeError) as error:
        no_tensor = isinstance(error, KeyError)
        text = error.what if isinstance(error, BuildError) else str(error)
        cause = f"no tensor {error}" if no_tensor else text.split(". ", maxsplit=1)[0].rstrip(".")
        raise BuildError(
            f"{path}: expected the TorchScript file of silero-vad 6; found: {cause}.",
            "Take silero_vad/data/silero_vad.jit from the package silero-vad, version 6.",
        ) from None
    example = (torch.zeros(1, CONTEXT + SAMPLES), torch.zeros(STATE))
    chirp = torch.sin(torch.arange(CONTEXT + SAMPLES) ** 2 * 1e-3).view(1, -1)
    method = Method(module.eval(), example, test_inputs=((chirp, torch.full(STATE, 0.1)),))
    sizes = {"get_sample_rate": 16000, "get_samples": SAMPLES, "get_context": CONTEXT}
    return ModelSpec(methods={"forward": method}, constant_methods=sizes)


def _held_name(name: str) -> str:
    """Name in the package's file of one of the module's tensors."""
    ours = next(prefix for prefix in _NAMES if name.startswith(prefix))
    return f"_model.{_NAMES[ours]}{name.removeprefix(ours)}"
