"""Images as inputs of methods: resized, cropped, rescaled and normalized.

The settings have the names of Hugging Face's `preprocessor_config.json`. They come from the target
or from such a file among the inputs; without any, an image gets the example's size and values from
0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from etbuild import BuildError
from etlink.json_file import read_object

CONFIG = "preprocessor_config.json"
IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
_PILLOW = (
    "Name the image in test_inputs or inputs of the target, which fetches Pillow; or give it as a "
    ".npy file."
)
_KEYS = ("size", "crop_size", "rescale_factor", "image_mean", "image_std", "resample")
# As transformers does, where the file says nothing.
_BILINEAR = 2


@dataclass(frozen=True)
class _Settings:
    """Steps from an image to an array.

    Attributes:
      size: height and width; one number: the shorter edge; empty: the example's.
      crop: height and width of the middle that is kept; empty: all of it.
      factor: of the values from 0 to 255.
      mean, std: by channel, or one for all.
      resample: Pillow's number of the filter.
    """

    size: tuple[int, ...] = ()
    crop: tuple[int, ...] = ()
    factor: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    resample: int = _BILINEAR


class Images:
    """Reads images as a target's settings say.

    Args:
      files: inputs and folders of them; one may be a preprocessor_config.json.
      given: settings of the target, which come first.
      label: of the target, for messages.

    Raises:
      BuildError: a setting is unknown or malformed.
    """

    def __init__(self, files: Sequence[Path], given: Mapping[str, str], label: str) -> None:
        unknown = sorted(set(given) - set(_KEYS))
        if unknown:
            raise BuildError(
                f'{label}: preprocessing: unknown key "{unknown[0]}". Known: {", ".join(_KEYS)}.'
            )
        self._settings = _settings({**_config(files), **given}, f"{label}: preprocessing")

    def read(self, file: Path, example: torch.Tensor, where: str) -> np.ndarray:
        """An image in the shape of an example input.

        Args:
          file: the image.
          example: of (batch 1,) channels, height and width, or with the channels last.
          where: for messages.

        Raises:
          BuildError: the input is no image, its size is another one, or the file cannot be read.
        """
        channels, height, width, last = _layout(example, where)
        pixels = _pixels(file, channels, (height, width), self._settings, where)
        if not example.is_floating_point():
            values = pixels
        else:
            values = pixels.astype("float32") * np.float32(self._settings.factor)
            values = (values - np.float32(self._settings.mean)) / np.float32(self._settings.std)
        values = values if last else values.transpose(2, 0, 1)
        return values[None] if example.dim() == 4 else values


def _config(files: Sequence[Path]) -> dict[str, Any]:
    """The settings of a file among the inputs, without those that it turns off."""
    places = [f / CONFIG if f.is_dir() else f for f in files if f.is_dir() or f.name == CONFIG]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        return {}
    raw = read_object(found, "is not a preprocessor_config.json", "Take it from the model's page.")
    switches = {
        "do_resize": ("size",),
        "do_center_crop": ("crop_size",),
        "do_normalize": ("image_mean", "image_std"),
    }
    off = {key for switch, keys in switches.items() if raw.get(switch) is False for key in keys}
    settings = {key: raw[key] for key in _KEYS if raw.get(key) is not None and key not in off}
    if raw.get("do_rescale") is False:
        settings["rescale_factor"] = 1.0
    return settings


def _settings(raw: Mapping[str, Any], where: str) -> _Settings:
    try:
        settings = _Settings(
            size=_size(raw.get("size", ())),
            crop=_size(raw.get("crop_size", ())),
            factor=float(raw.get("rescale_factor", 1 / 255)),
            mean=_numbers(raw.get("image_mean", (0.0,))),
            std=_numbers(raw.get("image_std", (1.0,))),
            resample=int(raw.get("resample", _BILINEAR)),
        )
        if 0.0 in settings.std or any(n < 1 for n in (*settings.size, *settings.crop)):
            raise ValueError("a size or a deviation is 0")
    except (ValueError, TypeError, KeyError) as error:
        raise BuildError(
            f"{where}: {type(error).__name__}: {error}.",
            'Write sizes as "224" or "240 320", and means as "0.5" or "0.5 0.5 0.5".',
        ) from error
    crop = settings.crop * 2 if len(settings.crop) == 1 else settings.crop
    return _Settings(**{**vars(settings), "crop": crop})


def _size(value: Any) -> tuple[int, ...]:
    """A size of a target ("224", "240 320") or of the file (a number, or a dict)."""
    if isinstance(value, Mapping):
        edge = value.get("shortest_edge")
        return (int(edge),) if edge else (int(value["height"]), int(value["width"]))
    numbers = tuple(int(number) for number in _numbers(value))
    if len(numbers) > 2:
        raise ValueError(f"got {len(numbers)} numbers of a size, expected 1 or 2")
    return numbers


def _numbers(value: Any) -> tuple[float, ...]:
    if isinstance(value, str):
        return tuple(float(word) for word in value.replace(",", " ").split())
    return tuple(map(float, value)) if isinstance(value, Sequence) else (float(value),)


def _layout(example: torch.Tensor, where: str) -> tuple[int, int, int, bool]:
    """Channels, height, width, and whether the channels come last."""
    shape = tuple(example.shape)
    plain = shape[1:] if len(shape) == 4 and shape[0] == 1 else shape
    if len(plain) == 3 and plain[0] in (1, 3):
        return plain[0], plain[1], plain[2], False
    if len(plain) == 3 and plain[2] in (1, 3):
        return plain[2], plain[0], plain[1], True
    raise BuildError(
        f"{where}: an image does not fit an input of {shape}: expected 1 or 3 channels, height and "
        "width.",
        "Give the input as a .npy file.",
    )


def _pixels(
    file: Path, channels: int, example: tuple[int, int], settings: _Settings, where: str
) -> np.ndarray:
    """Height, width and channels, uint8."""
    try:
        from PIL import Image
    except ImportError as error:
        raise BuildError(f"{where}: images need Pillow, which is not here.", _PILLOW) from error
    try:
        with Image.open(file) as opened:
            image: Any = opened.convert("L" if channels == 1 else "RGB")
    except (OSError, ValueError) as error:
        raise BuildError(f"{where} cannot be read: {' '.join(str(error).split())}.") from error
    height, width = _resized(settings.size or example, image.height, image.width)
    image = image.resize((width, height), settings.resample)
    if settings.crop:
        top, left = (height - settings.crop[0]) // 2, (width - settings.crop[1]) // 2
        image = image.crop((left, top, left + settings.crop[1], top + settings.crop[0]))
    return np.asarray(image, "uint8").reshape(image.height, image.width, channels)


def _resized(size: tuple[int, ...], height: int, width: int) -> tuple[int, int]:
    """Height and width; of one number, which is the shorter edge, in the image's proportions."""
    if len(size) == 2:
        return size[0], size[1]
    short, long = min(height, width), max(height, width)
    other = int(size[0] * long / short)
    return (size[0], other) if height <= width else (other, size[0])
