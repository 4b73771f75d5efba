"""An image classifier of transformers: pixels to logits of its classes."""

import torch
from etbuild import Method, ModelContext, ModelSpec
from transformers import AutoConfig, AutoModelForImageClassification


class ImageClassifier(torch.nn.Module):
    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """float32 pixels (1, 3, height, width) as the model wants them; logits (1, classes)."""
        return self.net(pixel_values=pixels).logits


def build(ctx: ModelContext) -> ModelSpec:
    config = AutoConfig.from_pretrained(ctx.file("config.json").parent, attn_implementation="eager")
    net = AutoModelForImageClassification.from_config(config)
    if any(name.endswith("model.safetensors") for name in ctx.files):
        net.load_state_dict(ctx.checkpoint("model.safetensors"))
    pixels = torch.rand(1, config.num_channels, config.image_size, config.image_size)
    method = Method(ImageClassifier(net), (pixels,))
    return ModelSpec({"forward": method}, {"get_classes": config.num_labels})
