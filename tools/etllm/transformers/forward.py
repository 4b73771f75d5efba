"""Programs with one method: a model reads its inputs once, and returns what its task is about."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec, Options
from torch import nn

from etllm.transformers import inputs, patches
from etllm.transformers.constants import Constants
from etllm.transformers.pretrained import Checkpoint
from etllm.transformers.tracing import replacements

# Argument of a program to that of transformers' models.
_ARGUMENTS = {
    "tokens": "input_ids",
    "mask": "attention_mask",
    "boxes": "bbox",
    "segments": "token_type_ids",
}
# Where a model has no name for its result, as in the manner of PP-OCR.
_UNNAMED = ("last_hidden_state",)


class _Forward(nn.Module):
    """A model of transformers whose inputs are positional and whose outputs are tensors.

    Args:
      model: of transformers.
      outputs: names of what it returns; those that the model does not have are left out. If it
        has none of them, what it returns is called its last state.
    """

    def __init__(self, model: nn.Module, outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.outputs = outputs
        self.constants = Constants(model)

    def run(self, **arguments: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        with replacements(), self.constants.replayed():
            result = self.model(**arguments, return_dict=True)
        for names in (self.outputs, _UNNAMED):
            values = tuple(result[name] for name in names if result.get(name) is not None)
            if values:
                break
        else:
            raise BuildError(
                f"{type(self.model).__name__} returns {', '.join(result)}, expected one of "
                f"{', '.join(self.outputs)}.",
                "Declare the model with et_model and its own code.",
            )
        return values[0] if len(values) == 1 else values


class _Text(_Forward):
    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> Any:
        """int64 tokens and mask (1, n), 1 for each token that counts."""
        return self.run(input_ids=tokens, attention_mask=mask)


class _UnmaskedText(_Forward):
    def forward(self, tokens: torch.Tensor) -> Any:
        """int64 tokens (1, n)."""
        return self.run(input_ids=tokens)


class _TextPair(_Forward):
    def forward(self, tokens: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor) -> Any:
        """As `_Text`, and int64 segments (1, n): 0 in the first text, 1 in the second."""
        return self.run(input_ids=tokens, attention_mask=mask, token_type_ids=segments)


class _PlacedText(_Forward):
    def forward(self, tokens: torch.Tensor, mask: torch.Tensor, boxes: torch.Tensor) -> Any:
        """As `_Text`, and boxes (1, n, 4): left, top, right and bottom of each token on its page.

        Models that embed coordinates take them as int64, others as float32 of 0 to 1.
        """
        return self.run(input_ids=tokens, attention_mask=mask, bbox=boxes)


class _PlacedTextPair(_Forward):
    def forward(
        self, tokens: torch.Tensor, mask: torch.Tensor, boxes: torch.Tensor, segments: torch.Tensor
    ) -> Any:
        """As `_PlacedText` and `_TextPair`."""
        return self.run(input_ids=tokens, attention_mask=mask, bbox=boxes, token_type_ids=segments)


_TEXTS: dict[tuple[str, ...], type[_Forward]] = {
    ("tokens",): _UnmaskedText,
    ("tokens", "mask"): _Text,
    ("tokens", "mask", "segments"): _TextPair,
    ("tokens", "mask", "boxes"): _PlacedText,
    ("tokens", "mask", "boxes", "segments"): _PlacedTextPair,
}


class _SeenTextPair(_Forward):
    def forward(
        self,
        tokens: torch.Tensor,
        mask: torch.Tensor,
        segments: torch.Tensor,
        seen: torch.Tensor,
        places: torch.Tensor,
    ) -> Any:
        """As `_TextPair`, and what a detector of objects saw.

        Args:
          seen: float32 (1, objects, width), a vector for each object.
          places: float32 (1, objects, 4) of 0 to 1: its left, top, right and bottom.
        """
        return self.run(
            input_ids=tokens,
            attention_mask=mask,
            token_type_ids=segments,
            visual_feats=seen,
            visual_pos=places,
        )


class _Sentence(_Forward):
    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """As `_Text`; the mean of the tokens' states, scaled to length 1: (1, width)."""
        states = self.run(input_ids=tokens, attention_mask=mask)
        weights = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1)
        return nn.functional.normalize(mean, dim=1)


class _Image(_Forward):
    def forward(self, pixels: torch.Tensor) -> Any:
        """float32 pixels (1, channels, height, width)."""
        return self.run(pixel_values=pixels)


class _ShapedImage(_Image):
    """Of the kind of SigLIP 2, which reads patches and is told how many rows of them there are."""

    def forward(self, pixels: torch.Tensor) -> Any:
        cut, shape = patches.colored(self.model.config.vision_config.patch_size, pixels)
        return self.run(
            pixel_values=cut,
            pixel_attention_mask=torch.ones(1, cut.shape[1], dtype=torch.long),
            spatial_shapes=torch.tensor([shape]),
        )


class _ImageAndTask(_Forward):
    def forward(self, pixels: torch.Tensor, task: torch.Tensor) -> Any:
        """As `_Image`, and int64 tokens (1, n) that say what is to be done."""
        return self.run(pixel_values=pixels, task_inputs=task)


class _Film(_Forward):
    def forward(self, frames: torch.Tensor) -> Any:
        """float32 pixels (1, frames, channels, height, width)."""
        return self.run(pixel_values_videos=frames)


class _Samples(_Forward):
    def forward(self, samples: torch.Tensor) -> Any:
        """float32 samples (1, n)."""
        return self.run(input_values=samples)


class _Features(_Forward):
    def forward(self, features: torch.Tensor) -> Any:
        """float32 features (1, frames, bins), or in the model's own order."""
        return self.run(**{self.model.main_input_name: features})


class _ImageAndText(_Forward):
    def forward(self, pixels: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor) -> Any:
        """As `_Image` and `_Text`."""
        return self.run(pixel_values=pixels, input_ids=tokens, attention_mask=mask)


class _FilmAndText(_Forward):
    def forward(self, frames: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor) -> Any:
        """As `_Film` and `_Text`."""
        return self.run(pixel_values_videos=frames, input_ids=tokens, attention_mask=mask)


def of_text(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """Text to what each token, or the text, is."""
    names = _text_arguments(model, pairs=False)
    return _spec(_TEXTS[names](model, outputs), inputs.text(checkpoint, model, options, names))


def of_text_pair(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """As `of_text`; models that tell two texts apart take an argument for that."""
    names = _text_arguments(model, pairs=getattr(checkpoint.config, "type_vocab_size", 0) > 1)
    if "visual_feats" in inspect.signature(model.forward).parameters:
        text = inputs.text(checkpoint, model, options, ("tokens", "mask", "segments"))
        return _spec(_SeenTextPair(model, outputs), inputs.with_objects(checkpoint, text))
    return _spec(_TEXTS[names](model, outputs), inputs.text(checkpoint, model, options, names))


def of_sentence(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """A text to one vector."""
    return _spec(
        _Sentence(model, outputs), inputs.text(checkpoint, model, options, ("tokens", "mask"))
    )


def of_image(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """An image, or the frames of a film, to classes, boxes, masks or states."""
    known = inspect.signature(model.forward).parameters
    if "pixel_values_videos" in known:
        return _spec(_Film(model, outputs), inputs.film(checkpoint, options))
    if "pixel_values" not in known:
        return _spec(_UnmaskedText(model, outputs), inputs.colors(checkpoint, model))
    given = inputs.image(checkpoint, options)
    if "task_inputs" in known:
        return _spec(_ImageAndTask(model, outputs), inputs.with_task(checkpoint, given))
    kind = _ShapedImage if "spatial_shapes" in known else _Image
    return _spec(kind(model, outputs), given)


def of_audio(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """Samples or features of audio to classes, characters or states."""
    given = inputs.audio(checkpoint, model, options)
    module = _Samples if "samples" in given.example else _Features
    return _spec(module(model, outputs), given)


def of_image_and_text(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """An image, or the frames of a film, and texts to how well they match."""
    is_film = "pixel_values_videos" in inspect.signature(model.forward).parameters
    image = (inputs.film if is_film else inputs.image)(checkpoint, options)
    text = inputs.text(checkpoint, model, options, ("tokens", "mask"))
    merged = inputs.image_and_text(image, text)
    return _spec((_FilmAndText if is_film else _ImageAndText)(model, outputs), merged)


def of_any(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """The model's states for whatever it reads."""
    if model.config.is_encoder_decoder and hasattr(model, "get_encoder"):
        model = model.get_encoder()
    arguments = inspect.signature(model.forward).parameters
    if {"input_ids", "pixel_values"} <= set(arguments):
        return of_image_and_text(checkpoint, model, options, outputs)
    make = {"pixel_values": of_image, "input_values": of_audio, "input_features": of_audio}
    return make.get(model.main_input_name, of_text)(checkpoint, model, options, outputs)


def _text_arguments(model: Any, pairs: bool) -> tuple[str, ...]:
    known = inspect.signature(model.forward).parameters
    wanted = ("tokens", "mask", "boxes") + (("segments",) if pairs else ())
    return tuple(name for name in wanted if _ARGUMENTS[name] in known)


def _spec(module: _Forward, given: inputs.Inputs) -> ModelSpec:
    def ordered(tensors: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(tensors.values())

    module.eval()
    if given.dynamic is None:
        # What a model reads of its buffers, and of sizes, is the same for each input.
        with torch.no_grad():
            sets = (given.example, *given.more)
            module.constants.record(lambda each: module(**each), sets, may_differ=True)
    method = Method(
        module,
        ordered(given.example),
        given.dynamic,
        # tracing.py says why.
        strict=False,
        test_inputs=[ordered(more) for more in given.more],
    )
    return ModelSpec({"forward": method}, given.metadata)
