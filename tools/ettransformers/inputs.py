"""Example inputs of a model, and their dynamic sizes, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError, Options

from ettransformers.pretrained import Checkpoint

# Tokens and samples, where neither the target nor the configuration says how many.
_MOST_TOKENS = 512
_SAMPLES = 16_000
# Frames of a film, where the configuration does not say how many.
_FRAMES = 8
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
    """What a method is exported and tested with.

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


def text(checkpoint: Checkpoint, model: Any, options: Options, names: tuple[str, ...]) -> Inputs:
    """Tokens and what belongs to each of them.

    Args:
      checkpoint: the model's.
      model: asked for the most tokens that it reads.
      options: `max_length`, `dynamic`.
      names: arguments: "tokens", then "mask", "boxes" and "segments", if the model takes them.
    """
    most = max_length(checkpoint, model, options, _MOST_TOKENS)
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
    preprocessing = checkpoint.optional_json(_PREPROCESSOR)
    height, width = image_size(checkpoint, options)
    channels = _first(checkpoint.config, "num_channels", 3)
    pixels = torch.rand(1, channels, height, width)
    metadata: dict[str, Any] = {"get_image_size": [height, width]}
    for name in ("image_mean", "image_std"):
        if preprocessing.get(f"do_{name.split('_')[0]}", True) and preprocessing.get(name):
            metadata[f"get_{name}"] = [float(value) for value in preprocessing[name]]
    return Inputs({"pixels": pixels}, None, ({"pixels": -pixels},), metadata)


def colors(checkpoint: Checkpoint, model: Any) -> Inputs:
    """An image as tokens (1, n), one for the color of each pixel, in the manner of ImageGPT."""
    count, vocabulary = _first(checkpoint.config, "n_positions", 1024), _vocabulary(model)
    tokens = (torch.arange(count) % vocabulary).view(1, -1)
    metadata = {"get_max_seq_len": count, "get_vocab_size": vocabulary}
    return Inputs({"tokens": tokens}, None, ({"tokens": tokens.flip(1)},), metadata)


def film(checkpoint: Checkpoint, options: Options) -> Inputs:
    """Frames (1, count, channels, height, width), each of them as `image`."""
    one = image(checkpoint, options)
    count = _first(checkpoint.config, "num_frames", _FRAMES)
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
    preprocessing = checkpoint.optional_json(_PREPROCESSOR)
    for value in (
        preprocessing.get("crop_size"),
        _first(checkpoint.config, "image_size", None),
        preprocessing.get("size"),
    ):
        if isinstance(value, int):
            return value, value
        if isinstance(value, list | tuple) and len(value) == 2:
            return int(value[0]), int(value[1])
        if isinstance(value, dict) and "height" in value:
            return int(value["height"]), int(value["width"])
        if isinstance(value, dict) and "shortest_edge" in value:
            return int(value["shortest_edge"]), int(value["shortest_edge"])
    return 224, 224


def audio(checkpoint: Checkpoint, model: Any, options: Options, of_samples: bool = False) -> Inputs:
    """Samples (1, n), or the features that the checkpoint's preprocessing computes of them.

    Args:
      checkpoint: the model's.
      model: asked for the name of its main input.
      options: `samples`.
      of_samples: whether it reads samples, whatever its main input is.
    """
    config = checkpoint.config
    preprocessing = checkpoint.optional_json(_PREPROCESSOR)
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
    sizes = [_first(checkpoint.config, name, None) for name in _SIZES]
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
    bins = _first(config, "num_mel_bins", None)
    if main_input == "input_values":
        # Spectrograms, in the manner of AST.
        length = getattr(config, "max_length", None)
        return (length, bins) if bins and length else None
    if config.model_type == "whisper":
        return bins, 2 * config.max_source_positions
    width = _first(config, "feature_projection_input_dim", None)
    width = width or _first(config, "input_feat_per_channel", None) or bins or 80
    return 400, width


def _first(config: Any, name: str, default: Any) -> Any:
    """A value of a configuration or of one that it contains."""
    for part in (config, *(getattr(config, part, None) for part in _PARTS)):
        value = part.get(name) if isinstance(part, dict) else getattr(part, name, None)
        if value is not None:
            return value
    return default


def _boxes(config: Any, count: int) -> torch.Tensor:
    """Boxes (1, count, 4) of tokens that follow each other in a line."""
    left = torch.arange(count) / (count + 1)
    boxes = torch.stack([left, left * 0, left + 1 / (count + 1), left * 0 + 0.5], dim=-1)[None]
    # Models that embed coordinates have so many of them.
    most = _first(config, "max_2d_position_embeddings", None)
    return boxes if most is None else (boxes * (most - 1)).long()


def _vocabulary(model: Any) -> int:
    """How many different tokens a model reads."""
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
