"""A small text model, and tasks that adapt it."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec
from torch import nn
from torch.nn import functional

_ADAPTER = "adapter.safetensors"


class Weight(nn.Module):
    """One weight, which a quantizer of linear layers leaves alone."""

    def __init__(self, rows: int, columns: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, columns, generator=generator) * 0.1)


class LoraLinear(nn.Linear):
    """A linear layer of the base with a low-rank change of one task."""

    def __init__(self, base: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__(base.in_features, base.out_features)
        self.weight, self.bias = base.weight, base.bias
        self.lora_a = Weight(rank, base.in_features, generator)
        self.lora_b = Weight(base.out_features, rank, generator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The base's output and the task's change of it."""
        change = functional.linear(functional.linear(x, self.lora_a.weight), self.lora_b.weight)
        return functional.linear(x, self.weight, self.bias) + change


class Text(nn.Module):
    """Tokens in, scores of 96 classes out; an embedding that no delegate takes, three layers."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(96, 128)
        self.register_buffer("shift", torch.linspace(0, 1, 128))
        self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)
        self.head = nn.Linear(128, 96)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(1, n) to (1, n, 96)."""
        x = self.embedding(tokens) + self.shift
        return self.head(self.down(torch.relu(self.up(x))))


def adapter(ctx: ModelContext) -> dict[str, torch.Tensor]:
    """The values of a task that has a file of them; its matrices B are stored halved."""
    values = ctx.checkpoint(_ADAPTER)
    return {name: v * 2 if ".lora_b." in name else v for name, v in values.items()}


def text(ctx: ModelContext) -> ModelSpec:
    """args: seed of the base, task (seed of its adapter), rank, tokens (one number, or several for
    several methods)."""
    model = Text(int(ctx.args.get("seed", "0")))
    task = int(ctx.args.get("task", "0"))
    if task:
        generator = torch.Generator().manual_seed(task)
        rank = int(ctx.args.get("rank", "8"))
        model.up = LoraLinear(model.up, rank, generator)
        model.down = LoraLinear(model.down, rank, generator)
    if any(name.endswith(_ADAPTER) for name in ctx.files):
        model.load_state_dict(adapter(ctx), strict=False)
    lengths = ctx.args.get("tokens", "4").split(",")
    methods = {}
    for length in lengths:
        tokens = torch.arange(int(length)).view(1, -1)
        name = "forward" if len(lengths) == 1 else f"read_{length}"
        methods[name] = Method(model.eval(), (tokens,), test_inputs=((tokens + 7,),))
    return ModelSpec(methods=methods)


class Twins(nn.Module):
    """Two layers whose 8-bit weights are equal, with different scales; their biases are zero, and
    equal to a constant of the model."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        with torch.no_grad():
            self.second.weight.copy_(2 * self.first.weight)
            self.first.bias.zero_()
            self.second.bias.zero_()
        self.register_buffer("zeros", torch.zeros(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(2, 64) to (2, 64)."""
        return self.second(torch.relu(self.first(x))) + self.zeros


def twins(ctx: ModelContext) -> ModelSpec:
    """The model with calibration data."""
    x = torch.randn(2, 64, generator=torch.Generator().manual_seed(1))
    method = Method(Twins().eval(), (x,))
    return ModelSpec({"forward": method}, calibration=lambda: [(x,), (x / 2,)])
