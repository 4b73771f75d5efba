"""Methods of a language model's program, by names that say how many tokens a call reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import Method, language_methods
from torch import nn

from etllm.settings import Settings


@dataclass(frozen=True)
class Shape:
    """The number of tokens that a method reads in one call.

    Attributes:
      most: the number, or the largest one.
      dynamic: whether it may be any from 1 to `most`.
      of: what comes before the kind of method in its name ("poet" of "poet_forward"); "": nothing.
    """

    most: int
    dynamic: bool = False
    of: str = ""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model that its metadata tell.

    Attributes:
      most: tokens of one call.
      context: tokens that the KV cache holds.
      vocabulary: number of different tokens.
      layers: number of layers.
    """

    most: int
    context: int
    vocabulary: int
    layers: int


def make(
    shapes: Mapping[str, Shape],
    modules: Mapping[str, nn.Module],
    vocabulary: int,
    first: int = 0,
) -> dict[str, Method]:
    """Methods that share weights and a KV cache.

    Args:
      shapes: how many tokens each method reads, by its name.
      modules: by the method's name; takes int64 tokens (1, n) and an int64 position (1,).
      vocabulary: number of different tokens.
      first: the first token of prompts.

    Returns:
      Methods by name. Their inputs are all at position 0, so what the cache holds doesn't matter:
      they give the same in any order.
    """
    start = torch.tensor([0], dtype=torch.long)
    single = (torch.tensor([[(first + 1) % vocabulary]]), start)
    methods = {}
    for name, shape in shapes.items():
        module = modules[name]
        tokens = ((first + torch.arange(shape.most)) % vocabulary).view(1, -1)
        if not shape.dynamic:
            inputs = single if shape.most == 1 else (tokens, start)
            methods[name] = Method(module, inputs, strict=False)
            continue
        # Half of the range: export would take an example of one token for a constant.
        example = (tokens[:, : max(2, shape.most // 2)].clone(), start)
        sizes = {"tokens": {1: torch.export.Dim("count", min=1, max=shape.most)}, "input_pos": {}}
        more = ((tokens, start),) if _reads_prompts_only(name) else (single, (tokens, start))
        # Not strict: tracing 30 layers with Dynamo takes 4 times as long and gives the same graph.
        methods[name] = Method(module, example, sizes, strict=False, test_inputs=more)
    return methods


def metadata(
    settings: Settings, given: Mapping[str, Any], sizes: Sizes, shapes: Mapping[str, Shape]
) -> dict[str, Any]:
    """Constant methods by the names that ExecuTorch's LLM runners read.

    Args:
      settings: the YAML file, whose `base.metadata` come before others.
      given: those of the checkpoint.
      sizes: of the model.
      shapes: how many tokens each method reads, by its name.

    Raises:
      BuildError: nothing says which tokens end an answer.
    """
    values = {**given, **settings.metadata()}
    settings.check_end(values)
    own = {
        "get_max_seq_len": sizes.most,
        "get_max_context_len": sizes.context,
        "get_vocab_size": sizes.vocabulary,
        "get_n_layers": sizes.layers,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": any(shape.dynamic for shape in shapes.values()),
    }
    return {**values, **{name: value for name, value in own.items() if name not in values}}


def _reads_prompts_only(name: str) -> bool:
    parsed = language_methods.parse(name)
    return parsed is not None and parsed.kind == "prefill"
