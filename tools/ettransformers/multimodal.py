"""Images or audio beside text: methods by the names that ExecuTorch's MultimodalRunner calls.

`vision_encoder` or `audio_encoder` turns one image or recording into embeddings, `token_embedding`
turns tokens into embeddings, and `text_decoder` reads either at a position of its KV cache. The
runner calls `text_decoder` once for each part of a prompt and looks at no more of embeddings than
their number. So they may be wider than the model's: behind its embedding, each position has notes
for the decoder. Of an architecture without such needs there are none. Gemma 3 lets the positions of
an image attend to each other, and notes which these are; models of Qwen-VL's kind turn queries and
keys by time, row and column, and note where in its part a position is. Where a part begins follows
from the positions before it, which a buffer keeps beside the cache. And where layers of the decoder
read what inner layers of the encoder saw (deepstack), that stands between embedding and notes.

All positions of an image have to be read by one call: a decoder that reads parts in pieces would
mask them as text. Hence calls of `text_decoder` are at least as long as an image.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec, Options
from torch import nn
from torch.nn import functional

from ettransformers import decoding, inputs, patches, seq2seq
from ettransformers.pretrained import Checkpoint, with_method
from ettransformers.tracing import Constants, replacements

_MOST_TOKENS = 2048
# Of half a minute, where the checkpoint doesn't say how many.
_MOST_FRAMES = 3000
# Of a recording's frames, by the names that models give them.
_MASKS = ("input_features_mask", "feature_attention_mask")
# By PIL's numbers.
_RESAMPLED = {2: "bilinear", 3: "bicubic"}
# Arguments of Gemma 4's kind, which fails without them though they may be left out.
_NEEDED = ("image_position_ids",)
# Time, row and column.
_AXES = 3
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


class _PlaceNotes(_Notes):
    """Where a position is in its part of the prompt: in Qwen-VL's case time, row and column.

    Args:
      places: of a picture's or recording's embeddings, counted from its first: int64 (n, axes).
    """

    def __init__(self, places: torch.Tensor) -> None:
        self.places = places.contiguous()
        self.width = places.shape[1]

    def of_text(self, count: int) -> torch.Tensor:
        return torch.arange(count).to(torch.float32).view(1, -1, 1).expand(1, count, self.width)

    def of_media(self, count: int) -> torch.Tensor:
        return self.places.to(torch.float32)[None]

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
    """Embeddings of tokens, as wide as those of an image.

    Args:
      model: of transformers.
      notes: makes the decoder's notes.
      depth: how many layers of the decoder read inner layers of the encoder. They add nothing here.
    """

    def __init__(self, model: nn.Module, notes: _Notes, depth: int) -> None:
        super().__init__()
        self.embedding = model.get_input_embeddings()
        self.notes = notes
        self.depth = depth

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 tokens (1, n) to float32 (1, n, width)."""
        embeddings = self.embedding(tokens)
        inner = [torch.zeros_like(embeddings)] * self.depth
        return torch.cat([embeddings, *inner, self.notes.of_text(tokens.shape[1])], dim=-1)


class _VisionEncoder(nn.Module):
    """An image's embeddings. Rescaling and normalizing it is part of the program.

    Args:
      model: of transformers.
      preprocessing: of preprocessor_config.json.
      shape: of its images: (1, channels, height, width).
      notes: makes the decoder's notes; set once the number of embeddings is known.
    """

    def __init__(
        self, model: nn.Module, preprocessing: dict[str, Any], shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.model = model
        self.notes = _Notes()
        self.constants = Constants(model)
        # Moments, rows and columns of its patches, where the decoder counts them.
        self.grid: tuple[int, int, int] | None = None
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
        return self.embeddings(pixel_values=pixels)

    def embeddings(self, **arguments: Any) -> torch.Tensor:
        """Embeddings (1, n, width) of the arguments of the model's `get_image_features`."""
        owner = with_method(self.model, "get_image_features")
        return _joined(owner, owner.get_image_features(**arguments, return_dict=True))


class _TileEncoder(_VisionEncoder):
    """Of the kind of Idefics 3, which takes several tiles and leaves out padding. Here is one."""

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        owner = with_method(self.model, "get_image_features")
        mask = _parameters(owner, "get_image_features")["pixel_attention_mask"]
        # Where it may be missing, it is of pixels; else of tiles.
        whole = {"pixel_attention_mask": torch.ones(1, 1, dtype=torch.bool)}
        return self.embeddings(
            pixel_values=pixels[None], **(whole if mask.default is mask.empty else {})
        )


class _PatchEncoder(_VisionEncoder):
    """Of the kind of Qwen-VL, which reads patches in the order of its image processor."""

    def __init__(
        self, model: nn.Module, preprocessing: dict[str, Any], shape: tuple[int, ...]
    ) -> None:
        super().__init__(model, preprocessing, shape)
        self.layout = patches.layout_of(model.config, preprocessing, shape)
        self.grid = (1, shape[2] // self.layout.size, shape[3] // self.layout.size)

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        layout = self.layout
        owner = with_method(self.model, "get_image_features")
        sizes = {"image_grid_thw": torch.tensor([self.grid])}
        if "image_merge_sizes" in _parameters(owner, "get_image_features"):
            sizes["image_merge_sizes"] = torch.tensor([layout.merged])
        return self.embeddings(pixel_values=layout.cut(pixels), **sizes)


class _ShapedEncoder(_VisionEncoder):
    """Of the kind of LFM 2, which is told how many rows and columns of patches there are."""

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        owner = with_method(self.model, "get_image_features")
        cut, shape = patches.colored(owner.config.vision_config.patch_size, pixels)
        return self.embeddings(
            pixel_values=cut,
            spatial_shapes=torch.tensor([shape]),
            pixel_attention_mask=torch.ones(1, cut.shape[1], dtype=torch.long),
        )


class _SizedEncoder(_VisionEncoder):
    """Of the kind of Mistral 3, which is told an image's size."""

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        size = (pixels.shape[2], pixels.shape[3])
        return self.embeddings(pixel_values=pixels, image_sizes=[size])


class _TiledEncoder(_VisionEncoder):
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

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        small = self.rows @ pixels @ self.columns.transpose(0, 1)
        tiles = torch.cat([small, self.layout.cut(pixels)])
        size = (pixels.shape[2], pixels.shape[3])
        return self.embeddings(pixel_values=tiles[None], image_sizes=[size])


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
        self.notes = _Notes()
        self.grid = None

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """float32 features (1, bins, frames) or (1, frames, bins) to float32 (1, n, width)."""
        owner = with_method(self.model, "get_audio_features")
        whole = torch.ones(1, features.shape[self.axis], dtype=torch.long)
        known = _parameters(owner, "get_audio_features")
        mask = {name: whole for name in _MASKS if name in known}
        with replacements(), self.constants.replayed():
            states = _joined(owner, owner.get_audio_features(features, **mask, return_dict=True))
        return torch.cat([states, self.notes.of_media(states.shape[1])], dim=-1)


class _SampleEncoder(_AudioEncoder):
    """Of the kind of VibeVoice, which reads samples of one channel."""

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        """float32 samples (1, n) to float32 (1, n, width)."""
        owner = with_method(self.model, "get_audio_features")
        # A program has no noise to add, as the model does by default.
        takes_noise = "sample" in _parameters(owner, "get_audio_features")
        noise = {"sample": False} if takes_noise else {}
        with replacements(), self.constants.replayed():
            states = _joined(owner, owner.get_audio_features(samples[:, None], **noise))
        return torch.cat([states, self.notes.of_media(states.shape[1])], dim=-1)


class _Decoder(nn.Module):
    """Logits of the last of some embeddings that continue what the cache holds."""

    def __init__(self, model: nn.Module, notes: _Notes, length: int) -> None:
        super().__init__()
        self.model = model
        self.notes = notes
        self.width = model.get_input_embeddings().embedding_dim
        self.buffers_of_cache = decoding.Buffers(model.config.get_text_config(decoder=True), length)
        positions = torch.zeros(notes.width, length, dtype=torch.long)
        keeps_positions = isinstance(notes, _PlaceNotes)
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
        end = embeddings.shape[2] - self.notes.width
        notes = embeddings[:, :, end:]
        own, *inner = embeddings[:, :, :end].split(self.width, dim=-1)
        with replacements(), _added(self.model.get_decoder(), inner):
            result = self.model(
                inputs_embeds=own,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
                **self.notes.arguments(notes, start, self.positions),
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
    preprocessing = checkpoint.optional_json("preprocessor_config.json")
    height, width = _image_size(checkpoint, options)
    kind = _kind(_parameters(with_method(model, "get_image_features"), "get_image_features"))
    if getattr(model.config, "image_grid_pinpoints", None):
        kind = _TiledEncoder
    pixels = torch.randint(0, 256, (1, 3, height, width), dtype=torch.uint8)
    metadata = {"get_image_size": [height, width]}
    encoder = kind(model, preprocessing, tuple(pixels.shape))
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


def _kind(parameters: Mapping[str, inspect.Parameter]) -> type[_VisionEncoder]:
    """The encoder of a model whose `get_image_features` has these parameters."""
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
    return _VisionEncoder


def of_recordings(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """The methods `audio_encoder`, `token_embedding` and `text_decoder`, with metadata."""
    known = {"input_features", "input_features_mask", "input_values"}
    _check(model, "get_audio_features", known)
    preprocessing = checkpoint.optional_json("preprocessor_config.json")
    if "input_values" in _parameters(
        with_method(model, "get_audio_features"), "get_audio_features"
    ):
        features = inputs.audio(checkpoint, model, options, of_samples=True).example["samples"]
        encoder = _SampleEncoder(model, axis=1)
    else:
        encoder, features = _audio_encoder(model, preprocessing)
    metadata = {"get_sampling_rate": int(preprocessing.get("sampling_rate", 16000))}
    with torch.no_grad():
        encoder.constants.record(encoder, (features, -features))
    return _spec(checkpoint, options, encoder, "audio_encoder", (features, -features), metadata)


def _audio_encoder(model: Any, preprocessing: dict[str, Any]) -> tuple[_AudioEncoder, torch.Tensor]:
    """The encoder and features of a recording.

    Configurations do not say how features lie, so it is the way in which the model reads them.

    Raises:
      BuildError: it reads them in no way that is known.
    """
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
    """How many frames of features a recording has: two for each position of the encoder.

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
    with torch.no_grad():
        _, count, wide = encoder.eval()(media[0]).shape
    depth = wide // model.get_input_embeddings().embedding_dim - 1
    if count >= length:
        raise BuildError(
            f"{checkpoint.label}: max_length: got {length}, expected more than {count}, the "
            f"positions that {name} returns.",
            "Make it larger, or images smaller with image_size.",
        )
    notes = _notes(model, encoder.grid, count, length)
    encoder.notes = notes
    calls = decoding.calls_of(model, length, options)
    # The runner reads an image in one call, and text by as many tokens as it has.
    calls = dataclasses.replace(calls, most=max(calls.most, count), dynamic=True)
    model = _writer(model)
    vocabulary = model.get_input_embeddings().num_embeddings
    embedding = _TokenEmbedding(model, notes, depth).eval()
    decoder = _Decoder(model, notes, length).eval()
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
    its = decoding.metadata(checkpoint, length, vocabulary, calls)
    return ModelSpec(methods, its | metadata)


def _writer(model: Any) -> Any:
    """The part that reads embeddings, where the model itself always wants an image, too."""
    parameters = inspect.signature(model.forward).parameters.values()
    wants = [each.name for each in parameters if each.default is each.empty and each.name != "self"]
    return model.language_model if "pixel_values" in wants else model


def _notes(model: Any, grid: tuple[int, int, int] | None, count: int, length: int) -> _Notes:
    """The notes that an architecture needs.

    Args:
      grid: moments, rows and columns of an image's patches; None: it has no such grid.
      count: how many positions an image or a recording takes.
      length: how many positions the decoder's cache keeps.
    """
    text = model.config.get_text_config(decoder=True)
    if with_method(model, "get_rope_index") is not None:
        return _PlaceNotes(_places(model, grid, count))
    if getattr(text, "use_bidirectional_attention", None) is True:
        raise BuildError(
            f"{type(model).__name__}: positions of a prompt read those after them "
            "(use_bidirectional_attention), expected that each part reads what is before it.",
            "Take a model of another architecture: ExecuTorch's runner reads one part a call.",
        )
    forward = inspect.signature(type(model).forward).parameters
    if "token_type_ids" in forward:
        return _BlockNotes(text, length)
    return _Notes()


def _places(model: Any, grid: tuple[int, int, int] | None, count: int) -> torch.Tensor:
    """Where the positions of an image or a recording are, by the model's own function.

    Returns:
      int64 (count, axes), counted from its first position.

    Raises:
      BuildError: they are not counted from the image's first position, or text does not go on
        behind the largest of them.
    """
    if grid is None:
        return torch.arange(count).view(-1, 1).expand(-1, _AXES)
    owner = with_method(model, "get_rope_index")
    if "mm_token_type_ids" not in _parameters(owner, "get_rope_index"):
        # It looks for the tokens around the images; the positions are those of Qwen2-VL.
        merged = model.config.vision_config.spatial_merge_size
        sizes = (grid[0], grid[1] // merged, grid[2] // merged)
        places = torch.meshgrid(*(torch.arange(size) for size in sizes), indexing="ij")
        return torch.stack(places, dim=-1).reshape(count, _AXES)
    places = [_places_behind(model, owner, grid, count, tokens) for tokens in (2, 5)]
    if not torch.equal(*places):
        raise BuildError(
            f"{type(model).__name__}: get_rope_index: an image's places depend on where it is, "
            "expected that they are counted from its first.",
            _HINT,
        )
    return places[0]


def _places_behind(
    model: Any, owner: Any, grid: tuple[int, int, int], count: int, tokens: int
) -> torch.Tensor:
    """Places of an image, less the number of tokens of text before it, of which 2 are behind it."""
    types = functional.pad(torch.ones(1, count, dtype=torch.int), (tokens, 2))
    ids = types.long() * model.config.image_token_id
    found, _ = owner.get_rope_index(ids, types, image_grid_thw=torch.tensor([grid]))
    before, places, after = found[:, 0].transpose(0, 1).split([tokens, count, 2])
    around = torch.cat([before, after - places.amax() - 1 + tokens])
    if not torch.equal(around, torch.arange(tokens + 2).view(-1, 1).expand_as(around)):
        raise BuildError(
            f"{type(model).__name__}: get_rope_index: the text behind an image begins at "
            f"{after[0].tolist()}, expected the position after the image's last, "
            f"{int(places.amax()) + 1}.",
            _HINT,
        )
    return places - tokens


def _joined(owner: Any, result: Any) -> torch.Tensor:
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


def _parameters(model: Any, name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(model, name)).parameters)


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
        for parameter in _parameters(owner, name).values()
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
