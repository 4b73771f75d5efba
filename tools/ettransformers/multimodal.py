"""Images or audio beside text: methods by the names that ExecuTorch's MultimodalRunner calls.

`vision_encoder` or `audio_encoder` turns one image or recording into embeddings, `token_embedding`
turns tokens into embeddings, and `text_decoder` reads either at a position of its KV cache. The
runner calls `text_decoder` once for each part of a prompt and looks at no more of embeddings than
their number. So they may be wider than the model's: behind its embedding, each position has notes
for the decoder. Of an architecture without such needs there are none. Gemma 3 lets the positions of
an image attend to each other, and notes which these are; models of Qwen-VL's kind turn queries and
keys by time, row and column, and note where in its part a position is. Where a part begins follows
from the positions before it, which a buffer keeps beside the cache.

All positions of an image have to be read by one call: a decoder that reads parts in pieces would
mask them as text. Hence calls of `text_decoder` are at least as long as an image.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec, Options
from torch import nn

from ettransformers import decoding, inputs
from ettransformers.pretrained import Checkpoint
from ettransformers.tracing import Constants, replacements

_MOST_TOKENS = 2048
_HINT = "Take a model whose images and recordings become embeddings, or declare it with et_model."


class _Notes:
    """What the decoder has to know of a position: here, nothing.

    Attributes:
      width: how many numbers it is.
    """

    width = 0

    def of_text(self, count: int) -> torch.Tensor:
        """Of tokens: float32 (1, count, width)."""
        return torch.zeros(1, count, self.width)

    def of_media(self, count: int) -> torch.Tensor:
        """Of an image or a recording: float32 (1, count, width)."""
        return torch.zeros(1, count, self.width)

    def arguments(
        self, notes: torch.Tensor, start: torch.Tensor, positions: torch.Tensor | None
    ) -> dict[str, Any]:
        """Arguments of the model.

        Args:
          notes: of the positions that a call reads.
          start: how many positions the cache has before them, a scalar.
          positions: the buffer of all positions before them, or None.
        """
        return {}


class _BlockNotes(_Notes):
    """Whether a position is of an image, whose positions attend to each other."""

    width = 1

    def __init__(self, config: Any, length: int) -> None:
        self.window = getattr(config, "sliding_window", None)
        self.length = length

    def of_media(self, count: int) -> torch.Tensor:
        return torch.ones(1, count, 1)

    def arguments(
        self, notes: torch.Tensor, start: torch.Tensor, positions: torch.Tensor | None
    ) -> dict[str, Any]:
        queries = (torch.arange(notes.shape[1]) + start).view(-1, 1)
        keys = torch.arange(self.length).view(1, -1)
        # A call reads one part of a prompt: what is read with a position of an image is the image.
        block = (notes[0] > 0) & (keys >= start) & (keys < start + notes.shape[1])
        seen = (keys <= queries) | block
        masks = {"full_attention": seen}
        if self.window:
            masks["sliding_attention"] = seen & (keys > queries - self.window)
        least = torch.finfo(torch.float32).min
        additive = {name: torch.where(mask, 0.0, least)[None, None] for name, mask in masks.items()}
        return {"attention_mask": additive}


class _GridNotes(_Notes):
    """Time, row and column of a position in its part of the prompt.

    Args:
      grid: rows and columns of an image's embeddings.
    """

    width = 3

    def __init__(self, grid: tuple[int, int]) -> None:
        self.grid = grid

    def of_text(self, count: int) -> torch.Tensor:
        return torch.arange(count).to(torch.float32).view(1, -1, 1).expand(1, count, 3)

    def of_media(self, count: int) -> torch.Tensor:
        rows, columns = torch.meshgrid(*(torch.arange(size) for size in self.grid), indexing="ij")
        places = torch.stack([torch.zeros_like(rows), rows, columns], dim=-1)
        return places.reshape(1, count, 3).to(torch.float32)

    def arguments(
        self, notes: torch.Tensor, start: torch.Tensor, positions: torch.Tensor | None
    ) -> dict[str, Any]:
        before = torch.arange(positions.shape[1]) < start
        # After an image, text goes on behind its longer side.
        first = torch.where(before, positions.amax(0), -1).amax() + 1
        its = notes[0].to(torch.long).transpose(0, 1) + first
        positions.index_copy_(1, torch.arange(notes.shape[1]) + start, its)
        return {"position_ids": its.unsqueeze(1)}


class _TokenEmbedding(nn.Module):
    def __init__(self, model: nn.Module, notes: _Notes) -> None:
        super().__init__()
        self.embedding = model.get_input_embeddings()
        self.notes = notes

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 tokens (1, n) to float32 (1, n, width)."""
        return torch.cat([self.embedding(tokens), self.notes.of_text(tokens.shape[1])], dim=-1)


class _VisionEncoder(nn.Module):
    """An image's embeddings. Rescaling and normalizing it is part of the program.

    Args:
      model: of transformers.
      preprocessing: of preprocessor_config.json.
      notes: makes the decoder's notes; set once the number of embeddings is known.
    """

    def __init__(self, model: nn.Module, preprocessing: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.notes = _Notes()
        self.constants = Constants(model)
        scale = preprocessing.get("rescale_factor", 1 / 255)
        self.scale = scale if preprocessing.get("do_rescale", True) else 1.0
        normalizes = preprocessing.get("do_normalize", True)
        for name, default in (("image_mean", 0.0), ("image_std", 1.0)):
            values = preprocessing.get(name) if normalizes else None
            values = torch.tensor(values or [default] * 3, dtype=torch.float32)
            self.register_buffer(name, values.view(1, -1, 1, 1), persistent=False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """uint8 pixels (1, 3, height, width) to float32 (1, n, width)."""
        with replacements(), self.constants.replayed():
            values = pixels.to(torch.float32) * self.scale
            features = self.features((values - self.image_mean) / self.image_std)
        return torch.cat([features, self.notes.of_media(features.shape[1])], dim=-1)

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Embeddings (1, n, width) of normalized pixels."""
        return _joined(self.model.get_image_features(pixel_values=pixels, return_dict=True))


class _WholeImageEncoder(_VisionEncoder):
    """Of the kind of Idefics 3, which first looks for images that are padding. Here are none."""

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        inner = self.model.model
        size = inner.config.vision_config.patch_size
        patches = torch.ones(1, pixels.shape[2] // size, pixels.shape[3] // size, dtype=torch.bool)
        states = inner.vision_model(pixel_values=pixels, patch_attention_mask=patches)
        return inner.connector(states.last_hidden_state)


class _PatchEncoder(_VisionEncoder):
    """Of the kind of Qwen-VL, which reads patches, those of a merged one side by side."""

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        vision = self.model.config.vision_config
        size, merged = vision.patch_size, vision.spatial_merge_size
        rows, columns = pixels.shape[2] // size, pixels.shape[3] // size
        # In steps of few dimensions: delegates take at most six.
        patches = pixels.reshape(-1, rows, size, columns, size).permute(1, 3, 0, 2, 4)
        # An image is a film of one moment, which is repeated.
        patches = patches.reshape(rows * columns, -1, 1, size, size)
        patches = patches.expand(-1, -1, getattr(vision, "temporal_patch_size", 1), -1, -1)
        patches = patches.reshape(rows // merged, merged, columns // merged, merged, -1)
        patches = patches.permute(0, 2, 1, 3, 4)
        return _joined(
            self.model.get_image_features(
                pixel_values=patches.reshape(rows * columns, -1),
                image_grid_thw=torch.tensor([[1, rows, columns]]),
                return_dict=True,
            )
        )


class _SizedEncoder(_VisionEncoder):
    """Of the kind of Mistral 3, which is told an image's size."""

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        size = (pixels.shape[2], pixels.shape[3])
        return _joined(
            self.model.get_image_features(pixel_values=pixels, image_sizes=[size], return_dict=True)
        )


class _AudioEncoder(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.notes = _Notes()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """float32 features (1, bins, frames) to float32 (1, n, width)."""
        with replacements():
            states = _joined(self.model.get_audio_features(features, return_dict=True))
        return torch.cat([states, self.notes.of_media(states.shape[1])], dim=-1)


class _Decoder(nn.Module):
    """Logits of the last of some embeddings that continue what the cache holds."""

    def __init__(self, model: nn.Module, notes: _Notes, length: int) -> None:
        super().__init__()
        self.model = model
        self.notes = notes
        self.buffers_of_cache = decoding.Buffers(model.config.get_text_config(decoder=True), length)
        positions = torch.zeros(3, length, dtype=torch.long)
        keeps_positions = isinstance(notes, _GridNotes)
        self.register_buffer("positions", positions if keeps_positions else None, persistent=False)
        cache = decoding.empty_cache(self.buffers_of_cache.config, length)
        embedding = model.get_input_embeddings()(torch.zeros(1, 1, dtype=torch.long))
        with torch.no_grad():
            model(inputs_embeds=embedding, past_key_values=cache)
        self.buffers_of_cache.allocate(cache)

    def forward(self, embeddings: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        """Reads float32 (1, n, width) at int64 position input_pos (1,); logits (1, vocabulary)."""
        start = input_pos[0]
        cache = self.buffers_of_cache.cache(start, embeddings.shape[1])
        width = embeddings.shape[2] - self.notes.width
        with replacements():
            notes = embeddings[:, :, width:]
            result = self.model(
                inputs_embeds=embeddings[:, :, :width],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
                **self.notes.arguments(notes, start, self.positions),
            )
        return result.logits[:, -1]


def of_images(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """The methods `vision_encoder`, `token_embedding` and `text_decoder`, with metadata."""
    known = {"pixel_values", "pixel_attention_mask", "image_grid_thw"}
    # With pinpoints, an image is cut into tiles, whose number depends on its size.
    known |= set() if hasattr(model.config, "image_grid_pinpoints") else {"image_sizes"}
    _check(model, "get_image_features", known)
    preprocessing = checkpoint.optional_json("preprocessor_config.json")
    height, width = inputs.image_size(checkpoint, options)
    kind = _kind(_parameters(model.model, "get_image_features"))
    pixels = torch.randint(0, 256, (1, 3, height, width), dtype=torch.uint8)
    metadata = {"get_image_size": [height, width]}
    encoder = kind(model, preprocessing)
    with torch.no_grad():
        encoder.constants.record(encoder, (pixels, 255 - pixels))
    return _spec(checkpoint, options, encoder, "vision_encoder", (pixels, 255 - pixels), metadata)


def _kind(parameters: Mapping[str, inspect.Parameter]) -> type[_VisionEncoder]:
    """The encoder of a model whose `get_image_features` has these parameters."""
    if "pixel_attention_mask" in parameters:
        return _WholeImageEncoder
    if "image_grid_thw" in parameters:
        return _PatchEncoder
    sizes = parameters.get("image_sizes")
    # Where it may be missing, one of several kinds of encoders takes it.
    if sizes is not None and sizes.default is inspect.Parameter.empty:
        return _SizedEncoder
    return _VisionEncoder


def of_recordings(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """The methods `audio_encoder`, `token_embedding` and `text_decoder`, with metadata."""
    _check(model, "get_audio_features", {"input_features"})
    config = model.config.audio_config
    features = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)
    preprocessing = checkpoint.optional_json("preprocessor_config.json")
    metadata = {"get_sampling_rate": int(preprocessing.get("sampling_rate", 16000))}
    encoder = _AudioEncoder(model)
    return _spec(checkpoint, options, encoder, "audio_encoder", (features, -features), metadata)


def _spec(
    checkpoint: Checkpoint,
    options: Options,
    encoder: Any,
    name: str,
    media: tuple[torch.Tensor, torch.Tensor],
    metadata: dict[str, Any],
) -> ModelSpec:
    """The program of an encoder, which is one of the classes above."""
    model = encoder.model
    length = inputs.max_length(checkpoint, model, options, _MOST_TOKENS)
    with torch.no_grad():
        count = encoder.eval()(media[0]).shape[1]
    if count >= length:
        raise BuildError(
            f"{checkpoint.label}: max_length: got {length}, expected more than {count}, the "
            f"positions that {name} returns.",
            "Make it larger, or images smaller with image_size.",
        )
    notes = _notes(model, media[0], length)
    encoder.notes = notes
    calls = decoding.calls_of(model, length, options)
    # The runner reads an image in one call, and text by as many tokens as it has.
    calls = dataclasses.replace(calls, most=max(calls.most, count), dynamic=True)
    vocabulary = model.get_input_embeddings().num_embeddings
    embedding = _TokenEmbedding(model, notes).eval()
    decoder = _Decoder(model, notes, length).eval()
    size = torch.export.Dim("count", min=1, max=calls.most)

    def tokens(number: int) -> torch.Tensor:
        return (torch.arange(number) % vocabulary).view(1, -1)

    def embeddings(number: int) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            return embedding(tokens(number)), torch.tensor([0])

    half = max(2, calls.most // 2)
    with torch.no_grad():
        seen = encoder(media[0])
    methods = {
        name: Method(encoder, (media[0],), strict=False, test_inputs=[(media[1],)]),
        "token_embedding": Method(
            embedding, (tokens(half),), ({1: size},), strict=False, test_inputs=[(tokens(1),)]
        ),
        "text_decoder": Method(
            decoder,
            embeddings(half),
            ({1: size}, {}),
            strict=False,
            test_inputs=[(seen, torch.tensor([0])), embeddings(1)],
        ),
    }
    its = decoding.metadata(checkpoint, length, vocabulary, calls)
    return ModelSpec(methods, its | metadata)


def _notes(model: Any, media: torch.Tensor, length: int) -> _Notes:
    """The notes that an architecture needs."""
    text = model.config.get_text_config(decoder=True)
    rope = getattr(text, "rope_parameters", None) or {}
    if "mrope_section" in rope:
        vision = model.config.vision_config
        side = vision.patch_size * vision.spatial_merge_size
        return _GridNotes((media.shape[2] // side, media.shape[3] // side))
    forward = inspect.signature(type(model).forward).parameters
    if "token_type_ids" in forward:
        return _BlockNotes(text, length)
    return _Notes()


def _joined(result: Any) -> torch.Tensor:
    """Embeddings (1, n, width) of what transformers returns of one image or recording.

    Raises:
      BuildError: there is more than embeddings.
    """
    if getattr(result, "deepstack_features", None):
        raise BuildError(
            f"{type(result).__name__}: layers of the decoder read what inner layers of the encoder "
            "saw (deepstack), expected embeddings alone.",
            _HINT,
        )
    features = result.pooler_output
    if isinstance(features, list | tuple):
        features = torch.cat([each.reshape(-1, each.shape[-1]) for each in features])
    return features.reshape(1, -1, features.shape[-1])


def _parameters(model: Any, name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(model, name)).parameters)


def _check(model: Any, name: str, known: set[str]) -> None:
    """Fails where a model's images or recordings take more than themselves, or go elsewhere."""
    inner = getattr(model, "model", None)
    if not hasattr(model, name) or not hasattr(inner, name):
        raise BuildError(
            f"{type(model).__name__}: it has no {name}, expected a model whose decoder reads "
            "embeddings.",
            _HINT,
        )
    required = {
        parameter.name
        for parameter in _parameters(inner, name).values()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    }
    if not required <= known:
        raise BuildError(
            f"{type(model).__name__}: {name} needs {', '.join(sorted(required - known))}, expected "
            f"{' and '.join(sorted(known))} alone.",
            _HINT,
        )
