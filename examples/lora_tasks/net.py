"""A small text model, and tasks that adapt two of its layers."""

import torch
from torch import nn
from torch.nn import functional

RANK = 2


class Matrix(nn.Module):
    """One low-rank matrix, which a quantizer of linear layers leaves in floating point."""

    def __init__(self, rows, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, columns))


class LoraLinear(nn.Linear):
    """A linear layer of the base with a task's low-rank change."""

    def __init__(self, base):
        super().__init__(base.in_features, base.out_features)
        self.weight, self.bias = base.weight, base.bias
        self.lora_a = Matrix(RANK, base.in_features)
        self.lora_b = Matrix(base.out_features, RANK)

    def forward(self, x):
        change = functional.linear(functional.linear(x, self.lora_a.weight), self.lora_b.weight)
        return functional.linear(x, self.weight, self.bias) + change


class Text(nn.Module):
    """Tokens (1, n) to scores (1, n, 96)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(96, 128)
        self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)
        self.head = nn.Linear(128, 96)

    def forward(self, tokens):
        return self.head(self.down(torch.relu(self.up(self.embedding(tokens)))))


def base(ctx):
    return Text().eval(), (torch.arange(8).view(1, -1),)


def adapter(ctx):
    """The model's tensors that the task's file replaces."""
    return ctx.checkpoint(ctx.arg("task") + ".safetensors")


def task(ctx):
    model = Text()
    model.up, model.down = LoraLinear(model.up), LoraLinear(model.down)
    model.load_state_dict(adapter(ctx), strict=False)
    return model.eval(), (torch.arange(8).view(1, -1),)
