"""Methods of a language model's program, by names that say how many tokens a call reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from etbuild import Method, language_methods
from torch import nn


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


def make(
    shapes: Mapping[str, Shape], modules: Mapping[str, nn.Module], vocabulary: int
) -> dict[str, Method]:
    """Methods that share weights and a KV cache.

    Args:
      shapes: how many tokens each method reads, by its name.
      modules: by the method's name; takes int64 tokens (1, n) and an int64 position (1,).
      vocabulary: number of different tokens.

    Returns:
      Methods by name. Their inputs are all at position 0, so what the cache holds doesn't matter:
      they give the same in any order.
    """
    start = torch.tensor([0], dtype=torch.long)
    single = (torch.tensor([[1 % vocabulary]]), start)
    methods = {}
    for name, shape in shapes.items():
        module = modules[name]
        tokens = (torch.arange(shape.most) % vocabulary).view(1, -1)
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


def _reads_prompts_only(name: str) -> bool:
    parsed = language_methods.parse(name)
    return parsed is not None and parsed.kind == "prefill"
