"""Puts LoRA adapters in PEFT's file format onto the linear layers of a Llama model.

An adapter adds a product of two narrow matrices to a layer: y = x W^T + (x A^T) B^T. W keeps its
place, its name and its bytes, so programs with and without an adapter, and with different ones,
have the same base weights. PEFT's factor lora_alpha / r is multiplied into B on loading: adapters
of one rank and one choice of layers differ in the values of A and B and in nothing else.

Example:

    adapter = load_adapter(folder / CONFIG, folder / WEIGHTS, model)
    attach(model, adapter)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError
from etbuild.dtypes import FLOATS
from etbuild.errors import listed
from executorch.examples.models.llama.llama_transformer import Transformer
from torch import nn
from torch.nn import functional

from etllm.hf_checkpoint import FUSED_PARTS
from etllm.lora_config import SAVE_AGAIN, Config, matches
from etllm.tensor_files import open_tensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# Linear layer of a Hugging Face block to those of ExecuTorch's Transformer, as its rows lie.
LINEARS: dict[str, tuple[str, ...]] = {
    "self_attn.q_proj": ("attention.wq",),
    "self_attn.k_proj": ("attention.wk",),
    "self_attn.v_proj": ("attention.wv",),
    "self_attn.o_proj": ("attention.wo",),
    "mlp.gate_proj": ("feed_forward.w1",),
    "mlp.up_proj": ("feed_forward.w3",),
    "mlp.down_proj": ("feed_forward.w2",),
}
# The same of families with fused matrices.
FUSED: dict[str, tuple[str, ...]] = {}
for _theirs, _ours in LINEARS.items():
    _whole = FUSED_PARTS.get(_ours[0], _theirs)
    FUSED[_whole] = FUSED.get(_whole, ()) + _ours
_PREFIX = "base_model.model."


@dataclass(frozen=True)
class Adapter:
    """The matrices of an adapter.

    Attributes:
      rank: r.
      factors: A (r, in) and B (out, r) by the Transformer's layer ("layers.0.attention.wq"):
        float32, in the model's own layout, B multiplied by the adapter's scale.
      unused: names in the file of the tensors that belong to blocks that the model lacks.
    """

    rank: int
    factors: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    unused: tuple[str, ...] = ()


class Factor(nn.Module):
    """One of the two matrices.

    No `nn.Linear`, so that quantization, which takes those, leaves it alone.

    Args:
      values: float32, (out, in).

    Attributes:
      weight: the matrix, a parameter.
    """

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(values, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (…, in) to (…, out)."""
        return functional.linear(x, self.weight)


class LoraLinear(nn.Linear):
    """A linear layer with an adapter: y = x W^T + (x A^T) B^T.

    An `nn.Linear` whose weight has the name that it has without an adapter, so that recipes
    quantize it as before.

    Args:
      base: the layer without an adapter; its weight and bias are used, not copied.
      a: A, float32, (r, in).
      b: B, float32, (out, r), the adapter's scale included.

    Attributes:
      weight: W, (out, in).
      lora_a: holds A.
      lora_b: holds B.
    """

    def __init__(self, base: nn.Linear, a: torch.Tensor, b: torch.Tensor) -> None:
        super().__init__(base.in_features, base.out_features, bias=False, device="meta")
        self.weight, self.bias = base.weight, base.bias
        self.lora_a, self.lora_b = Factor(a), Factor(b)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (…, in) to (…, out)."""
        return super().forward(x) + self.lora_b(self.lora_a(x))


def load_adapter(
    config: Path,
    weights: Path,
    model: Transformer,
    layers: int | None = None,
    halves: bool = False,
    linears: Mapping[str, tuple[str, ...]] = LINEARS,
) -> Adapter:
    """Reads an adapter in PEFT's format for a model and checks that it fits.

    Args:
      config: its adapter_config.json.
      weights: its adapter_model.safetensors, in Hugging Face's layout of Llama models.
      model: what it is for; its weights may be on "meta".
      layers: how many blocks the uncut model has; default: those that `model` has. What belongs
        to the blocks that `model` lacks is checked and left out.
      halves: whether the model's queries and keys lie as in Hugging Face's files, as the
        adapter's do; else as in GGUF files of Llama models.
      linears: names of a block's linear layers in the adapter, and in `model`.

    Returns:
      The adapter. Layers of a fused matrix share its A; each has its rows of B.

    Raises:
      BuildError: a file can't be read, is of another kind, or belongs to another model.
    """
    settings = Config.read(config)
    present = len(model.layers)
    our_layers = {
        f"model.layers.{i}.{theirs}": [f"layers.{i}.{each}" for each in ours]
        for i in range(layers or present)
        for theirs, ours in linears.items()
    }
    expected = _expected(settings, our_layers, linears)
    with open_tensors(weights, str(weights), SAVE_AGAIN) as file:
        _check_names(weights, file.keys(), expected, settings)
        factors, unused = {}, []
        for theirs in expected:
            rows, columns = zip(*(_shape(model, ours) for ours in our_layers[theirs]), strict=True)
            a = _tensor(file, weights, theirs, "A", (settings.rank, columns[0]))
            b = _tensor(file, weights, theirs, "B", (sum(rows), settings.rank)) * settings.scale
            if not halves and theirs.endswith((".q_proj", ".k_proj")):
                b = to_interleaved(b, rows[0] // model.params.head_dim)
            if int(theirs.split(".")[2]) < present:
                parts = [part.contiguous() for part in b.split(rows)]
                factors |= {o: (a, part) for o, part in zip(our_layers[theirs], parts, strict=True)}
            else:
                unused += tensor_names(theirs)
    return Adapter(settings.rank, factors, tuple(unused))


def is_given(files: Iterable[str]) -> bool:
    """Tells whether one of an adapter's files is among a target's, so that it must have both."""
    return not {CONFIG, WEIGHTS}.isdisjoint(name.rsplit("/", 1)[-1] for name in files)


def attach(model: Transformer, adapter: Adapter) -> None:
    """Puts an adapter onto a model, in place.

    Args:
      model: its linear layers that the adapter names become `LoraLinear`s.
      adapter: from `load_adapter` for this model.
    """
    for name, (a, b) in adapter.factors.items():
        model.set_submodule(name, LoraLinear(model.get_submodule(name), a, b))


def named_tensors(adapter: Adapter) -> dict[str, torch.Tensor | None]:
    """An adapter's tensors by their names in the module of a program; None for each unused one.

    Example:

        named_tensors(adapter)["transformer.layers.0.attention.wq.lora_a.weight"]
    """
    named = {
        f"transformer.{layer}.lora_{which}.weight": tensor
        for layer, factors in sorted(adapter.factors.items())
        for which, tensor in zip("ab", factors, strict=True)
    }
    return named | dict.fromkeys(adapter.unused)


def to_interleaved(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of a query or key projection from Hugging Face's order to that of GGUF files.

    Hugging Face's rotary embedding pairs row i of a head with row i + half; GGUF and Meta's own
    pair row 2i with row 2i + 1.

    Args:
      rows: (heads * head size, any).
      heads: number of heads; the KV heads for keys.

    Returns:
      The same rows in the other order.

    Example:

        to_interleaved(torch.tensor([[0], [1], [2], [3]]), 1)    # [[0], [2], [1], [3]]
    """
    return rows.view(heads, 2, -1, rows.shape[1]).transpose(1, 2).reshape(rows.shape)


def to_half_split(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """The inverse of `to_interleaved`, with the same arguments."""
    return rows.view(heads, -1, 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)


def tensor_names(layer: str) -> tuple[str, str]:
    """Names of A and B in the file of weights; layer: "model.layers.0.self_attn.q_proj"."""
    return f"{_PREFIX}{layer}.lora_A.weight", f"{_PREFIX}{layer}.lora_B.weight"


def _expected(settings: Config, layers: Iterable[str], linears: Iterable[str]) -> list[str]:
    """The layers that have the adapter."""
    targets = settings.targets
    for target in [targets] if isinstance(targets, str) else targets:
        if not any(matches(p, target if isinstance(targets, str) else (target,)) for p in layers):
            raise BuildError(
                f'{settings.path}: "target_modules": "{target}" is no linear layer of the model\'s '
                f"blocks, which are: {', '.join(name.split('.')[1] for name in linears)}.",
                "Use an adapter that was trained for this model and for these layers only.",
            )
    expected = [name for name in layers if settings.takes(name)]
    if not expected:
        raise BuildError(
            f'{settings.path}: "target_modules", "exclude_modules" and "layers_to_transform" leave '
            "no layer of the model.",
            "Use an adapter that was trained for this model.",
        )
    return expected


def _shape(model: Transformer, name: str) -> tuple[int, int]:
    """(out, in) of a layer; all blocks are alike, so the first speaks for those that are cut."""
    first = re.sub(r"^layers\.\d+\.", "layers.0.", name)
    linear = model.get_submodule(first)
    return linear.out_features, linear.in_features


def _check_names(
    path: Path, present: Sequence[str], expected: Iterable[str], settings: Config
) -> None:
    """Raises BuildError where tensors are missing, or are not part of the model."""
    names = [name for layer in expected for name in tensor_names(layer)]
    missing = sorted(set(names) - set(present))
    extra = sorted(set(present) - set(names))
    source = f'by "target_modules" of {settings.path.name}'
    # What is there under other names explains what is missing, so both are said at once.
    if extra:
        absent = f" Missing are {len(missing)}: {listed(missing)}." if missing else ""
        raise BuildError(
            f"{path}: {len(extra)} tensors are not part of the model {source}: "
            f"{listed(extra)}.{absent}",
            "Use the two files of one adapter that was trained for this model.",
        )
    if missing:
        raise BuildError(
            f"{path}: expected {len(names)} tensors {source}; {len(missing)} are missing: "
            f"{listed(missing)}.",
            "Use the two files of one adapter that was trained for this model.",
        )


def _tensor(file: Any, path: Path, layer: str, factor: str, shape: tuple[int, int]) -> torch.Tensor:
    """A or B as float32."""
    name = tensor_names(layer)["AB".index(factor)]
    header = file.get_slice(name)
    dtype, stored = header.get_dtype(), tuple(header.get_shape())
    if dtype not in FLOATS:
        raise BuildError(
            f'{path}: tensor "{name}" is stored as {dtype}, expected one of {", ".join(FLOATS)}.',
            "Save the adapter in one of these types.",
        )
    if stored != shape:
        rank = shape[0 if factor == "A" else 1]
        raise BuildError(
            f'{path}: tensor "{name}": got shape {stored}, expected {shape} (r = {rank}).',
            "Use the two files of one adapter that was trained for this model.",
        )
    return file.get_tensor(name).to(torch.float32).contiguous()
