"""Images as inputs: sizes, crops, normalization, and what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from etbuild import BuildError, Method
from etlower import given_inputs
from PIL import Image

NET = torch.nn.Identity()


def methods(*shape: int, dtype: torch.dtype = torch.float32) -> dict[str, Method]:
    return {"forward": Method(NET, (torch.zeros(shape, dtype=dtype),))}


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A photo, 8 wide and 4 high: red on the left, blue on the right."""
    pixels = np.zeros((4, 8, 3), "uint8")
    pixels[:, :4, 0] = 255
    pixels[:, 4:, 2] = 255
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def read(photo: Path, shape: tuple[int, ...], **preprocessing: str) -> np.ndarray:
    found = given_inputs.samples([photo], methods(*shape), "//m:net", preprocessing)
    [(tensor,)] = found["forward"]
    assert tuple(tensor.shape) == shape
    return tensor.numpy()


@pytest.mark.parametrize("shape", [(1, 3, 4, 8), (3, 4, 8), (1, 4, 8, 3), (4, 8, 3)])
def test_layouts(photo: Path, shape: tuple[int, ...]) -> None:
    values = read(photo, shape).reshape(shape[-3:])
    values = values if shape[-1] == 3 else values.transpose(1, 2, 0)
    assert np.array_equal(values[:, :4], np.broadcast_to(np.float32([1, 0, 0]), (4, 4, 3)))
    assert np.array_equal(values[:, 4:], np.broadcast_to(np.float32([0, 0, 1]), (4, 4, 3)))


def test_example_has_the_size(photo: Path) -> None:
    left, right = read(photo, (1, 3, 2, 2))[0, 0, 0]
    assert left > 0.8
    assert right < 0.2


def test_middle_is_cropped(photo: Path) -> None:
    values = read(photo, (1, 3, 4, 4), size="4", crop_size="4")
    assert np.array_equal(values[0, 0, 0], [1, 1, 0, 0])


def test_normalized(photo: Path) -> None:
    values = read(photo, (1, 3, 4, 8), image_mean="0.5 0 0", image_std="0.25 1 2")
    assert np.array_equal(values[0, :, 0, 0], [2, 0, 0])
    assert np.array_equal(values[0, :, 0, 7], [-2, 0, 0.5])


def test_whole_numbers_and_gray(photo: Path) -> None:
    found = given_inputs.samples([photo], methods(1, 3, 4, 8, dtype=torch.uint8), "//m:net")
    assert found["forward"][0][0].max() == 255
    assert read(photo, (1, 1, 4, 8))[0, 0, 0, 0] == pytest.approx(76 / 255)


def test_preprocessor_config(photo: Path) -> None:
    config = {
        "do_resize": True,
        "size": {"height": 4, "width": 8},
        "do_center_crop": False,
        "crop_size": {"height": 1, "width": 1},
        "do_rescale": False,
        "do_normalize": True,
        "image_mean": [255, 0, 0],
        "image_std": [1, 1, 1],
    }
    (photo.parent / "preprocessor_config.json").write_text(json.dumps(config))
    [(tensor,)] = given_inputs.samples([photo.parent], methods(1, 3, 4, 8), "//m:net")["forward"]
    assert tensor[0, :, 0, 0].tolist() == [0, 0, 0]
    assert tensor[0, :, 0, 7].tolist() == [-255, 0, 255]


def test_what_does_not_fit(photo: Path) -> None:
    broken = photo.with_name("broken.png")
    broken.write_bytes(photo.read_bytes()[:40])
    for file, shape, preprocessing, message in [
        (photo, (1, 8), {}, r"an image does not fit an input of \(1, 8\)"),
        (broken, (1, 3, 4, 8), {}, "broken.png cannot be read"),
        (photo, (1, 3, 4, 8), {"size": "2"}, r"got an array of \(1, 3, 2, 4\)"),
        (photo, (1, 3, 4, 8), {"mean": "1"}, 'unknown key "mean"'),
        (photo, (1, 3, 4, 8), {"size": "1 2 3"}, "got 3 numbers of a size"),
        (photo, (1, 3, 4, 8), {"image_std": "0"}, "a size or a deviation is 0"),
    ]:
        with pytest.raises(BuildError, match=message):
            given_inputs.samples([file], methods(*shape), "//m:net", preprocessing)
