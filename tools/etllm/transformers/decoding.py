"""Text generation: one method that reads tokens at a position of a KV cache of fixed size.

The cache is a buffer of the program. transformers' cache layers count in it what they have read;
here the caller says the position, as ExecuTorch's LLM runners do. So each call builds layers around
the buffers, and a call's position is all that it knows of those before. Layers with a sliding
window keep all tokens: the attention mask alone limits what they see, which gives equal results.

Layers without attention (Mamba's, gated delta rules, short convolutions) keep a state of a fixed
size instead. A call at position 0 begins it anew. Such a program reads one token a call: with more,
transformers' code computes in chunks whose number depends on the sizes, which cannot be exported.

Only a traced module continues a cache. The eager one, with which programs are compared, reads all
tokens so far again, by transformers' own forward: a wrong cache, mask or window fails a program's
test. `check_steps` compares the two while a model is made, at positions that no test begins at.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec, Options
from torch import nn
from transformers import StaticCache
from transformers.cache_utils import (
    DummyLayer,
    LinearAttentionAndStaticFullAttentionLayer,
    LinearAttentionAndStaticSlidingWindowAttentionLayer,
    LinearAttentionLayer,
    StaticIndexedLayer,
    StaticLayer,
)

from etllm.transformers import inputs
from etllm.transformers.pretrained import Checkpoint, first_line, parts_with_experts
from etllm.transformers.tracing import replacements

# Tokens of a conversation, where the target doesn't say how many: the cache is as large.
_MOST_TOKENS = 2048
# Tokens of one call, likewise: memory for activations is planned for so many.
_PREFILL = 128
# Tokens of the conversation that `check_steps` compares, and how far logits may be from those of
# transformers, as a share of their spread.
COMPARED, _SHARE = 48, 1e-3
# Padding is often token 0, and its state of zeros shows nothing: norms make noise of it.
_FIRST = 3
_OTHER_MODEL = (
    "Take a model of another architecture, or declare this one with et_model and its own code."
)
# What models' code raises that keeps its states elsewhere.
_OF_OTHER_CACHES = (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


class _Layer(StaticLayer):
    """A layer of a cache in buffers of a module, from a position on."""

    def __init__(
        self, tensors: Mapping[str, torch.Tensor], position: int | torch.Tensor, **_: Any
    ) -> None:
        StaticLayer.__init__(self, tensors["keys"].shape[2])
        self.keys, self.values = tensors["keys"], tensors["values"]
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


class _IndexedLayer(_Layer, StaticIndexedLayer):
    """A layer that chooses what it looks at by keys of another kind."""

    def __init__(
        self, tensors: Mapping[str, torch.Tensor], position: int | torch.Tensor, **_: Any
    ) -> None:
        StaticIndexedLayer.__init__(self, tensors["keys"].shape[2])
        _Layer.__init__(self, tensors, position)
        self.indexer_keys, self.begin = tensors["indexer_keys"], position
        self.is_indexer_initialized = True

    def update_indexer(self, indexer_key_states: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(indexer_key_states.shape[1]) + self.begin
        self.indexer_keys.index_copy_(1, positions, indexer_key_states)
        return self.indexer_keys


class _StateLayer(LinearAttentionLayer):
    """A layer that keeps a state of a fixed size."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], *_: Any, states: int) -> None:
        LinearAttentionLayer.__init__(self, states)
        for i in range(states):
            self.has_previous_state[i] = True
            if f"convolved_{i}" in tensors:
                self.conv_states[i] = tensors[f"convolved_{i}"]
                self.conv_kernel_size[i] = self.conv_states[i].shape[-1]
                self.is_conv_states_initialized[i] = True
            if f"recurrent_{i}" in tensors:
                self.recurrent_states[i] = tensors[f"recurrent_{i}"]
                self.is_recurrent_states_initialized[i] = True


class _HybridLayer(_StateLayer, _Layer):
    """A layer that keeps both."""

    def __init__(
        self, tensors: Mapping[str, torch.Tensor], position: int | torch.Tensor, *, states: int
    ) -> None:
        _StateLayer.__init__(self, tensors, states=states)
        _Layer.__init__(self, tensors, position)


# Layers of a StaticCache whose memory is known.
_KNOWN = (
    StaticLayer,
    StaticIndexedLayer,
    LinearAttentionLayer,
    LinearAttentionAndStaticFullAttentionLayer,
)
# States, which a conversation begins anew; what belongs to a position is not read before it is.
_STATES = ("convolved", "recurrent")


class Buffers(nn.Module):
    """The memory of a cache.

    Args:
      config: of the decoder.
      length: how many tokens it keeps.
      states: whether layers may keep states, which each token changes.

    Attributes:
      has_states: whether some do.
    """

    def __init__(self, config: Any, length: int, states: bool = False) -> None:
        super().__init__()
        self.config = config
        self.length = length
        self.states = states
        # What each layer keeps, and how many states of it; None: nothing.
        self.layers: list[tuple[tuple[str, ...], int] | None] = []

    @property
    def has_states(self) -> bool:
        return _has_states(name for name, _ in self.named_buffers())

    def allocate(self, filled: StaticCache) -> None:
        """Takes the sizes of a cache that a model has used once.

        Raises:
          BuildError: a layer keeps something else than what is supported.
        """
        for i, layer in enumerate(filled.layers):
            if isinstance(layer, DummyLayer):
                self.layers.append(None)
                continue
            tensors = _tensors(layer)
            if not tensors or type(layer) not in _KNOWN:
                raise _other_state(self.config, i, layer)
            if _has_states(tensors) and not self.states:
                raise _other_state(self.config, i, layer)
            for name, tensor in tensors.items():
                self.register_buffer(f"{name}_{i}", torch.zeros_like(tensor), persistent=False)
            states = getattr(layer, "number_of_states", 0)
            self.layers.append((tuple(tensors), states))

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
        for i, layer in enumerate(self.layers):
            if layer is None:
                continue
            names, states = layer
            tensors = {name: getattr(self, f"{name}_{i}") for name in names}
            for name, tensor in tensors.items():
                if name.startswith(_STATES):
                    tensor.copy_(torch.where(position > 0, tensor, torch.zeros_like(tensor)))
            cache.layers[i] = _layer_over(tensors)(tensors, start, states=states)
        return cache


def _tensors(layer: Any) -> dict[str, torch.Tensor]:
    """Returns what a layer that was used once keeps, by names of buffers."""
    found: dict[str, torch.Tensor | None] = {}
    if isinstance(layer, StaticLayer) and layer.is_initialized:
        found |= {"keys": layer.keys, "values": layer.values}
    if isinstance(layer, StaticIndexedLayer):
        found["indexer_keys"] = layer.indexer_keys
    if isinstance(layer, LinearAttentionLayer):
        found |= {f"convolved_{i}": state for i, state in layer.conv_states.items()}
        found |= {f"recurrent_{i}": state for i, state in layer.recurrent_states.items()}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _has_states(names: Iterable[str]) -> bool:
    return any(name.startswith(_STATES) for name in names)


def _layer_over(tensors: Mapping[str, torch.Tensor]) -> type:
    """Returns the class that replaces a layer that keeps these."""
    if _has_states(tensors):
        return _HybridLayer if "keys" in tensors else _StateLayer
    return _IndexedLayer if "indexer_keys" in tensors else _Layer


def empty_cache(config: Any, length: int) -> StaticCache:
    """A cache whose layers with a sliding window keep all tokens, too."""
    cache = StaticCache(config=config, max_cache_len=length)
    for i, layer in enumerate(cache.layers):
        if isinstance(layer, LinearAttentionAndStaticSlidingWindowAttentionLayer):
            states = layer.number_of_states
            cache.layers[i] = LinearAttentionAndStaticFullAttentionLayer(length, states)
        elif isinstance(layer, StaticLayer) and layer.is_sliding:
            cache.layers[i] = StaticLayer(length)
    return cache


def _other_state(config: Any, index: int, layer: Any) -> BuildError:
    kept = f"keeps a state of its own ({type(layer).__name__})"
    return BuildError(
        f"{config.model_type}: layer {index} {kept if _tensors(layer) else 'keeps nothing'}, "
        "expected keys and values in transformers' cache.",
        _OTHER_MODEL,
    )


class History:
    """The tokens that calls of an eager module have read.

    Args:
      length: how many tokens a conversation may have.
    """

    def __init__(self, length: int) -> None:
        self._tokens = torch.zeros(1, length, dtype=torch.long)

    def read(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """All tokens up to the last of these: int64 (1, n).

        Args:
          tokens: of a call.
          position: of its first token.
        """
        start, end = int(position), int(position) + tokens.shape[1]
        self._tokens[:, start:end] = tokens
        return self._tokens[:, :end].clone()


@contextlib.contextmanager
def _rows_of_masks(model: nn.Module, positions: torch.Tensor) -> Iterator[None]:
    """Takes rows of layers' tables of masks by position, where code counts them from the end.

    GPT-Neo's layers have one each. Their code takes its last keys for those that were read last,
    which in a cache of fixed size they are not.

    Args:
      positions: of the tokens of a call.
    """
    shadowed = []
    for module in model.modules():
        table = module._buffers.get("bias")
        if table is not None and table.dtype == torch.bool and table.dim() == 4:
            vars(module)["bias"] = _Rows(table, positions)
            shadowed.append(module)
    try:
        yield
    finally:
        for module in shadowed:
            del vars(module)["bias"]


@dataclass(frozen=True)
class _Rows:
    """A table of masks (1, 1, queries, keys), whose slices have the rows of some positions."""

    table: torch.Tensor
    positions: torch.Tensor

    def __getitem__(self, index: tuple[slice, ...]) -> torch.Tensor:
        return self.table.index_select(2, self.positions)[..., index[-1]]


@contextlib.contextmanager
def _of_fixed_size(model: nn.Module) -> Iterator[None]:
    """While it lasts, a model's code runs with a cache of a fixed size.

    Raises:
      BuildError: the code takes no such cache.
    """
    try:
        yield
    except _OF_OTHER_CACHES as error:
        raise BuildError(
            f"{model.config.model_type}: the code of transformers' {type(model).__name__} does not "
            f"run with a KV cache of a fixed size: {type(error).__name__}: {first_line(error)}",
            _OTHER_MODEL,
        ) from error


class Decoder(nn.Module):
    """Logits of the last of some tokens that continue what the cache holds.

    Args:
      model: of transformers.
      length: how many tokens the cache keeps.
      full: whether there are logits of all tokens of a call: (1, n, vocabulary).
    """

    def __init__(self, model: nn.Module, length: int, full: bool = False) -> None:
        super().__init__()
        self.full = full
        self.model = model
        self.history = History(length)
        config = model.config.get_text_config(decoder=True)
        self.buffers_of_cache = Buffers(config, length, states=True)
        # Models without any attention have another name for it.
        parameters = inspect.signature(model.forward).parameters
        self.cache_argument = (
            "past_key_values" if "past_key_values" in parameters else "cache_params"
        )
        self.buffers_of_cache.allocate(self._cache_after_a_token(config, length))

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        """Reads int64 tokens (1, n) at int64 position input_pos (1,); logits (1, vocabulary)."""
        if torch.compiler.is_exporting():
            return self.continued(tokens, input_pos)
        whole = self.history.read(tokens, input_pos[0])
        logits = self.model(input_ids=whole, use_cache=False).logits
        return logits[:, -tokens.shape[1] :] if self.full else logits[:, -1]

    def _cache_after_a_token(self, config: Any, length: int) -> StaticCache:
        """The cache that the model's own code fills."""
        with _of_fixed_size(self.model), torch.no_grad():
            cache = empty_cache(config, length)
            tokens = torch.zeros(1, 1, dtype=torch.long)
            self.model(input_ids=tokens, use_cache=True, **{self.cache_argument: cache})
        return cache

    def continued(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        """Returns what `forward` returns, by the cache."""
        cache = self.buffers_of_cache.cache(input_pos[0], tokens.shape[1])
        positions = torch.arange(tokens.shape[1]) + input_pos[0]
        with replacements(), _rows_of_masks(self.model, positions):
            result = self.model(
                input_ids=tokens,
                use_cache=True,
                logits_to_keep=0 if self.full else 1,
                **{self.cache_argument: cache},
            )
        return result.logits if self.full else result.logits[:, -1]


def build(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """The method `forward` and the metadata that ExecuTorch's LLM runners read."""
    length = inputs.max_length(checkpoint, model, options, _MOST_TOKENS)
    fix_positions(model, length, checkpoint.label)
    vocabulary = model.get_input_embeddings().num_embeddings
    decoder = Decoder(model, length).eval()
    calls = calls_of(model, length, options, decoder.buffers_of_cache.has_states)
    check_short(model, length, calls, vocabulary)
    method = method_of(decoder, calls, vocabulary)
    constants = metadata(checkpoint, length, vocabulary, calls)
    if decoder.buffers_of_cache.has_states:
        constants["use_recurrent_state"] = True
    return ModelSpec({"forward": method}, constants)


@dataclass(frozen=True)
class Calls:
    """The number of tokens that a call reads.

    Attributes:
      most: the largest number.
      dynamic: whether it may be any from 1 on; else each call reads one token.
    """

    most: int
    dynamic: bool


def calls_of(model: Any, length: int, options: Options, has_states: bool = False) -> Calls:
    """Returns how many tokens a call reads: `dynamic` and `prefill_length` of the target.

    For a mixture of experts it is one by default: the weights of its experts are copied for each
    token of a call, for which no machine has the memory if the experts are large. For layers with
    states it is always one.

    Raises:
      BuildError: the target wants more, and layers keep states.
    """
    has_experts = bool(parts_with_experts(model))
    most = min(length, options.integer("prefill_length", _PREFILL, minimum=2))
    dynamic = options.boolean("dynamic", not has_experts and not has_states)
    if dynamic and has_states:
        raise options.error(
            "dynamic",
            f"false: layers of {model.config.model_type} keep a state that each token changes",
            "Leave it out: the program reads one token a call.",
        )
    return Calls(most, dynamic)


def fix_positions(model: Any, length: int, label: str) -> None:
    """Lets positions be computed in the way of short conversations, and refuses longer ones.

    Some rotary embeddings have other frequencies once a conversation is long. transformers then
    computes all keys anew; those in a program's cache are of the shorter one.

    Args:
      model: of transformers.
      length: how many tokens the cache keeps.
      label: the target, for messages.

    Raises:
      BuildError: the cache is longer than the positions that are always computed alike.
    """
    config = model.config.get_text_config(decoder=True)
    if getattr(config, "alibi", False) and config.model_type == "falcon":
        raise BuildError(
            f"{label}: config.json: alibi: got true, expected false: transformers' two "
            "implementations of Falcon's attention give different logits with it.",
            "Take a checkpoint with rotary embeddings, or declare the model with et_model and its "
            "own code.",
        )
    every = getattr(config, "rope_parameters", None) or {}
    for rope in [every, *(each for each in every.values() if isinstance(each, dict))]:
        kind = rope.get("rope_type")
        most = {
            "dynamic": getattr(config, "max_position_embeddings", None),
            "longrope": rope.get("original_max_position_embeddings")
            or getattr(config, "original_max_position_embeddings", None),
        }.get(kind)
        if most and length > most:
            raise BuildError(
                f"{label}: max_length: got {length}, expected at most {most}: from there on "
                f'"{kind}" computes the positions of all tokens anew, also of those in the cache.',
                f"Set max_length (of et_llm: export.max_context_length) to {most}.",
            )
    for module in model.modules():
        kinds = getattr(module, "rope_type", None)
        if isinstance(kinds, dict):
            module.rope_type = dict.fromkeys(kinds, "default")
        elif isinstance(kinds, str):
            # Their frequencies are there; the name alone says whether a call asks how long it is.
            module.rope_type = "default"


def check_short(model: Any, length: int, calls: Calls, vocabulary: int) -> None:
    """`check_steps` of a decoder with a small cache; the arguments are those."""
    short = Decoder(model, min(length, COMPARED)).eval()
    check_steps(model, short.continued, short, calls, vocabulary, short.buffers_of_cache.length)


def check_steps(
    model: Any,
    step: Callable[..., torch.Tensor],
    whole: Callable[..., torch.Tensor],
    calls: Calls,
    vocabulary: int,
    length: int,
    memory: tuple[torch.Tensor, ...] = (),
) -> None:
    """Compares what a cache gives with transformers' own forward, up to the cache's end.

    Args:
      model: of transformers.
      step: reads tokens and a position, by the cache.
      whole: the same, by all tokens so far.
      calls: how many tokens a call reads.
      vocabulary: number of different tokens.
      length: how many tokens the cache keeps.
      memory: what an encoder returned, an argument between the two.

    Raises:
      BuildError: the cache gives other logits.
    """
    tokens = torch.randint(
        0, vocabulary, (1, length), generator=torch.Generator().manual_seed(length)
    )
    prompt = min(20, length - 1) if calls.dynamic else 1
    # A prompt, single tokens behind it, a second turn, and single tokens up to the end.
    ends = [prompt, prompt + 1, prompt + 2, (prompt + length) // 2, *range(length - 3, length + 1)]
    if not calls.dynamic:
        ends = list(range(1, length + 1))
    starts = [0, *ends]
    worst = 0.0
    with torch.no_grad():
        for start, end in zip(starts, ends, strict=False):
            if end <= start:
                continue
            call = (tokens[:, start:end], *memory, torch.tensor([start]))
            expected = whole(*call)
            with _of_fixed_size(model):
                got = step(*call)
            spread = expected.std().clamp(min=torch.finfo(torch.float32).tiny)
            worst = max(worst, float((got - expected).abs().max() / spread))
    if not worst <= _SHARE:
        raise BuildError(
            f"{model.config.model_type}: a KV cache gives logits that differ from those of "
            f"transformers' {type(model).__name__} by {worst:.2g} of their spread, expected at "
            f"most {_SHARE:g}.",
            _OTHER_MODEL,
        )


def example_tokens(count: int, vocabulary: int) -> torch.Tensor:
    """Tokens that a method is exported and tested with: int64 (1, count)."""
    return (_FIRST + torch.arange(count)).view(1, -1) % vocabulary


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
        return (example_tokens(count, vocabulary), *between, start)

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
    return values | ends_of(checkpoint)


def ends_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Numbers of the tokens that begin a text and end an answer, by names of constant methods."""
    values: dict[str, Any] = {}
    generation = checkpoint.optional_json("generation_config.json")
    for source in (vars(checkpoint.config.get_text_config(decoder=True)), generation):
        if source.get("bos_token_id") is not None:
            values["get_bos_id"] = source["bos_token_id"]
        ends = source.get("eos_token_id")
        if ends is not None:
            values["get_eos_ids"] = sorted(ends) if isinstance(ends, list) else [ends]
    return values
