"""Methods of a language model's program, by names that say how many tokens a call reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from etbuild import BuildError, Method
from torch import nn

_KINDS = "forward, prefill, prefill_N (N tokens) or decode"


@dataclass(frozen=True)
class Shape:
    """How many tokens a method reads in one call.

    Attributes:
      most: the number, or the largest one.
      dynamic: whether it may be any from 1 to `most`.
    """

    most: int
    dynamic: bool = False


def parse(text: str, prefill: int, context: int, label: str) -> dict[str, Shape]:
    """The methods that a target asks for.

    Args:
      text: names with commas between them: "forward" and "prefill" read 1 to `prefill` tokens,
        "prefill_32" reads exactly 32, "decode" exactly one.
      prefill: most tokens of a call with a dynamic shape.
      context: tokens that the KV cache holds.
      label: the target, for messages.

    Returns:
      Shapes by name, in the order given.

    Raises:
      BuildError: an unknown name, one that is there twice, or more tokens than the cache holds.

    Example:

        parse("prefill_32,decode", 128, 512, "//m:llama")    # 32 and 1 tokens, both static
    """
    shapes: dict[str, Shape] = {}
    for name in (part.strip() for part in text.split(",")):
        static = re.fullmatch(r"prefill_([1-9][0-9]*)", name)
        if name not in ("forward", "prefill", "decode") and not static:
            raise BuildError(
                f'{label}: argument "methods": got "{name}" in "{text}", wanted {_KINDS}.',
                'Write them with commas between them, e.g. "prefill_32,prefill_128,decode".',
            )
        if name in shapes:
            raise BuildError(f'{label}: argument "methods": "{name}" is there twice in "{text}".')
        if static and int(static[1]) > context:
            raise BuildError(
                f'{label}: argument "methods": "{name}" reads {static[1]} tokens, wanted at most '
                f"{context} (max_seq_len).",
                "Take a smaller number, or raise max_seq_len.",
            )
        if static:
            shapes[name] = Shape(int(static[1]))
        else:
            shapes[name] = Shape(1) if name == "decode" else Shape(prefill, dynamic=True)
    return shapes


def make(shapes: Mapping[str, Shape], module: nn.Module, vocabulary: int) -> dict[str, Method]:
    """Methods over one module, which share its weights and its KV cache.

    Args:
      shapes: from `parse`.
      module: takes int64 tokens (1, n) and an int64 position (1,).
      vocabulary: number of different tokens.

    Returns:
      Methods by name. Their inputs are all at position 0, so what the cache holds doesn't matter:
      they give the same in any order.
    """
    start = torch.tensor([0], dtype=torch.long)
    one = (torch.tensor([[1 % vocabulary]]), start)
    methods = {}
    for name, shape in shapes.items():
        tokens = (torch.arange(shape.most) % vocabulary).view(1, -1)
        if not shape.dynamic:
            inputs = one if shape.most == 1 else (tokens, start)
            methods[name] = Method(module, inputs, strict=False)
            continue
        # Half of the range: export would take an example of one token for a constant.
        example = (tokens[:, : max(2, shape.most // 2)].clone(), start)
        sizes = {"tokens": {1: torch.export.Dim("count", min=1, max=shape.most)}, "input_pos": {}}
        more = ((tokens, start),) if name == "prefill" else (one, (tokens, start))
        # Not strict: tracing 30 layers with Dynamo takes 4 times as long and gives the same graph.
        methods[name] = Method(module, example, sizes, strict=False, test_inputs=more)
    return methods
