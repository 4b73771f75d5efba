"""Text generation: one method that reads tokens at a position of a KV cache of fixed size.

The cache is a buffer of the program. transformers' cache layers count in it what they have read;
here the caller says the position, as ExecuTorch's LLM runners do. So each call builds layers around
the buffers, and a call's position is all that it knows of those before. Layers with a sliding
window keep all tokens: the attention mask alone limits what they see, which gives equal results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec, Options
from torch import nn
from transformers import StaticCache
from transformers.cache_utils import DummyLayer, StaticLayer

from ettransformers import inputs
from ettransformers.pretrained import Checkpoint
from ettransformers.tracing import replacements

# Tokens of a conversation, where the target doesn't say how many: the cache is as large.
_MOST_TOKENS = 2048
# Tokens of one call, likewise: memory for activations is planned for so many.
_PREFILL = 128


class _Layer(StaticLayer):
    """A layer of a cache in buffers of a module, from a position on."""

    def __init__(
        self, keys: torch.Tensor, values: torch.Tensor, position: int | torch.Tensor
    ) -> None:
        super().__init__(keys.shape[2])
        self.keys, self.values = keys, values
        self.cumulative_length = position
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        count = key_states.shape[-2]
        positions = torch.arange(count) + self.cumulative_length
        self.keys.index_copy_(2, positions, key_states)
        self.values.index_copy_(2, positions, value_states)
        self.cumulative_length = self.cumulative_length + count
        return self.keys, self.values


class Buffers(nn.Module):
    """The memory of a KV cache.

    Args:
      config: of the decoder.
      length: how many tokens it keeps.
    """

    def __init__(self, config: Any, length: int) -> None:
        super().__init__()
        self.config = config
        self.length = length
        self.layers = 0

    def allocate(self, filled: StaticCache) -> None:
        """Takes the sizes of a cache that a model has used once.

        Raises:
          BuildError: a layer keeps something else than keys and values.
        """
        self.layers = len(filled.layers)
        for i, layer in enumerate(filled.layers):
            if isinstance(layer, DummyLayer):
                continue
            if type(layer) is not StaticLayer or not layer.is_initialized:
                raise _other_state(self.config, i, layer)
            self.register_buffer(f"keys_{i}", torch.zeros_like(layer.keys), persistent=False)
            self.register_buffer(f"values_{i}", torch.zeros_like(layer.values), persistent=False)

    def cache(self, position: torch.Tensor, count: int) -> StaticCache:
        """A cache over the buffers, of which the tokens before a position are filled.

        Args:
          position: a scalar.
          count: how many tokens the call reads.
        """
        start: int | torch.Tensor = position
        if torch.compiler.is_exporting():
            # With its bounds, as some models slice tables of positions with it. The end has the
            # symbol, so that a comparison of it with a table's size follows from its range.
            end = (position + count).item()
            torch._check(end >= 1)
            torch._check(end <= self.length)
            start = end - count
            torch._check(start >= 0)
        cache = empty_cache(self.config, self.length)
        for i in range(self.layers):
            if hasattr(self, f"keys_{i}"):
                keys, values = getattr(self, f"keys_{i}"), getattr(self, f"values_{i}")
                cache.layers[i] = _Layer(keys, values, start)
        return cache


def empty_cache(config: Any, length: int) -> StaticCache:
    """A cache whose layers with a sliding window keep all tokens, too.

    Raises:
      BuildError: a layer keeps something else than keys and values.
    """
    cache = StaticCache(config=config, max_cache_len=length)
    for i, layer in enumerate(cache.layers):
        if not isinstance(layer, StaticLayer | DummyLayer):
            raise _other_state(config, i, layer)
        if layer.is_sliding and isinstance(layer, StaticLayer):
            cache.layers[i] = StaticLayer(length)
    return cache


def _other_state(config: Any, index: int, layer: Any) -> BuildError:
    return BuildError(
        f"{config.model_type}: layer {index} keeps a state of its own ({type(layer).__name__}), "
        "expected keys and values alone.",
        "Take a model whose layers all have attention.",
    )


class _Decoder(nn.Module):
    """Logits of the last of some tokens that continue what the cache holds."""

    def __init__(self, model: nn.Module, length: int) -> None:
        super().__init__()
        self.model = model
        self.buffers_of_cache = Buffers(model.config.get_text_config(decoder=True), length)
        cache = empty_cache(self.buffers_of_cache.config, length)
        with torch.no_grad():
            model(input_ids=torch.zeros(1, 1, dtype=torch.long), past_key_values=cache)
        self.buffers_of_cache.allocate(cache)

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        """Reads int64 tokens (1, n) at int64 position input_pos (1,); logits (1, vocabulary)."""
        cache = self.buffers_of_cache.cache(input_pos[0], tokens.shape[1])
        with replacements():
            result = self.model(
                input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
        return result.logits[:, -1]


def build(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """The method `forward` and the metadata that ExecuTorch's LLM runners read."""
    length = inputs.max_length(checkpoint, model, options, _MOST_TOKENS)
    vocabulary = model.get_input_embeddings().num_embeddings
    calls = calls_of(model, length, options)
    method = method_of(_Decoder(model, length).eval(), calls, vocabulary)
    return ModelSpec({"forward": method}, metadata(checkpoint, length, vocabulary, calls))


@dataclass(frozen=True)
class Calls:
    """How many tokens a call reads.

    Attributes:
      most: the largest number.
      dynamic: whether it may be any from 1 on; else each call reads one token.
    """

    most: int
    dynamic: bool


def calls_of(model: Any, length: int, options: Options) -> Calls:
    """How many tokens a call reads: `dynamic` and `prefill_length` of the target.

    For a mixture of experts it is one by default: the weights of its experts are copied for each
    token of a call, for which no machine has the memory if the experts are large.
    """
    has_experts = model._can_set_experts_implementation()
    most = min(length, options.integer("prefill_length", _PREFILL, minimum=2))
    return Calls(most, options.boolean("dynamic", not has_experts))


def method_of(
    module: nn.Module,
    calls: Calls,
    vocabulary: int,
    memory: tuple[torch.Tensor, Any] | None = None,
) -> Method:
    """A method that reads tokens at a position.

    Args:
      module: takes tokens and a position; with memory between the two.
      calls: how many tokens it reads.
      vocabulary: number of different tokens.
      memory: what an encoder returned, and its dynamic sizes.
    """
    start = torch.tensor([0])
    between = () if memory is None else (memory[0],)

    def of(count: int) -> tuple[torch.Tensor, ...]:
        return ((torch.arange(count) % vocabulary).view(1, -1), *between, start)

    tokens = {1: torch.export.Dim("count", min=1, max=calls.most)} if calls.dynamic else {}
    shapes = (tokens, {}) if memory is None else (tokens, memory[1], {})
    if not calls.dynamic:
        return Method(module, of(1), shapes, strict=False)
    # Half of the range: export would take an example of one token for a constant.
    example = of(max(2, calls.most // 2))
    return Method(module, example, shapes, strict=False, test_inputs=[of(1), of(calls.most)])


def metadata(checkpoint: Checkpoint, length: int, vocabulary: int, calls: Calls) -> dict[str, Any]:
    """Constant methods by the names that ExecuTorch's LLM runners read."""
    values: dict[str, Any] = {
        "get_max_seq_len": calls.most,
        "get_max_context_len": length,
        "get_vocab_size": vocabulary,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": calls.dynamic,
    }
    generation = checkpoint.optional_json("generation_config.json")
    for source in (vars(checkpoint.config.get_text_config(decoder=True)), generation):
        if source.get("bos_token_id") is not None:
            values["get_bos_id"] = source["bos_token_id"]
        ends = source.get("eos_token_id")
        if ends is not None:
            values["get_eos_ids"] = sorted(ends) if isinstance(ends, list) else [ends]
    return values
