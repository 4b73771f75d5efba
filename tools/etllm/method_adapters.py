"""LoRA adapters of single methods: base and adapters in one program, which holds the base once.

`multimethod.methods.*.lora_config` names an adapter's two files, which the target has in
`method_adapters`. Each adapter's methods run a copy of the model's modules over the same tensors,
with the adapter's layers on top.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from etbuild import BuildError, ModelContext, Options
from torch import nn

from etllm import decoder, lora
from etllm.settings import Settings

# The argument of a model whose files include adapters of methods.
OPTION = "method_adapters"


@dataclass(frozen=True)
class Files:
    """Names of an adapter's files among those of the target.

    Attributes:
      config: its adapter_config.json.
      weights: its .safetensors file.
    """

    config: str
    weights: str


def is_asked(ctx: ModelContext) -> bool:
    """Tells whether the target has adapters of methods."""
    return Options(ctx.args, ctx.label).boolean(OPTION, False)


def files_by_method(ctx: ModelContext, settings: Settings) -> dict[str, Files]:
    """The adapters that the YAML file gives to methods, by the method's name.

    Raises:
      BuildError: a path is that of no file of the target, or of several; the target has an adapter
        that the file does not name.
    """
    found: dict[str, Files] = {}
    for i, method in enumerate(settings.llm.multimethod.methods):
        if method.lora_config is None:
            continue
        section = f"multimethod.methods.{i}.lora_config"
        if not is_asked(ctx):
            raise BuildError(
                f"{settings.file.position(section)}: {section}: got a section, expected nothing: "
                f"{ctx.label} has no adapters for methods.",
                "Give et_llm the adapter's two files in method_adapters.",
            )
        found[method.method_name] = Files(
            config=_file(ctx, settings, f"{section}.adapter_config"),
            weights=_file(ctx, settings, f"{section}.adapter_checkpoint"),
        )
    if is_asked(ctx):
        named = {name for files in found.values() for name in (files.config, files.weights)}
        unused = sorted(n for n in ctx.files if lora.is_given([n]) and n not in named)
        if unused:
            raise BuildError(
                f"{ctx.label}: method_adapters: got {unused[0]}, expected files that a lora_config "
                f"of {settings.file.name} names.",
                "Name it in multimethod.methods, or remove it from the target.",
            )
    return found


def modules(
    model: nn.Module, adapters: Mapping[Files, lora.Adapter], dtype: torch.dtype
) -> dict[Files | None, nn.Module]:
    """The module of each adapter's methods, and of those without one.

    Args:
      model: with a `transformer`; it stays as it is.
      adapters: by their files.
      dtype: what the model computes in.
    """
    made: dict[Files | None, nn.Module] = {None: model}
    tensors = [*model.parameters(), *model.buffers()]
    for files, adapter in adapters.items():
        # The tensors themselves are not copied.
        twin = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
        lora.attach(twin.transformer, adapter)
        if isinstance(twin, decoder.CausalLM):
            decoder.choose_masks(twin.transformer)
        for module in twin.modules():
            if isinstance(module, lora.Factor):
                module.to(dtype)
        made[files] = twin
    return made


def _file(ctx: ModelContext, settings: Settings, key: str) -> str:
    path = settings.value(key)
    names = [n for n in ctx.files if path and (n == path or n.endswith("/" + path))]
    if len(names) != 1:
        adapters = sorted(n for n in ctx.files if lora.is_given([n]))
        raise settings.error(
            key,
            f"the end of one path of the target's files: {', '.join(adapters)}",
            f"Give the file to {ctx.label} in method_adapters, and name its folder, too.",
        )
    return names[0]
