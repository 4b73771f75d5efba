"""Trains the LoRA adapters of this folder and writes them in PEFT's file format.

    bazel run //models/adapters:train -- assistant
    bazel run //models/adapters:train -- summarizer --steps 64

An adapter's folder holds `examples.jsonl`, conversations of one question and one answer; the two
files `adapter_config.json` and `adapter_model.safetensors` are written beside it. The same examples
and arguments give the same bytes on the same kind of processor: seed and number of threads are
fixed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from etbuild import BuildError
from etllm import decoder, gguf_checkpoint, lora
from etllm.checkpoint import Checkpoint
from etllm.hf_config import Sizes
from etllm.layers import causal_mask
from etllm.tokenizer.text import ChatTemplate
from etllm.tokenizer.tokenizer_from_gguf import build_config, build_tokenizer, read_metadata
from executorch.examples.models.llama.llama_transformer import Transformer
from safetensors import torch as safetensors
from torch.nn import functional

# What each adapter is trained with.
ADAPTERS = {"assistant": {"alpha": 16}, "summarizer": {"alpha": 32}}
RANK = 8
TARGETS = ("self_attn.q_proj", "self_attn.v_proj")
_BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
_THREADS = 2
_END = "<|im_end|>"
# Above the longest example; the model attends to all of its cache at every step.
_CONTEXT = 160

Example = tuple[torch.Tensor, int]


def encode(path: Path, gguf: Path) -> list[Example]:
    """The examples of a file as tokens, with the model's chat template.

    Args:
      path: JSON lines with "user" and "assistant".
      gguf: the model's file, for its tokenizer and chat template.

    Returns:
      int64 tokens (1, n) and the number of those that ask; the rest is the answer.
    """
    metadata = read_metadata(gguf)
    tokenizer = build_tokenizer(metadata, str(gguf))
    template = ChatTemplate(build_config(metadata, str(gguf)), str(gguf))
    examples = []
    for line in path.read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        asked = template.render([{"role": "user", "content": said["user"]}])
        question = tokenizer.encode(asked, add_special_tokens=False).ids
        answer = tokenizer.encode(said["assistant"] + _END, add_special_tokens=False).ids
        examples.append((torch.tensor([question + answer]), len(question)))
    return examples


def load(gguf: Path, context: int = _CONTEXT) -> Transformer:
    """The whole model in float32, with logits for all tokens of a call."""
    sizes = Sizes(context=context, most=context)
    checkpoint = Checkpoint(**gguf_checkpoint.opened(gguf, sizes, "train"))
    arch = checkpoint.architecture
    arch.args.generate_full_logits = True
    model = decoder.assign(decoder.construct(arch.args), checkpoint.weight)
    return decoder.finish(model, arch)


def add_adapter(model: Transformer, rank: int) -> dict[str, lora.LoraLinear]:
    """Puts an untrained adapter on the model, as PEFT starts one: A random, B zero.

    Returns:
      Its layers by Hugging Face's names ("model.layers.0.self_attn.q_proj").
    """
    layers = {}
    for number in range(len(model.layers)):
        for theirs in TARGETS:
            ours = f"layers.{number}.{lora.LINEARS[theirs][0]}"
            linear = model.get_submodule(ours)
            a, b = torch.empty(rank, linear.in_features), torch.zeros(linear.out_features, rank)
            torch.nn.init.kaiming_uniform_(a, a=5**0.5)
            lora.attach(model, lora.Adapter(rank, {ours: (a, b)}))
            layers[f"model.layers.{number}.{theirs}"] = model.get_submodule(ours)
    return layers


def loss_of(model: Transformer, example: Example) -> torch.Tensor:
    """Mean cross entropy of an example's answer, in nats a token."""
    tokens, asked = example
    for layer in model.layers:
        # The cache of the last example belongs to a graph that is gone.
        layer.attention.k_cache.detach_()
        layer.attention.v_cache.detach_()
    count = tokens.shape[1] - 1
    positions = torch.arange(count)
    columns = torch.arange(model.max_context_len, dtype=torch.float32).view(1, -1)
    mask = causal_mask(positions, columns)
    logits = model(tokens[:, :-1], {"input_pos": positions, "mask": mask})
    return functional.cross_entropy(logits[0, asked - 1 :], tokens[0, asked:])


def mean_loss(model: Transformer, examples: Sequence[Example]) -> float:
    """Mean loss over examples."""
    with torch.no_grad():
        return sum(float(loss_of(model, example)) for example in examples) / len(examples)


def train(
    model: Transformer,
    layers: Mapping[str, lora.LoraLinear],
    examples: Sequence[Example],
    steps: int,
    rate: float,
) -> None:
    """Trains A and B, one example a step, with a rate that falls to zero.

    Args:
      model: with the adapter.
      layers: the adapter's layers.
      examples: in each round all of them, in another order.
      steps: how many.
      rate: of the first step.
    """
    weights = [f.weight for layer in layers.values() for f in (layer.lora_a, layer.lora_b)]
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0)
    for weight in weights:
        weight.requires_grad_(True)
    order: list[int] = []
    for step in range(steps):
        order = order or torch.randperm(len(examples)).tolist()
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        loss = loss_of(model, examples[order.pop()])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step + 1} of {steps}: loss {float(loss.detach()):.3f}", flush=True)
    for weight in weights:
        weight.requires_grad_(False)


def save(
    model: Transformer, layers: Mapping[str, lora.LoraLinear], alpha: int, folder: Path
) -> None:
    """Writes the adapter's two files; B in Hugging Face's layout, and without PEFT's factor.

    Args:
      model: the adapter's model.
      layers: the adapter's layers by Hugging Face's names.
      alpha: lora_alpha.
      folder: where to.
    """
    rank = next(iter(layers.values())).lora_a.weight.shape[0]
    tensors = {}
    for name, layer in layers.items():
        b = layer.lora_b.weight.detach() * (rank / alpha)
        if name.endswith(("q_proj", "k_proj")):
            b = lora.to_half_split(b, layer.out_features // model.params.head_dim)
        for key, value in zip(lora.tensor_names(name), (layer.lora_a.weight, b), strict=True):
            tensors[key] = value.detach().to(torch.float16).contiguous()
    (folder / lora.WEIGHTS).write_bytes(safetensors.save(tensors, metadata={"format": "pt"}))
    config = {
        "base_model_name_or_path": _BASE,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": sorted(name.split(".")[-1] for name in TARGETS),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        "use_rslora": False,
    }
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (folder / lora.CONFIG).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
      arguments: without the program's name; None: those of the process.

    Returns:
      The exit code: 0, or 1 after an error that was printed.
    """
    parser = argparse.ArgumentParser(prog="train", description=__doc__.split("\n")[0])
    parser.add_argument("adapter", choices=sorted(ADAPTERS))
    parser.add_argument("--gguf", type=Path, required=True, help="the model's file")
    parser.add_argument("--folder", type=Path, help="of the adapter; default: in the workspace")
    parser.add_argument("--steps", type=int, default=64, help="examples to train on")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate of the first step")
    options = parser.parse_args(arguments)
    workspace = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    folder = options.folder or workspace / "models" / "adapters" / options.adapter
    torch.set_num_threads(_THREADS)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    alpha = ADAPTERS[options.adapter]["alpha"]
    try:
        examples = encode(folder / "examples.jsonl", options.gguf)
        model = load(options.gguf)
        layers = add_adapter(model, RANK)
        before = mean_loss(model, examples)
        train(model, layers, examples, options.steps, options.rate)
        print(f"mean loss: {before:.3f} before, {mean_loss(model, examples):.3f} after")
        save(model, layers, alpha, folder)
    except (BuildError, OSError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
