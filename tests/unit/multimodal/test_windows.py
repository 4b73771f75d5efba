"""Encoders that attend in windows, exported for images whose sides are no multiples of these."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_multimodal import model_of, spec_of


@pytest.mark.parametrize("size", ["32x32", "32x48", "48x48", "64x80", "80x32"])
@pytest.mark.few(2)
def test_windows_at_the_edges_are_smaller(size: str, tmp_path: Path) -> None:
    """Of Qwen 2.5's kind: a window is 32 pixels wide, and a merged patch 16."""
    model = model_of("qwen2_5_vl")
    height, width = map(int, size.split("x"))
    spec = spec_of(model, tmp_path, image_size=size)
    encoder = spec.methods["vision_encoder"].module
    generator = torch.Generator().manual_seed(1)
    shape = (1, 3, height, width)
    exported = torch.export.export(
        encoder, (torch.zeros(shape, dtype=torch.uint8),), strict=False
    ).module()
    for _ in range(2):
        pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        arguments = encoder.arguments(
            (pixels * encoder.scale - encoder.image_mean) / encoder.image_std
        )
        with torch.no_grad():
            expected = model.get_image_features(**arguments).pooler_output
            got = exported(pixels)[0, :, : expected[0].shape[-1]]
        spread = expected[0].std()
        assert float((got - torch.cat(list(expected))).abs().max() / spread) < 1e-4
