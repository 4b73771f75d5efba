"""Encoders with a decoder: two methods over the same weights, by the names of ExecuTorch's runner.

`encoder` reads the input once. Its result is not the encoder's states, but the keys and values that
the decoder's layers compute of these for cross-attention, so that no step computes them again.
`text_decoder` takes this tensor as it is, beside tokens and their position, and keeps a KV cache of
the tokens. The caller keeps the tensor between calls; the methods share no state.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec, Options
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from etllm.transformers import decoding, inputs
from etllm.transformers.constants import Constants
from etllm.transformers.pretrained import Checkpoint, with_method
from etllm.transformers.tracing import replacements

# Tokens of an answer, where the target doesn't say how many.
_MOST_TOKENS = 448


@dataclass
class _EncoderOutput(BaseModelOutput):
    """An encoder's states.

    Some decoders also look for the mask of the input, which is whole, or for how its tokens were
    routed to experts, which matters in training alone.
    """

    attention_mask: torch.Tensor | None = None
    router_logits: tuple[torch.Tensor, ...] | None = None


class _Encoder(nn.Module):
    """The input to keys and values: (2 x layers, heads, length, width of a head)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        # Of the encoder's own result, once it was run.
        self.width = 0
        self.constants = Constants(model)

    def states(self, **arguments: torch.Tensor) -> torch.Tensor:
        """The encoder's own result: float32 (1, length, width)."""
        states = self.model.get_encoder()(**arguments, return_dict=True).last_hidden_state
        # Convolutions leave rows and columns, which decoders read one after the other.
        return states if states.dim() == 3 else states.flatten(2).transpose(1, 2)

    def run(self, **arguments: torch.Tensor) -> torch.Tensor:
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        with replacements(), self.constants.replayed():
            states = self.states(**arguments)
            self.width = int(states.shape[2])
            # Only what the decoder keeps of the states is used; export drops the rest of this run.
            self.model(
                encoder_outputs=_EncoderOutput(last_hidden_state=states),
                decoder_input_ids=torch.zeros(1, 1, dtype=torch.long),
                past_key_values=cache,
                use_cache=True,
            )
        layers = cache.cross_attention_cache.layers
        if not layers:
            raise BuildError(
                f"{type(self.model).__name__}: the decoder keeps nothing of the encoder's states, "
                "expected cross-attention.",
                "Set add_cross_attention in the decoder's configuration, or take another model.",
            )
        return torch.cat([each for layer in layers for each in (layer.keys, layer.values)])


class _TextEncoder(_Encoder):
    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        encoder, decoder = type(model.get_encoder()), type(model.get_decoder())
        # Stacks that are either make a mask if they get none, but files that ask this only eagerly.
        asks = hasattr(sys.modules[encoder.__module__], "is_torchdynamo_compiling")
        self.needs_mask = encoder is decoder and asks

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 tokens (1, n)."""
        mask = {"attention_mask": torch.ones_like(tokens)} if self.needs_mask else {}
        return self.run(input_ids=tokens, **mask)


class _FeatureEncoder(_Encoder):
    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """float32 features or pixels, as the checkpoint's preprocessing makes them."""
        return self.run(**{self.model.get_encoder().main_input_name: features})


class _PictureAndTextEncoder(_Encoder):
    """Of the kind of Florence 2, whose encoder reads a picture's embeddings and then a prompt."""

    def forward(self, pixels: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """float32 pixels as `_FeatureEncoder`, and int64 tokens (1, n)."""
        with replacements():
            read = self.model.get_input_embeddings()(tokens)
            return self.run(inputs_embeds=torch.cat([self.seen(pixels), read], dim=1))

    def seen(self, pixels: torch.Tensor) -> torch.Tensor:
        """The picture's embeddings: float32 (1, n, width)."""
        owner = with_method(self.model, "get_image_features")
        features = owner.get_image_features(pixels, return_dict=True).pooler_output
        return features.reshape(1, -1, features.shape[-1])


class _Decoder(nn.Module):
    """Logits of the last of some tokens that continue what the cache holds.

    Args:
      model: of transformers.
      memory: what the encoder returned of an example.
      width: of the encoder's states.
      length: how many tokens the cache keeps.
    """

    def __init__(self, model: nn.Module, memory: torch.Tensor, width: int, length: int) -> None:
        super().__init__()
        self.model = model
        self.width = width
        self.buffers_of_cache = decoding.Buffers(model.config.get_text_config(decoder=True), length)
        self.history = decoding.History(length)
        cache = decoding.empty_cache(self.buffers_of_cache.config, length)
        with torch.no_grad():
            self._run(torch.zeros(1, 1, dtype=torch.long), memory, cache)
        self.buffers_of_cache.allocate(cache)

    def forward(
        self, tokens: torch.Tensor, memory: torch.Tensor, input_pos: torch.Tensor
    ) -> torch.Tensor:
        """Reads int64 tokens (1, n) at int64 position input_pos (1,); logits (1, vocabulary).

        Args:
          memory: what the encoder returned.
        """
        if torch.compiler.is_exporting():
            return self.continued(tokens, memory, input_pos)
        whole = self.history.read(tokens, input_pos[0])
        return self._run(whole, memory, DynamicCache())

    def continued(
        self, tokens: torch.Tensor, memory: torch.Tensor, input_pos: torch.Tensor
    ) -> torch.Tensor:
        """Returns what `forward` returns, by the cache."""
        with replacements():
            cache = self.buffers_of_cache.cache(input_pos[0], tokens.shape[1])
            return self._run(tokens, memory, cache)

    def _run(self, tokens: torch.Tensor, memory: torch.Tensor, cache: Any) -> torch.Tensor:
        cross = DynamicCache()
        for i in range(memory.shape[0] // 2):
            cross.update(memory[2 * i : 2 * i + 1], memory[2 * i + 1 : 2 * i + 2], i)
        both = EncoderDecoderCache(cache, cross)
        both.is_updated = dict.fromkeys(range(memory.shape[0] // 2), True)
        # Only the length counts: the layers find the states' keys and values in the cache.
        states = torch.zeros(1, memory.shape[2], self.width)
        result = self.model(
            encoder_outputs=_EncoderOutput(last_hidden_state=states),
            decoder_input_ids=tokens,
            past_key_values=both,
            use_cache=True,
        )
        return result.logits[:, -1]


def build(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """The methods `encoder` and `text_decoder`, with metadata."""
    # Of a model put together of two, transformers does not name it.
    main_input = getattr(model.get_encoder(), "main_input_name", model.main_input_name)
    if main_input == "input_ids":
        given = inputs.text(checkpoint, model, options, ("tokens",))
        return _spec(checkpoint, options, _TextEncoder(model), given, 0)
    if main_input == "pixel_values":
        given = inputs.image(checkpoint, options)
    else:
        given = inputs.audio(checkpoint, model.get_encoder(), options)
    return _spec(checkpoint, options, _FeatureEncoder(model), given, None)


def of_images(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """As `build`; where a prompt is read beside a picture, the encoder takes both."""
    if with_method(model, "get_image_features") is None:
        return build(checkpoint, model, options, outputs)
    encoder = _PictureAndTextEncoder(model)
    image = inputs.image(checkpoint, options)
    with torch.no_grad():
        seen = encoder.seen(image.example["pixels"]).shape[1]
    text = inputs.text(checkpoint, model, options, ("tokens",), seen)
    return _spec(checkpoint, options, encoder, inputs.image_and_text(image, text), seen)


def _spec(
    checkpoint: Checkpoint,
    options: Options,
    encoder: _Encoder,
    given: inputs.Inputs,
    seen: int | None,
) -> ModelSpec:
    """The program of an encoder.

    Args:
      seen: how many positions of the encoder's result are not tokens; None: none are.
    """
    model = encoder.eval().model
    example = tuple(given.example.values())
    more = [tuple(each.values()) for each in given.more]
    with torch.no_grad():
        if given.dynamic is None:
            encoder.constants.record(lambda each: encoder(*each), (example, *more), may_differ=True)
        memory = encoder(*example)
    length = inputs.max_length(checkpoint, model, options, _MOST_TOKENS)
    decoding.fix_positions(model, length, checkpoint.label)
    stack = model.get_decoder()
    # Older decoders have no method that gives it.
    embeddings = getattr(stack, "get_input_embeddings", lambda: stack.embed_tokens)()
    vocabulary = embeddings.num_embeddings
    decoder = _Decoder(model, memory, encoder.width, length).eval()
    calls = decoding.calls_of(model, length, options)
    short = _Decoder(model, memory, encoder.width, min(length, decoding.COMPARED)).eval()
    decoding.check_steps(
        model, short.continued, short, calls, vocabulary, short.buffers_of_cache.length, (memory,)
    )
    sizes: dict[int, Any] = {}
    if given.dynamic and seen is not None:
        most = seen + max(each["tokens"].shape[1] for each in (given.example, *given.more))
        sizes = {2: torch.export.Dim("memory_length", min=seen + 1, max=most)}
    methods = {
        "encoder": Method(encoder, example, given.dynamic, strict=False, test_inputs=more),
        "text_decoder": decoding.method_of(decoder, calls, vocabulary, (memory, sizes)),
    }
    start = getattr(model.generation_config, "decoder_start_token_id", None)
    start = start if start is not None else checkpoint.config.decoder_start_token_id
    constants = given.metadata | decoding.metadata(checkpoint, length, vocabulary, calls)
    if start is not None:
        constants["get_decoder_start_id"] = start
    return ModelSpec(methods, constants)
