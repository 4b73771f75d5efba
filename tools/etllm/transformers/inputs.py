"""Example inputs of a model, and their dynamic sizes, from its configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError, Options

from etllm.transformers import patches
from etllm.transformers.pretrained import Checkpoint

# Tokens and samples, where neither the target nor the configuration says how many.
_MOST_TOKENS = 512
_SAMPLES = 16_000
# Frames of a film, where the configuration does not say how many.
_FRAMES = 8
# Of a square picture, likewise.
_SIDE = 224
# As many as detectors give models of images and text.
_OBJECTS = 36
# Unicode's code points, which models without a vocabulary read.
_CHARACTERS = 0x110000
_SIZES = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "max_target_positions",
)
# What configurations call those that they contain.
_PARTS = (
    "text_config",
    "vision_config",
    "backbone_config",
    "decoder",
    "encoder",
    "encoder_config",
    "audio_config",
)
_PREPROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True)
class Inputs:
    """The inputs that a method is exported and tested with.

    Attributes:
      example: tensors by the name of the argument.
      dynamic: dynamic sizes by the name of the argument; None: all sizes are fixed.
      more: other sets of tensors, for tests.
      metadata: constant methods that tell a program's user about its inputs.
    """

    example: Mapping[str, torch.Tensor]
    dynamic: Mapping[str, Any] | None
    more: tuple[Mapping[str, torch.Tensor], ...]
    metadata: Mapping[str, Any]


def text(
    checkpoint: Checkpoint,
    model: Any,
    options: Options,
    names: tuple[str, ...],
    beside: int = 0,
) -> Inputs:
    """Tokens and what belongs to each of them.

    Args:
      checkpoint: the model's.
      model: asked for the most tokens that it reads.
      options: `max_length`, `dynamic`.
      names: arguments: "tokens", then "mask", "boxes" and "segments", if the model takes them.
      beside: how many of the model's positions other inputs take.

    Raises:
      BuildError: `max_length` is more than the model reads, or leaves no position for text.
    """
    most = max_length(checkpoint, model, options, _MOST_TOKENS) - beside
    if most < 2:
        raise options.error(
            "max_length",
            f"more than {beside + 1}, as other inputs take {beside} positions",
            "Make it larger, or images smaller with image_size.",
        )
    vocabulary = _vocabulary(model)
    special = _special_tokens(checkpoint.config)
    ordinary = [token for token in range(min(vocabulary, 1000)) if token not in special]

    def of(count: int, padding: int = 0) -> dict[str, torch.Tensor]:
        tokens = torch.tensor([[ordinary[i % len(ordinary)] for i in range(count)]])
        mask = torch.ones_like(tokens)
        mask[:, count - padding :] = 0
        segments = (torch.arange(count) >= count // 2).long().view(1, -1)
        boxes = _boxes(checkpoint.config, count)
        values = {"tokens": tokens, "mask": mask, "boxes": boxes, "segments": segments}
        return {name: values[name] for name in names}

    metadata = {"get_max_seq_len": most, "get_vocab_size": vocabulary}
    if not options.boolean("dynamic", True):
        return Inputs(of(most), None, (of(most, most // 2),), metadata)
    size = torch.export.Dim("count", min=1, max=most)
    short = of(min(9, most), min(3, most - 1))
    example = of(max(2, most // 2))
    return Inputs(example, {name: {1: size} for name in names}, (of(most), short), metadata)


def image(checkpoint: Checkpoint, options: Options) -> Inputs:
    """Pixels (1, channels, height, width), as the checkpoint's preprocessing makes them."""
    preprocessing = image_preprocessing(checkpoint)
    height, width = image_size(checkpoint, options)
    channels = value_of(checkpoint.config, "num_channels", 3)
    pixels = torch.rand(1, channels, height, width)
    metadata: dict[str, Any] = {"get_image_size": [height, width]}
    mean, deviation = normalization(preprocessing)
    # What is added to and multiplied with pixels of 0 to 1, whatever the checkpoint scales them to.
    scale = 255 * pixel_scale(preprocessing)
    if mean is not None or not math.isclose(scale, 1.0):
        mean, deviation = mean or [0.0] * channels, deviation or [1.0] * channels
        metadata["get_image_mean"] = [value / scale for value in mean]
        metadata["get_image_std"] = [value / scale for value in deviation]
    return Inputs({"pixels": pixels}, None, ({"pixels": -pixels},), metadata)


def image_preprocessing(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns what a checkpoint's image processor does, with its class's values for keys left out.

    It stands in processor_config.json, or else in preprocessor_config.json; empty if in neither.
    """
    given = preprocessing_of(checkpoint, "image_processor")
    if not given:
        return {}
    defaults = patches.processor_defaults(checkpoint.config.model_type)
    # Sizes of the class are those of its first checkpoint.
    own = {
        key: value
        for key, value in defaults.items()
        if key.startswith("do_") or key in ("image_mean", "image_std", "rescale_factor", "resample")
    }
    return {**own, **given}


def preprocessing_of(checkpoint: Checkpoint, part: str) -> dict[str, Any]:
    """A part of processor_config.json ("feature_extractor"), or else preprocessor_config.json."""
    values = checkpoint.optional_json("processor_config.json").get(part)
    return values if isinstance(values, dict) else checkpoint.optional_json(_PREPROCESSOR)


def normalization(
    preprocessing: Mapping[str, Any],
) -> tuple[list[float] | None, list[float] | None]:
    """Mean and standard deviation of pixels by channel; None: they are not normalized."""
    if not preprocessing.get("do_normalize", True):
        return None, None
    mean, deviation = (preprocessing.get(name) for name in ("image_mean", "image_std"))
    if mean is None and deviation is None:
        return None, None
    count = len(next(each for each in (mean, deviation) if isinstance(each, list | tuple)))
    listed = [
        [float(each) for each in (value if isinstance(value, list | tuple) else [value] * count)]
        for value in (0.0 if mean is None else mean, 1.0 if deviation is None else deviation)
    ]
    return listed[0], listed[1]


def pixel_scale(preprocessing: Mapping[str, Any]) -> float:
    """Returns what pixels of 0 to 255 are multiplied by before they are normalized."""
    if not preprocessing.get("do_rescale", True):
        return 1.0
    return float(preprocessing.get("rescale_factor") or 1 / 255)


def image_and_text(seen: Inputs, read: Inputs) -> Inputs:
    """An image, and texts beside it."""
    return Inputs(
        example={**seen.example, **read.example},
        dynamic=read.dynamic and {**dict.fromkeys(seen.example, {}), **read.dynamic},
        more=tuple({**seen.example, **more} for more in read.more),
        metadata={**seen.metadata, **read.metadata},
    )


def colors(checkpoint: Checkpoint, model: Any) -> Inputs:
    """An image as tokens (1, n), one for the color of each pixel, in the manner of ImageGPT."""
    count, vocabulary = value_of(checkpoint.config, "n_positions", 1024), _vocabulary(model)
    tokens = (torch.arange(count) % vocabulary).view(1, -1)
    metadata = {"get_max_seq_len": count, "get_vocab_size": vocabulary}
    return Inputs({"tokens": tokens}, None, ({"tokens": tokens.flip(1)},), metadata)


def film(checkpoint: Checkpoint, options: Options) -> Inputs:
    """Frames (1, count, channels, height, width), each of them as `image`."""
    one = image(checkpoint, options)
    count = value_of(checkpoint.config, "num_frames", _FRAMES)
    frames = torch.rand(1, count, *one.example["pixels"].shape[1:])
    return Inputs({"frames": frames}, None, ({"frames": -frames},), one.metadata)


def with_task(checkpoint: Checkpoint, given: Inputs) -> Inputs:
    """An image, and tokens that say what a model of several tasks does with it."""
    task = torch.arange(checkpoint.config.task_seq_len).view(1, -1)
    more = tuple({**each, "task": task.flip(1)} for each in given.more)
    return Inputs({**given.example, "task": task}, None, more, given.metadata)


def with_objects(checkpoint: Checkpoint, given: Inputs) -> Inputs:
    """A text, and objects that a detector saw: a vector and a box for each."""
    seen = torch.randn(1, _OBJECTS, checkpoint.config.visual_feat_dim)
    objects = {"seen": seen, "places": _boxes(None, _OBJECTS)}
    dynamic = given.dynamic and {**given.dynamic, **dict.fromkeys(objects, {})}
    more = tuple({**each, **objects, "seen": -seen} for each in given.more)
    return Inputs({**given.example, **objects}, dynamic, more, given.metadata)


def image_size(checkpoint: Checkpoint, options: Options) -> tuple[int, int]:
    """Height and width in pixels: of the target, the preprocessing, or the configuration.

    Raises:
      BuildError: the target's option is malformed.
    """
    given = options.text("image_size", "")
    if given:
        parts = given.split("x")
        if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
            raise BuildError(
                f'{checkpoint.label}: image_size: got "{given}", expected height and width in '
                'pixels such as "224x224".'
            )
        return int(parts[0]), int(parts[1])
    preprocessing = image_preprocessing(checkpoint)
    own = value_of(checkpoint.config, "image_size")
    if preprocessing and _counts_pixels(checkpoint, preprocessing):
        return _within(checkpoint, preprocessing, _height_and_width(own) or (_SIDE, _SIDE))
    pad, crop, resize = (
        preprocessing.get(f"do_{each}") for each in ("pad", "center_crop", "resize")
    )
    for applies, value in (
        (pad is not False, preprocessing.get("pad_size")),
        (crop is not False, preprocessing.get("crop_size")),
        (resize is not False, preprocessing.get("size")),
        (True, own),
    ):
        size = _height_and_width(value) if applies else None
        if size:
            return size
    return _SIDE, _SIDE


def _height_and_width(value: Any) -> tuple[int, int] | None:
    """A size in pixels, in the forms in which files have it; None: it is no size of a picture."""
    if isinstance(value, int):
        return value, value
    if isinstance(value, list | tuple) and len(value) == 2:
        return int(value[0]), int(value[1])
    if isinstance(value, dict) and value.get("height") and value.get("width"):
        return int(value["height"]), int(value["width"])
    if isinstance(value, dict) and value.get("shortest_edge"):
        # A square picture has no longer edge that would shrink it.
        side = min(value["shortest_edge"], value.get("longest_edge") or value["shortest_edge"])
        return int(side), int(side)
    return None


def _counts_pixels(checkpoint: Checkpoint, preprocessing: Mapping[str, Any]) -> bool:
    """Returns whether a processor's edges are numbers of pixels in all, as of Qwen-VL's kind."""
    defaults = patches.processor_defaults(checkpoint.config.model_type)
    return any("merge_size" in each or "min_pixels" in each for each in (preprocessing, defaults))


def _within(
    checkpoint: Checkpoint, preprocessing: Mapping[str, Any], size: tuple[int, int]
) -> tuple[int, int]:
    """The square nearest to a size, of whole patches and as many pixels as a processor allows."""
    bounds = preprocessing.get("size") or {}
    least = preprocessing.get("min_pixels") or bounds.get("shortest_edge") or 0
    most = preprocessing.get("max_pixels") or bounds.get("longest_edge") or float("inf")
    unit = patches.merged_side(checkpoint.config, preprocessing)
    side = max(round(min(size) / unit), 1) * unit
    if side * side > most:
        side = max(math.isqrt(int(most)) // unit, 1) * unit
    if side * side < least:
        side = math.ceil(least**0.5 / unit) * unit
    return side, side


def audio(checkpoint: Checkpoint, model: Any, options: Options, of_samples: bool = False) -> Inputs:
    """Samples (1, n), or the features that the checkpoint's preprocessing computes of them.

    Args:
      checkpoint: the model's.
      model: asked for the name of its main input.
      options: `samples`.
      of_samples: whether it reads samples, whatever its main input is.
    """
    config = checkpoint.config
    preprocessing = preprocessing_of(checkpoint, "feature_extractor")
    metadata = {"get_sampling_rate": int(preprocessing.get("sampling_rate", 16000))}
    shape = None if of_samples else _feature_shape(config, model.main_input_name)
    if shape:
        features = torch.randn(1, *shape)
        return Inputs({"features": features}, None, ({"features": -features},), metadata)
    # Convolutions over samples export with a fixed size only.
    samples = torch.randn(1, options.integer("samples", _SAMPLES, minimum=1))
    return Inputs({"samples": samples}, None, ({"samples": -samples},), metadata)


def max_length(checkpoint: Checkpoint, model: Any, options: Options, default: int) -> int:
    """The most tokens that the program reads: `max_length` of the target, or the model's.

    Raises:
      BuildError: the model does not read as many.
    """
    sizes = [value_of(checkpoint.config, name) for name in _SIZES]
    limit = next((size for size in sizes if isinstance(size, int) and size > 0), None)
    for name, module in model.named_modules():
        # In the manner of RoBERTa: positions begin after that of the padding.
        if (
            name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
        ):
            limit = module.weight.shape[0] - module.padding_idx - 1
    most = options.integer("max_length", min(default, limit or default), minimum=2)
    if limit and most > limit:
        raise BuildError(
            f"{checkpoint.label}: max_length: got {most}, expected at most {limit}, the positions "
            "that the model has.",
            "Make it smaller, or remove it.",
        )
    return most


def _feature_shape(config: Any, main_input: str) -> tuple[int, ...] | None:
    """Sizes of features without the batch; None: the model reads samples."""
    bins = value_of(config, "num_mel_bins")
    if main_input == "input_values":
        # Spectrograms, in the manner of AST.
        length = getattr(config, "max_length", None)
        return (length, bins) if bins and length else None
    if config.model_type == "whisper":
        return bins, 2 * config.max_source_positions
    width = value_of(config, "feature_projection_input_dim")
    width = width or value_of(config, "input_feat_per_channel") or bins or 80
    return 400, width


def value_of(config: Any, name: str, default: Any = None) -> Any:
    """A value of a configuration, or else of those that it contains."""
    own = config.get(name) if isinstance(config, dict) else getattr(config, name, None)
    if own is not None:
        return own
    parts = [] if isinstance(config, dict) else [getattr(config, part, None) for part in _PARTS]
    values = (value_of(part, name) for part in parts if part is not None)
    return next((value for value in values if value is not None), default)


def _boxes(config: Any, count: int) -> torch.Tensor:
    """Boxes (1, count, 4) of tokens that follow each other in a line."""
    left = torch.arange(count) / (count + 1)
    boxes = torch.stack([left, left * 0, left + 1 / (count + 1), left * 0 + 0.5], dim=-1)[None]
    # Models that embed coordinates have so many of them.
    most = value_of(config, "max_2d_position_embeddings")
    return boxes if most is None else (boxes * (most - 1)).long()


def _vocabulary(model: Any) -> int:
    """Returns the number of different tokens that a model reads."""
    try:
        return model.get_input_embeddings().num_embeddings
    except (AttributeError, NotImplementedError):
        # Of two towers, transformers does not know which embeddings are meant.
        return getattr(model.config.get_text_config(), "vocab_size", _CHARACTERS)


def _special_tokens(config: Any) -> set[int]:
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id")
    special: set[int] = set()
    for name in (*names, "mask_token_id", "decoder_start_token_id", "image_token_id"):
        value = getattr(config, name, None)
        special.update(value if isinstance(value, list) else [value] if value is not None else [])
    return special
