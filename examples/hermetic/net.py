import torch
from einops.layers.torch import Rearrange


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(
            Rearrange("batch channel row column -> batch (row column) channel"),
            torch.nn.Linear(8, 16),
            torch.nn.ReLU(),
        )

    def forward(self, x):
        return self.layers(x)


def build(ctx):
    return Net(), (torch.randn(1, 8, 4, 4),)
