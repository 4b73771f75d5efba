"""Language models of et_llm with the layers of transformers.

What a YAML file says of the program holds for them, too: methods, sizes, types, the embedding's
bits, metadata. What it says of layers of et_llm was refused before this is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from etbuild import BuildError, ModelContext, ModelSpec
from etbuild.errors import listed
from torch import nn

from etllm import embedding, methods
from etllm.layers import Int8Embedding
from etllm.settings import Settings
from etllm.transformers import decoding, pretrained, tasks

_TASK = "text-generation"
# Token 0 is often a padding, whose state of zeros shows nothing.
_FIRST = 3
_DYNAMIC = "model.enable_dynamic_shape"


def build(
    ctx: ModelContext, settings: Settings, shapes: Mapping[str, methods.Shape], layers: int
) -> ModelSpec:
    """The model of a checkpoint of any architecture that transformers generates text with.

    Args:
      ctx: the checkpoint's files.
      settings: the YAML file.
      shapes: how many tokens each method reads, by its name.
      layers: how many of the first layers; 0: all.

    Raises:
      BuildError: transformers cannot read the checkpoint or has no code for it, or the YAML file
        asks for what the model does not do.
    """
    files = {name: path for name, path in ctx.files.items() if name != settings.file.name}
    export = settings.llm.export
    length = export.max_context_length
    with pretrained.opened(ModelContext(ctx.args, files, ctx.label)) as checkpoint:
        config = checkpoint.config.get_text_config(decoder=True)
        # The second is that of decoders behind an encoder.
        names = ("max_position_embeddings", "max_target_positions")
        most = next((n for n in (getattr(config, name, None) for name in names) if n), None)
        # Of relative positions there may be any number, which some configurations call -1.
        if isinstance(most, int) and 0 < most < length:
            raise settings.error(
                "export.max_context_length", f"at most {most}, the positions that the model has"
            )
        if layers:
            _cut(config, layers, ctx.label)
        _, _, class_name = tasks.choose(checkpoint, _TASK)
        loaded = checkpoint.load(class_name, random=False)
        if not layers:
            _check_unused(loaded, ctx.label)
        model = pretrained.exportable(loaded)
        ends = decoding.ends_of(checkpoint)
    decoding.fix_positions(model, length, ctx.label)
    vocabulary = model.get_input_embeddings().num_embeddings
    probe = decoding.Decoder(model, 1).buffers_of_cache
    shapes = _possible(settings, shapes, model, probe.has_states)
    dynamic = any(shape.most > 1 for shape in shapes.values())
    most = max(shape.most for shape in shapes.values())
    decoding.check_short(model, length, decoding.Calls(most, dynamic), vocabulary)
    _quantize_embedding(settings, model)
    _cast(model, settings.dtype())
    module = decoding.Decoder(model, length, settings.llm.debug.generate_full_logits).eval()
    made = methods.make(shapes, dict.fromkeys(shapes, module), vocabulary, _FIRST)
    sizes = methods.Sizes(most, length, vocabulary, config.num_hidden_layers)
    states = {"use_recurrent_state": True} if probe.has_states else {}
    spec = ModelSpec(made, methods.metadata(settings, ends, sizes, shapes) | states)
    checkpoint.check_unused(loaded, spec)
    return spec


def _cut(config: Any, layers: int, label: str) -> None:
    """Leaves the first layers of a model, in place."""
    count = config.num_hidden_layers
    if layers > count:
        raise BuildError(
            f"{label}: layers: got {layers}, expected at most {count}, as config.json has them.",
            "Correct layers of the target.",
        )
    for name, value in vars(config).items():
        # Those that have an item for each layer, such as the kinds of attention.
        if isinstance(value, list) and len(value) == count:
            setattr(config, name, value[:layers])
    config.num_hidden_layers = layers


def _check_unused(loaded: pretrained.Loaded, label: str) -> None:
    """Fails for a checkpoint with more layers than config.json says, or more in one of them.

    Tensors beside the layers may belong to parts that write no text, such as an eye.
    """
    parts = loaded.model.named_modules()
    depths = {name: len(part) for name, part in parts if isinstance(part, nn.ModuleList)}
    # What follows from config.json, in old files.
    unused = [name for name in loaded.unused if not name.endswith((".inv_freq", ".masked_bias"))]
    stacks = "|".join(map(re.escape, sorted(depths, key=len, reverse=True)))
    deeper, inside = [], []
    for name in unused:
        match = re.match(rf"({stacks})\.(\d+)\.", name) if depths else None
        if match:
            (deeper if int(match[2]) >= depths[match[1]] else inside).append(name)
    if deeper:
        raise BuildError(
            f"{label}: checkpoint: got {listed(deeper)}, expected only the layers that config.json "
            "says the model has: its answers would be wrong.",
            "Give the checkpoint's own config.json; layers of the target cuts a model.",
        )
    if inside:
        raise BuildError(
            f"{label}: checkpoint: got {listed(inside)}, expected only what layers of "
            f"{type(loaded.model).__name__} have: its answers would be wrong.",
            "Give the checkpoint's own config.json.",
        )


def _possible(
    settings: Settings, shapes: Mapping[str, methods.Shape], model: Any, has_states: bool
) -> Mapping[str, methods.Shape]:
    """The methods that a model can have: some read one token a call where the file says nothing."""
    several = bool(settings.llm.multimethod.methods)
    is_said = several or settings.file.has(_DYNAMIC)
    if not is_said and (has_states or pretrained.parts_with_experts(model)):
        # Of mixtures of experts, each token of a call would copy its experts' weights.
        return {"forward": methods.Shape(1)}
    if has_states and any(shape.most > 1 for shape in shapes.values()):
        raise settings.error(
            "multimethod.methods" if several else _DYNAMIC,
            f"{'decode alone' if several else 'false'}: layers of {model.config.model_type} keep a "
            "state that each token changes",
            "Remove it: the program reads one token a call.",
        )
    return shapes


def _quantize_embedding(settings: Settings, model: Any) -> None:
    """Replaces the embedding by what `quantization.embedding_quantize` asks for, in place."""
    table = model.get_input_embeddings()
    make = embedding.maker(settings, table.embedding_dim, lambda shape: table.weight.detach())
    if make is None:
        return
    if type(table) is not nn.Embedding:
        raise settings.error(
            "quantization.embedding_quantize",
            f"nothing: {type(table).__name__} of {model.config.model_type} is no plain table",
            "Remove the key.",
        )
    model.set_input_embeddings(make(tuple(table.weight.shape)))


def _cast(model: nn.Module, dtype: torch.dtype) -> None:
    """Lets a model compute in another type, in place; positions stay in 32 bits."""
    if dtype == torch.float32:
        return
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    for module in model.modules():
        # Of integers and scales, which keep their types.
        if isinstance(module, Int8Embedding) or hasattr(module, "bitwidth"):
            module.dtype = dtype
