"""Images to embeddings, by the arguments that a model's `get_image_features` takes."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from etbuild import BuildError
from torch import nn
from torch.nn import functional

from etllm.transformers import inputs, patches
from etllm.transformers.constants import Constants
from etllm.transformers.position_info import PositionInfo
from etllm.transformers.pretrained import parameters_of, with_method
from etllm.transformers.tracing import replacements

# By PIL's numbers.
_RESAMPLED = {2: "bilinear", 3: "bicubic"}


class VisionEncoder(nn.Module):
    """An image's embeddings. Rescaling and normalizing it is part of the program.

    Args:
      model: of transformers.
      preprocessing: what its image processor does.
      shape: of its images: (1, channels, height, width).
      position_info: makes what the decoder has to know of positions; set once the number of
        embeddings is known.
    """

    def __init__(
        self, model: nn.Module, preprocessing: dict[str, Any], shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.model = model
        self.owner = with_method(model, "get_image_features")
        self.position_info = PositionInfo()
        self.constants = Constants(model)
        # Moments, rows and columns of its patches, where the decoder counts them.
        self.grid: tuple[int, int, int] | None = None
        self.scale = inputs.pixel_scale(preprocessing)
        for name, values, default in zip(
            ("image_mean", "image_std"),
            inputs.normalization(preprocessing),
            (0.0, 1.0),
            strict=True,
        ):
            each = torch.tensor(values or [default] * 3, dtype=torch.float32)
            self.register_buffer(name, each.view(1, -1, 1, 1), persistent=False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """uint8 pixels (1, 3, height, width) to float32 (1, n, width)."""
        with replacements(), self.constants.replayed():
            values = pixels.to(torch.float32) * self.scale
            arguments = self.arguments((values - self.image_mean) / self.image_std)
            features = joined(
                self.owner, self.owner.get_image_features(**arguments, return_dict=True)
            )
        return torch.cat([features, self.position_info.of_media(features.shape[1])], dim=-1)

    def arguments(self, pixels: torch.Tensor) -> dict[str, Any]:
        """Arguments of the model, and of its `get_image_features`, for normalized pixels."""
        return {"pixel_values": pixels}


class _TileEncoder(VisionEncoder):
    """Of the kind of Idefics 3, which takes several tiles and leaves out padding. Here is one."""

    def arguments(self, pixels: torch.Tensor) -> dict[str, Any]:
        mask = parameters_of(self.owner, "get_image_features")["pixel_attention_mask"]
        # Where it may be missing, it is of pixels; else of tiles.
        whole = {"pixel_attention_mask": torch.ones(1, 1, dtype=torch.bool)}
        return {"pixel_values": pixels[None]} | (whole if mask.default is mask.empty else {})


class _PatchEncoder(VisionEncoder):
    """Of the kind of Qwen-VL, which reads patches in the order of its image processor."""

    def __init__(
        self, model: nn.Module, preprocessing: dict[str, Any], shape: tuple[int, ...]
    ) -> None:
        super().__init__(model, preprocessing, shape)
        self.layout = patches.layout_of(model.config, preprocessing, shape)
        self.grid = (1, shape[2] // self.layout.size, shape[3] // self.layout.size)

    def arguments(self, pixels: torch.Tensor) -> dict[str, Any]:
        sizes = {"image_grid_thw": torch.tensor([self.grid])}
        if "image_merge_sizes" in parameters_of(self.owner, "get_image_features"):
            sizes["image_merge_sizes"] = torch.tensor([self.layout.merged])
        return {"pixel_values": self.layout.cut(pixels)} | sizes


class _ShapedEncoder(VisionEncoder):
    """Of the kind of LFM 2, which is told how many rows and columns of patches there are."""

    def arguments(self, pixels: torch.Tensor) -> dict[str, Any]:
        cut, shape = patches.colored(self.owner.config.vision_config.patch_size, pixels)
        return {
            "pixel_values": cut,
            "spatial_shapes": torch.tensor([shape]),
            "pixel_attention_mask": torch.ones(1, cut.shape[1], dtype=torch.long),
        }


class _SizedEncoder(VisionEncoder):
    """Of the kind of Mistral 3, which is told an image's size."""

    def arguments(self, pixels: torch.Tensor) -> dict[str, Any]:
        return {"pixel_values": pixels, "image_sizes": [(pixels.shape[2], pixels.shape[3])]}


class _TiledEncoder(VisionEncoder):
    """Of the kind of LLaVA-NeXT, which sees the whole image made small, and each of its tiles."""

    def __init__(
        self, model: nn.Module, preprocessing: dict[str, Any], shape: tuple[int, ...]
    ) -> None:
        super().__init__(model, preprocessing, shape)
        side = model.config.vision_config.image_size
        self.layout = patches.Layout(side, 1, 1, 1, "tcyx", (shape[1], side, side))
        resample = preprocessing.get("resample", 3)
        if resample not in _RESAMPLED:
            raise BuildError(
                f"{model.config.model_type}: preprocessor_config.json: resample: got {resample}, "
                "expected 2 (bilinear) or 3 (bicubic).",
                "Take one of these, if the model's answers allow it.",
            )
        # Shrinking is linear in rows and columns, and so two products.
        mode = _RESAMPLED[resample]
        for name, size in (("rows", shape[2]), ("columns", shape[3])):
            one = torch.eye(size).view(1, 1, size, size)
            small = functional.interpolate(one, size=(side, size), mode=mode, antialias=True)
            self.register_buffer(name, small[0, 0], persistent=False)

    def arguments(self, pixels: torch.Tensor) -> dict[str, Any]:
        small = self.rows @ pixels @ self.columns.transpose(0, 1)
        tiles = torch.cat([small, self.layout.cut(pixels)])
        size = (pixels.shape[2], pixels.shape[3])
        return {"pixel_values": tiles[None], "image_sizes": [size]}


def encoder_of(model: Any, preprocessing: dict[str, Any], shape: tuple[int, ...]) -> VisionEncoder:
    """The encoder of a model, by what its `get_image_features` takes.

    Args: as of `VisionEncoder`.
    """
    return _kind(model)(model, preprocessing, shape)


def _kind(model: Any) -> type[VisionEncoder]:
    parameters = parameters_of(with_method(model, "get_image_features"), "get_image_features")
    if getattr(model.config, "image_grid_pinpoints", None):
        return _TiledEncoder
    if "spatial_shapes" in parameters:
        return _ShapedEncoder
    if "pixel_attention_mask" in parameters:
        return _TileEncoder
    if "image_grid_thw" in parameters:
        return _PatchEncoder
    sizes = parameters.get("image_sizes")
    # Where it may be missing, one of several kinds of encoders takes it.
    if sizes is not None and sizes.default is inspect.Parameter.empty:
        return _SizedEncoder
    return VisionEncoder


def joined(owner: Any, result: Any) -> torch.Tensor:
    """Embeddings (1, n, width) of what transformers returns of one image or recording.

    Behind them, what the encoder's inner layers saw of each position, as wide as an embedding each.

    Args:
      owner: the module that returned it.
      result: what it returned; without embeddings, states that the owner's projector turns to them.
    """
    embeddings = result.pooler_output
    if embeddings is None:
        embeddings = owner.multi_modal_projector(_sequence(result.last_hidden_state)[0])
    parts = [embeddings, *(getattr(result, "deepstack_features", None) or ())]
    return torch.cat([_sequence(part) for part in parts], dim=-1)


def _sequence(features: Any) -> torch.Tensor:
    """One sequence (1, n, width) of tensors (…, width)."""
    if isinstance(features, list | tuple):
        features = torch.cat([each.reshape(-1, each.shape[-1]) for each in features])
    return features.reshape(1, -1, features.shape[-1])
