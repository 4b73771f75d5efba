"""Images or audio beside text: methods that chats and ExecuTorch's MultimodalRunner call.

`vision_encoder` or `audio_encoder` turns one image or recording into embeddings, `token_embedding`
turns tokens into embeddings, and `text_decoder` reads either at a position of its KV cache. The
runner calls `text_decoder` once for each part of a prompt and looks at no more of embeddings than
their number. So they may be wider than the model's: behind its embedding, each position has numbers
for the decoder. Of an architecture without such needs there are none. Gemma 3 lets the positions of
an image attend to each other, and the numbers say which these are; models of Qwen-VL's kind turn
queries and keys by time, row and column, and note where in its part a position is. Where a part
begins follows from the positions before it, which a buffer keeps beside the cache. And where layers
of the decoder read what inner layers of the encoder saw (deepstack), that stands between embedding
and these.

All positions of an image have to be read by one call: a decoder that reads parts in pieces would
mask them as text. Hence calls of `text_decoder` are at least as long as an image.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec, Options
from torch import nn

from etllm.transformers import decoding, inputs, seq2seq, vision
from etllm.transformers.constants import Constants
from etllm.transformers.position_info import PlaceInfo, PositionInfo, position_info_of
from etllm.transformers.pretrained import Checkpoint, parameters_of, with_method
from etllm.transformers.tracing import replacements

_MOST_TOKENS = 2048
# Of half a minute, where the checkpoint doesn't say how many.
_MOST_FRAMES = 3000
# Of a recording's frames, by the names that models give them.
_MASKS = ("input_features_mask", "feature_attention_mask")
# What encoders of recordings may need.
_RECORDINGS = {"input_features", "input_features_mask", "input_values"}
# Keys of the token that marks an image or a recording in a text.
_TOKENS = {
    "vision_encoder": ("image_token_id", "image_token_index"),
    "audio_encoder": ("audio_token_id", "audio_token_index"),
}
# Arguments of Gemma 4's kind, which fails without them though they may be left out.
_NEEDED = ("image_position_ids",)
_HINT = "Take a model whose images and recordings become embeddings, or declare it with et_model."


class _TokenEmbedding(nn.Module):
    """Embeddings of tokens, as wide as those of an image.

    Args:
      model: of transformers.
      info: makes what the decoder has to know of positions.
      depth: how many layers of the decoder read inner layers of the encoder. They add nothing here.
    """

    def __init__(self, model: nn.Module, info: PositionInfo, depth: int) -> None:
        super().__init__()
        self.embedding = model.get_input_embeddings()
        self.position_info = info
        self.depth = depth

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 tokens (1, n) to float32 (1, n, width)."""
        embeddings = self.embedding(tokens)
        inner = [torch.zeros_like(embeddings)] * self.depth
        return torch.cat([embeddings, *inner, self.position_info.of_text(tokens.shape[1])], dim=-1)


class _AudioEncoder(nn.Module):
    """A recording's embeddings.

    Args:
      model: of transformers.
      axis: of the features' frames: 2, or 1 if each frame's features lie side by side.
    """

    def __init__(self, model: nn.Module, axis: int) -> None:
        super().__init__()
        self.model = model
        self.axis = axis
        self.constants = Constants(model)
        self.position_info = PositionInfo()
        self.grid = None

    def forward(self, recording: torch.Tensor) -> torch.Tensor:
        """float32 features (1, bins, frames) or (1, frames, bins) to float32 (1, n, width)."""
        with replacements(), self.constants.replayed():
            states = self.states(recording)
        return torch.cat([states, self.position_info.of_media(states.shape[1])], dim=-1)

    def states(self, recording: torch.Tensor) -> torch.Tensor:
        """Embeddings (1, n, width) without the positions' info."""
        owner = with_method(self.model, "get_audio_features")
        whole = torch.ones(1, recording.shape[self.axis], dtype=torch.long)
        known = parameters_of(owner, "get_audio_features")
        mask = {name: whole for name in _MASKS if name in known}
        result = owner.get_audio_features(recording, **mask, return_dict=True)
        return vision.joined(owner, result)


class _SampleEncoder(_AudioEncoder):
    """Of the kind of VibeVoice, which reads samples (1, n) of one channel."""

    def states(self, recording: torch.Tensor) -> torch.Tensor:
        owner = with_method(self.model, "get_audio_features")
        # A program has no noise to add, as the model does by default.
        takes_noise = "sample" in parameters_of(owner, "get_audio_features")
        noise = {"sample": False} if takes_noise else {}
        return vision.joined(owner, owner.get_audio_features(recording[:, None], **noise))


class _TowerEncoder(_AudioEncoder):
    """Of the kind of Qwen2-Audio, whose forward alone calls its encoder and its projector."""

    def states(self, recording: torch.Tensor) -> torch.Tensor:
        owner = with_method(self.model, "audio_tower")
        return owner.multi_modal_projector(owner.audio_tower(recording).last_hidden_state)


class _Decoder(nn.Module):
    """Logits of the last of some embeddings that continue what the cache holds."""

    def __init__(self, model: nn.Module, info: PositionInfo, length: int) -> None:
        super().__init__()
        self.model = model
        self.position_info = info
        self.width = model.get_input_embeddings().embedding_dim
        self.buffers_of_cache = decoding.Buffers(model.config.get_text_config(decoder=True), length)
        positions = torch.zeros(info.width, length, dtype=torch.long)
        keeps_positions = isinstance(info, PlaceInfo)
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
        end = embeddings.shape[2] - self.position_info.width
        info = embeddings[:, :, end:]
        own, *inner = embeddings[:, :, :end].split(self.width, dim=-1)
        with replacements(), _added(self.model.get_decoder(), inner):
            result = self.model(
                inputs_embeds=own,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
                **self.position_info.arguments(info, start, self.positions),
            )
        return result.logits[:, -1]


@contextlib.contextmanager
def _added(decoder: Any, inner: Sequence[torch.Tensor]) -> Iterator[None]:
    """While it lasts, the outputs of the decoder's first layers have these added to them."""

    def plus(_layer: nn.Module, _inputs: Any, output: Any, part: torch.Tensor) -> Any:
        if isinstance(output, tuple):
            return (output[0] + part, *output[1:])
        return output + part

    with contextlib.ExitStack() as hooks:
        for layer, part in zip(decoder.layers if inner else (), inner, strict=False):
            hook = layer.register_forward_hook(functools.partial(plus, part=part))
            hooks.callback(hook.remove)
        yield


def of_images(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """The methods `vision_encoder`, `token_embedding` and `text_decoder`, with metadata."""
    if "pixel_values" not in inspect.signature(model.forward).parameters:
        # A decoder alone, of an architecture that others put behind an encoder.
        return decoding.build(checkpoint, model, options, outputs)
    if model.config.is_encoder_decoder:
        return seq2seq.of_images(checkpoint, model, options, outputs)
    known = {"pixel_values", "pixel_attention_mask", "image_grid_thw", "image_merge_sizes"}
    known |= {"image_sizes", "spatial_shapes"}
    _check(model, "get_image_features", known)
    preprocessing = inputs.image_preprocessing(checkpoint)
    height, width = _image_size(checkpoint, options)
    pixels = torch.randint(0, 256, (1, 3, height, width), dtype=torch.uint8)
    metadata = {"get_image_size": [height, width]}
    encoder = vision.encoder_of(model, preprocessing, tuple(pixels.shape))
    with torch.no_grad():
        encoder.constants.record(encoder, (pixels, 255 - pixels))
    return _spec(checkpoint, options, encoder, "vision_encoder", (pixels, 255 - pixels), metadata)


def _image_size(checkpoint: Checkpoint, options: Options) -> tuple[int, int]:
    """Height and width in pixels; of images that are cut into tiles, the smallest by default.

    Raises:
      BuildError: an image of this size is not made of tiles.
    """
    sizes = [tuple(size) for size in getattr(checkpoint.config, "image_grid_pinpoints", None) or ()]
    if sizes and not options.text("image_size", ""):
        return min(sizes, key=lambda size: size[0] * size[1])
    height, width = inputs.image_size(checkpoint, options)
    if sizes and (height, width) not in sizes:
        raise options.error(
            "image_size",
            f"one of {', '.join(f'{rows}x{columns}' for rows, columns in sizes)}, sizes that the "
            "model cuts into tiles",
            "Take the one that is nearest to your images' shape.",
        )
    return height, width


def of_recordings(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """The methods `audio_encoder`, `token_embedding` and `text_decoder`, with metadata."""
    preprocessing = inputs.preprocessing_of(checkpoint, "feature_extractor")
    owner = with_method(model, "get_audio_features")
    tower = with_method(model, "audio_tower")
    if owner is None and hasattr(tower, "multi_modal_projector"):
        config = model.config.audio_config
        features = torch.randn(1, config.num_mel_bins, _frames(config, preprocessing))
        encoder: _AudioEncoder = _TowerEncoder(model, axis=2)
    else:
        _check(model, "get_audio_features", _RECORDINGS)
        encoder, features = _audio_encoder(checkpoint, model, options, preprocessing)
    metadata = {"get_sampling_rate": int(preprocessing.get("sampling_rate", 16000))}
    with torch.no_grad():
        encoder.constants.record(encoder, (features, -features))
    return _spec(checkpoint, options, encoder, "audio_encoder", (features, -features), metadata)


def _audio_encoder(
    checkpoint: Checkpoint, model: Any, options: Options, preprocessing: dict[str, Any]
) -> tuple[_AudioEncoder, torch.Tensor]:
    """The encoder and features of a recording.

    Configurations do not say how features lie, so it is the way in which the model reads them.

    Raises:
      BuildError: it reads them in no way that is known.
    """
    if "input_values" in parameters_of(
        with_method(model, "get_audio_features"), "get_audio_features"
    ):
        given = inputs.audio(checkpoint, model, options, of_samples=True)
        return _SampleEncoder(model, axis=1), given.example["samples"]
    config = getattr(model.config, "audio_config", None) or model.config.encoder_config
    frames, bins = _frames(config, preprocessing), config.num_mel_bins
    # Where frames are not convolved, each has a position. Their count may begin at one.
    positions = frames if frames == _MOST_FRAMES else frames // 2 - 1
    # Some extractors put several frames side by side.
    stacked = getattr(config, "input_size", bins)
    for axis, shape in ((2, (bins, frames)), (1, (frames, bins)), (1, (positions, stacked))):
        encoder, features = _AudioEncoder(model, axis).eval(), torch.randn(1, *shape)
        try:
            with torch.no_grad():
                encoder(features)
        except (RuntimeError, ValueError) as error:
            unread = error
        else:
            return encoder, features
    raise BuildError(
        f"{type(model).__name__}: get_audio_features reads no features of {bins} bins and {frames} "
        f"frames: {unread}",
        _HINT,
    )


def _frames(config: Any, preprocessing: dict[str, Any]) -> int:
    """Returns a recording's number of frames of features: two for each position of the encoder.

    An encoder with windows has positions of a window alone.
    """
    has_windows = hasattr(config, "n_window")
    for name in () if has_windows else ("max_source_positions", "max_position_embeddings"):
        if hasattr(config, name):
            return 2 * getattr(config, name)
    frames = int(preprocessing.get("nb_max_frames", _MOST_FRAMES))
    # Attention's windows are traced as equally long ones.
    window = getattr(config, "n_window_infer", None) or 1
    return max(frames - frames % window, window)


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
    decoding.fix_positions(model, length, checkpoint.label)
    with torch.no_grad():
        _, count, wide = encoder.eval()(media[0]).shape
    depth = wide // model.get_input_embeddings().embedding_dim - 1
    if count >= length:
        raise BuildError(
            f"{checkpoint.label}: max_length: got {length}, expected more than {count}, the "
            f"positions that {name} returns.",
            "Make it larger, or images smaller with image_size.",
        )
    info = position_info_of(model, encoder.grid, count, length)
    encoder.position_info = info
    calls = decoding.calls_of(model, length, options)
    # The runner reads an image in one call, and text by as many tokens as it has.
    calls = dataclasses.replace(calls, most=max(calls.most, count), dynamic=True)
    model_config = model.config
    model = _writer(model)
    vocabulary = model.get_input_embeddings().num_embeddings
    embedding = _TokenEmbedding(model, info, depth).eval()
    decoder = _Decoder(model, info, length).eval()
    size = torch.export.Dim("count", min=1, max=calls.most)

    def tokens(number: int) -> torch.Tensor:
        return decoding.example_tokens(number, vocabulary)

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
    constants = decoding.metadata(checkpoint, length, vocabulary, calls)
    tokens_of_media = (getattr(model_config, key, None) for key in _TOKENS[name])
    token = next((each for each in tokens_of_media if isinstance(each, int)), None)
    place = {} if token is None else {"get_media_token_id": token}
    return ModelSpec(methods, constants | metadata | place)


def _writer(model: Any) -> Any:
    """The part that reads embeddings, where the model itself always wants an image, too."""
    parameters = inspect.signature(model.forward).parameters.values()
    wants = [each.name for each in parameters if each.default is each.empty and each.name != "self"]
    return model.language_model if "pixel_values" in wants else model


def _check(model: Any, name: str, known: set[str]) -> None:
    """Fails where a model's images or recordings take more than themselves, or go elsewhere."""
    owner = with_method(model, name)
    if owner is None:
        raise BuildError(
            f"{type(model).__name__}: it has no {name}, expected a model whose decoder reads "
            "embeddings.",
            _HINT,
        )
    required = {
        parameter.name
        for parameter in parameters_of(owner, name).values()
        if parameter.name in _NEEDED
        or (
            parameter.default is parameter.empty
            and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        )
    }
    if not required <= known:
        raise BuildError(
            f"{type(model).__name__}: {name} needs {', '.join(sorted(required - known))}, expected "
            f"{' and '.join(sorted(known))} alone.",
            _HINT,
        )
