"""Writes the corpus: small valid files of every kind, from real programs if possible.

`corpus --output DIR --program PTE PTD MANIFEST LOWERED …`

Below DIR is a folder for each kind (see kinds.py): `seeds` holds the files that are mutated; what
lies beside it belongs to them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tiny_checkpoint
import torch
from etcli.report import program as report
from etlink import manifest as manifests
from etlink import ptd, pte, schema, share
from etlink.__main__ import main as link
from etlink.container import chunks
from etlink.lowered import Lowered
from etllm.tokenizer.tokenizer_from_gguf import build_config, build_tokenizer, read_metadata
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from safetensors.torch import save_file

_YAML = """\
model:
  use_kv_cache: true
export:
  max_seq_length: 8
  max_context_length: 16
backend:
  xnnpack:
    enabled: true
"""
_SEVERAL = """\
multimethod:
  share_mutable_buffers: true
  methods:
    - method_name: prefill
      export_seq_len: 8
    - method_name: decode
"""
_QUANTIZED = """\
quantization:
  qmode: 8da4w
  group_size: 32
  embedding_quantize: 8,32
base:
  metadata: '{"get_bos_id": 1}'
"""


def make(output: Path, programs: list[list[Path]]) -> None:
    """Writes the corpus.

    Args:
      output: where to.
      programs: for each its .pte, .ptd, manifest and lowered program.
    """
    for number, (program, data, _, _) in enumerate(programs):
        name = str(number)
        _seed(output, "program", f"{name}.pte", program)
        _seed(output, "data", f"{name}.ptd", data)
        _payloads(output, name, program)
    program, data, manifest, lowered = programs[0]
    # These say something of the first program, which lies beside them.
    _seed(output, "manifest", "first.json", manifest)
    _seed(output, "index", "first.json", lowered / "index.json")
    _seed(output, "facts", "first.json", lowered / "lowering.json")
    _beside(output, "manifest", program=program, data=data)
    for kind in ("index", "facts", "shared_data"):
        shutil.copytree(lowered, output / kind / "lowered")
        (output / kind / "seeds").mkdir(parents=True, exist_ok=True)
    _shared(output / "shared_data", lowered)
    _report(output / "facts", lowered)
    _other_data(output / "data" / "other")
    _without_torch(output)
    _with_torch(output)
    _language_models(output)


def _seed(output: Path, kind: str, name: str, source: Path) -> None:
    folder = output / kind / "seeds"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, folder / name)


def _written(output: Path, kind: str, name: str) -> Path:
    folder = output / kind / "seeds"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _beside(output: Path, kind: str, program: Path, data: Path) -> None:
    # By the names that the manifest has.
    shutil.copyfile(program, output / kind / "program.pte")
    shutil.copyfile(data, output / kind / "program.ptd")


def _payloads(output: Path, name: str, program: Path) -> None:
    read = pte.read(program)
    segment = schema.program_class("DataLocation").SEGMENT
    for plan in read.program.executionPlan:
        for number, delegate in enumerate(plan.delegates or []):
            if delegate.processed.location == segment:
                piece = read.piece(delegate.processed.index)
                path = _written(output, "payload", f"{name}_{number}.bin")
                path.write_bytes(b"".join(chunks(piece)))


def _shared(folder: Path, lowered: Path) -> None:
    file = share.share([Lowered(lowered)], folder / "shared.ptd", "//fuzz:shared")
    made = manifests.Manifest(label="//fuzz:shared", files={"shared.ptd": file})
    manifests.write(folder / "seeds" / "shared.json", made)


def _report(folder: Path, lowered: Path) -> None:
    summary = folder / "summary.json"
    words = [f"--lowered={lowered}", f"--program={folder / 'p.pte'}", f"--summary={summary}"]
    assert link(words) == 0
    facts = {"stages": [{"name": "load", "seconds": 1.5}], "peak_memory_bytes": 1000}
    (folder / "timings.json").write_text(json.dumps(facts))
    words = ["--label=//fuzz:program", f"--lowered={lowered}"]
    words += [f"--{name}={folder / name}.json" for name in ("timings", "summary")]
    assert report.main([*words, f"--json={folder / 'json'}", f"--html={folder / 'html'}"]) == 0


def _language_models(output: Path) -> None:
    """Tiny checkpoints of different families, and the files beside each kind's."""
    yamls = {"plain": _YAML, "several": _YAML + _SEVERAL, "quantized": _YAML + _QUANTIZED}
    for name, text in yamls.items():
        _written(output, "llm_yaml", f"{name}.yaml").write_text(text)
    whole = output / "llm_yaml" / "beside"
    tiny_checkpoint.write("qwen3", whole)
    named = {"hf_config": "config.json", "hf_generation": "generation_config.json"}
    named |= {"hf_weights": "model.safetensors"}
    for kind, file in named.items():
        beside = shutil.copytree(whole, output / kind / "beside")
        (beside / "llm.yaml").write_text(_YAML)
        _seed(output, kind, file, beside / file)
        (beside / file).unlink()
    sharded = output / "hf_index" / "beside"
    tiny_checkpoint.write("qwen3", sharded, shards=2)
    (sharded / "llm.yaml").write_text(_YAML)
    index = sharded / "model.safetensors.index.json"
    _seed(output, "hf_index", index.name, index)
    index.unlink()
    _meta(output)


def _meta(output: Path) -> None:
    """A params.json, and beside it weights with upstream's own names."""
    beside = output / "meta_params" / "beside"
    beside.mkdir(parents=True)
    metadata = "\n  metadata: '{\"get_eos_ids\": [2]}'\n"
    (beside / "llm.yaml").write_text(_YAML + f"base:{metadata}")
    params = {"dim": 32, "n_heads": 4, "n_kv_heads": 2, "n_layers": 1, "hidden_dim": 48}
    params |= {"norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": -1, "use_scaled_rope": False}
    model = construct_transformer(ModelArgs(**{**params, "vocab_size": 16}))
    torch.save(model.state_dict(), beside / "model.pth")
    _written(output, "meta_params", "params.json").write_text(json.dumps(params))


def _other_data(path: Path) -> None:
    from etlink.container import Piece
    from etlink.data_file import describe_key

    piece = Piece.of(b"other")
    with open(path, "wb") as out:
        ptd.write(out, [(describe_key("of another file", piece, None), piece)])


def _without_torch(output: Path) -> None:
    config: dict[str, Any] = {
        "peft_type": "LORA",
        "r": 8,
        "lora_alpha": 16,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
        "layers_to_transform": [0, 1],
    }
    _written(output, "adapter_config", "list.json").write_text(json.dumps(config))
    config["target_modules"] = r".*\.(q_proj|v_proj)"
    _written(output, "adapter_config", "regex.json").write_text(json.dumps(config))


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


def _with_torch(output: Path) -> None:
    torch.manual_seed(0)
    net = _Net().eval()
    inputs = {"0": torch.zeros(3, 2, 3), "forward/1": torch.zeros(3, 1, dtype=torch.int64)}
    save_file(inputs, _written(output, "calibration", "two.safetensors"))
    torch.save(net.state_dict(), _written(output, "checkpoint", "net.pt"))
    torch.jit.script(net).save(_written(output, "checkpoint", "net.jit"))
    save_file(net.state_dict(), _written(output, "checkpoint", "net.safetensors"))
    _bundle(_written(output, "bundle", "net.bpte"), net)
    metadata = _gguf(_written(output, "gguf", "tiny.gguf"))
    tokenizer = build_tokenizer(metadata, "tiny.gguf")
    _written(output, "tokenizer", "tiny.json").write_text(tokenizer.to_str(pretty=False))
    text = json.dumps(build_config(metadata, "tiny.gguf"))
    _written(output, "chat_config", "tiny.json").write_text(text)


def _bundle(path: Path, net: torch.nn.Module) -> None:
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import (
        serialize_from_bundled_program_to_flatbuffer,
    )
    from executorch.exir import to_edge

    inputs = (torch.ones(2, 4),)
    program = to_edge(torch.export.export(net, inputs)).to_executorch()
    case = MethodTestCase(inputs=list(inputs), expected_outputs=[net(*inputs).detach()])
    suites = [MethodTestSuite(method_name="forward", test_cases=[case])]
    path.write_bytes(serialize_from_bundled_program_to_flatbuffer(BundledProgram(program, suites)))


def _gguf(path: Path) -> dict[str, Any]:
    """Writes a Llama model of one layer with a tokenizer; returns its metadata."""
    width, words = 32, ["<s>", "</s>", "a", "b", "ab"]
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in {
        "block_count": 1,
        "context_length": 8,
        "embedding_length": width,
        "feed_forward_length": width,
        "attention.head_count": 2,
        "rope.dimension_count": width // 2,
        "vocab_size": len(words),
    }.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(words)
    writer.add_token_types([3, 3, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(1)
    writer.add_chat_template("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}")
    square = np.zeros((width, width), np.float32)
    writer.add_tensor("token_embd.weight", square[: len(words)])
    writer.add_tensor("output_norm.weight", square[0])
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", square)
    quantized = gguf.quants.quantize(square, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor(
        "output.weight", quantized[: len(words)], raw_dtype=gguf.GGMLQuantizationType.Q8_0
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read_metadata(path)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--program", type=Path, nargs=4, action="append", required=True)
    options = parser.parse_args()
    make(options.output, options.program)


if __name__ == "__main__":
    main()
