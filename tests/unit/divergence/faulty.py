"""Nets, and faults to plant in one module of each while it is exported or lowered."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from etlower import operators
from executorch.export import ExportRecipe
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

nn = torch.nn


class Block(nn.Module):
    """A residual block of a detector's backbone."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.clamp = nn.ReLU6()
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.pointwise(self.clamp(self.depthwise(x)))


class Detector(nn.Module):
    """Convolutions at two scales, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.clamp = nn.ReLU6()
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.down = nn.AvgPool2d(2)
        self.deep = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.Upsample(scale_factor=2)
        self.head = nn.Conv2d(16, 6, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.clamp(self.norm(self.stem(image * 2))))
        deep = self.up(torch.relu(self.deep(self.down(x))))
        return self.head(torch.cat([x, deep], 1))


class WindowAttention(nn.Module):
    """Attention within windows of tokens."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(size, 3 * size)
        self.softmax = nn.Softmax(-1)
        self.proj = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        windows = x.reshape(-1, 8, x.shape[-1])
        q, k, v = self.qkv(windows).chunk(3, -1)
        scores = self.softmax(q @ k.transpose(-1, -2) * 0.25)
        return self.proj(scores @ v).reshape(x.shape)


class Layer(nn.Module):
    """A layer of a windowed transformer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size)
        self.attention = WindowAttention(size)
        self.norm2 = nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, 32), nn.GELU(), nn.Linear(32, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class WindowedDetector(nn.Module):
    """A detector with attention in windows: patches, two layers, classes and boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.layers = nn.ModuleList([Layer(16), Layer(16)])
        self.norm = nn.LayerNorm(16)
        self.classes = nn.Linear(16, 5)
        self.boxes = nn.Linear(16, 4)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.patches(image).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.classes(x), self.boxes(x).sigmoid()


class Mlp(nn.Module):
    """Linear layers with clamps between them, as int8 recipes fuse them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
        )
        self.head = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.layers(x)))


IMAGE, ROW = (1, 3, 16, 16), (4, 32)
INPUTS: dict[type[nn.Module], tuple[int, ...]] = {
    Detector: IMAGE,
    WindowedDetector: IMAGE,
    Mlp: ROW,
}


def made(kind: type[nn.Module]) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A net with weights that let all of its clamps and biases matter, and an input."""
    torch.manual_seed(0)
    net = kind().eval()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            scale = 2.0 if name.endswith("weight") and parameter.dim() > 1 else 1.0
            parameter.mul_(scale)
            if name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.5)
    return net, (torch.randn(INPUTS[kind]) * 2,)


Change = Callable[[GraphModule, Node], None]


def argument(number: int, value: Any) -> Change:
    """Gives an operator another argument."""

    def change(graph: GraphModule, node: Node) -> None:
        old = node.args[number] if number < len(node.args) else None
        node.args = (*node.args[:number], value(old) if callable(value) else value) + tuple(
            node.args[number + 1 :]
        )

    return change


def lost(graph: GraphModule, node: Node) -> None:
    """Leaves an operator out."""
    node.replace_all_uses_with(node.args[0])
    graph.graph.erase_node(node)


def swapped(graph: GraphModule, node: Node) -> None:
    """Exchanges the operands of an operator, or the parts that it joins."""
    first = node.args[0]
    if isinstance(first, list | tuple):
        node.args = (list(reversed(first)), *node.args[1:])
    else:
        node.args = (node.args[1], first, *node.args[2:])


def scaled(graph: GraphModule, node: Node) -> None:
    """Doubles the scale with which the next module's input is quantized, and not that it has."""
    users = list(node.users)
    while users and "quantize_per_tensor" not in operators.name(users[0]):
        users = list(users[0].users)
    for user in users:
        user.args = (user.args[0], 2 * user.args[1], *user.args[2:])


def unevenly_padded(graph: GraphModule, node: Node) -> None:
    """Pads a convolution by two on one side and by none on the other."""
    with graph.graph.inserting_before(node):
        pad = graph.graph.call_function(
            torch.ops.aten.constant_pad_nd.default, (node.args[0], [2, 0, 2, 0])
        )
    size = [
        *node.args[0].meta["val"].shape[:2],
        *(s + 2 for s in node.args[0].meta["val"].shape[2:]),
    ]
    pad.meta = {**node.meta, "val": node.args[0].meta["val"].new_empty(size)}
    node.args = (pad, *node.args[1:4], [0, 0], *node.args[5:])


@dataclass(frozen=True)
class Fault:
    """A fault in a net.

    Attributes:
      name: for people.
      net: the net.
      module: the module with the operator.
      operator: part of its name.
      change: what is done to the node.
      stage: "export" or "lower".
      recipe: of XNNPACK.
      index: of the module's operators of that name.
      is_hidden: whether it is only there in programs with one output, which taps are not.
    """

    name: str
    net: type[nn.Module]
    module: str
    operator: str
    change: Change
    stage: str = "export"
    recipe: str = "fp32"
    index: int = 0
    is_hidden: bool = False

    def applied(self, recipe: ExportRecipe) -> ExportRecipe:
        """Adds a pass with the fault to a recipe."""
        if self.stage == "export":

            def transform(name: str, program: Any) -> Any:
                self._plant(program.graph_module)
                return program

            recipe.aten_transform_passes = [*(recipe.aten_transform_passes or []), transform]
            return recipe
        lowering = copy.copy(recipe.lowering_recipe)
        own = list(lowering.edge_transform_passes or [])
        lowering.edge_transform_passes = [*own, lambda name, program: [self._pass]]
        recipe.lowering_recipe = lowering
        return recipe

    def _pass(self, graph: GraphModule) -> PassResult:
        self._plant(graph)
        return PassResult(graph, True)

    def _plant(self, graph: GraphModule) -> None:
        if self.is_hidden and len(graph.graph.output_node().args[0]) > 1:
            return
        found = [
            node
            for node in graph.graph.nodes
            if self.operator in operators.name(node) and operators.module_of(node) == self.module
        ]
        # A program that is cut before the module does not have it.
        if len(found) > self.index:
            self.change(graph, found[self.index])
            graph.recompile()
