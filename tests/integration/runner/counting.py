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


class Seeing(nn.Module):
    """Predicts the sum of all numbers that it has read, each times its place, from 1 on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("read", torch.zeros(CONTEXT))

    def forward(self, embeddings: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(embeddings.shape[1]) + input_pos
        self.read.index_copy_(0, positions, embeddings[0, :, 0])
        places = torch.arange(1, CONTEXT + 1)
        are_read = places <= input_pos + embeddings.shape[1]
        total = (self.read * places * are_read).sum().to(torch.long) % VOCABULARY
        return (torch.arange(VOCABULARY) == total).to(torch.float32).view(1, -1)


class Embedding(nn.Module):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.stack([tokens, tokens], dim=-1).to(torch.float32)


class Eye(nn.Module):
    """Three numbers of an image: the first pixel's red, green and blue."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        first = pixels[:, :, 0, 0].to(torch.float32)
        return torch.stack([first, first], dim=-1)


def write_seeing(path: Path, **metadata: object) -> Path:
    """Writes a program of `Seeing`, whose images have 4 x 4 pixels and the token 256."""
    count = torch.export.Dim("count", min=1, max=MOST)
    parts = {
        "vision_encoder": (Eye(), (torch.zeros((1, 3, 4, 4), dtype=torch.uint8),), None),
        "token_embedding": (Embedding(), (torch.zeros((1, 2)).long(),), ({1: count},)),
        "text_decoder": (Seeing(), (torch.zeros(1, 2, 2), torch.zeros(1).long()), ({1: count}, {})),
    }
    exported = {
        name: torch.export.export(module, inputs, dynamic_shapes=shapes)
        for name, (module, inputs, shapes) in parts.items()
    }
    edge = to_edge(exported, constant_methods=METADATA | {"get_media_token_id": 256} | metadata)
    path.write_bytes(edge.to_executorch().buffer)
    return path


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


def write_tokenizer(path: Path, special: str = "") -> Path:
    """Writes a tokenizer.json in which each byte is a token, and 256 a special one if there is."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    by_bytes = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    by_bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    by_bytes.decoder = decoders.ByteLevel()
    by_bytes.add_special_tokens([special] if special else [])
    by_bytes.save(str(path))
    return path
