"""A language model whose answers are known: each token is the number of tokens before it."""

from __future__ import annotations

from pathlib import Path

import torch
from executorch.exir import to_edge
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn

CONTEXT, MOST, VOCABULARY = 16, 4, 256
METADATA = {"get_max_context_len": CONTEXT, "get_max_seq_len": MOST, "get_eos_ids": [2, 3]}


class Counting(nn.Module):
    """Predicts the number of tokens that it has seen; the number is its state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, dtype=torch.long))

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        self.seen.copy_(input_pos + tokens.shape[1])
        return (torch.arange(VOCABULARY) == self.seen).to(torch.float32).view(1, -1)


class Stateful(Counting):
    """Counts in its state alone, once that has begun; position 0 begins it anew."""

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        begins = torch.logical_or(input_pos == 0, self.seen == 0)
        return super().forward(tokens, torch.where(begins, input_pos, self.seen))


def write(path: Path, module: nn.Module, sizes: dict[str, int | None], **metadata: object) -> Path:
    """Writes a program; sizes: how many tokens each method reads, None: 1 to MOST."""
    exported = {}
    for name, size in sizes.items():
        example = 2 if size is None else size
        inputs = (torch.zeros((1, example), dtype=torch.long), torch.zeros(1).long())
        count = {} if size is not None else {1: torch.export.Dim("count", min=1, max=MOST)}
        shapes = {"tokens": count, "input_pos": None}
        exported[name] = torch.export.export(module, inputs, dynamic_shapes=shapes)
    edge = to_edge(exported, constant_methods=METADATA | metadata)
    path.write_bytes(edge.to_executorch().buffer)
    return path


def write_tokenizer(path: Path) -> Path:
    """Writes a tokenizer.json in which each byte is a token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    by_bytes = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    by_bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    by_bytes.decoder = decoders.ByteLevel()
    by_bytes.save(str(path))
    return path
