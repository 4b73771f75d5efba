"""Small GGUF files, and the context of a model that is made of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import yaml
from etbuild import ModelContext

WIDTH, HEADS, KV_HEADS, HIDDEN, VOCABULARY, CONTEXT = 64, 4, 2, 96, 40, 32


@dataclass
class TinyModel:
    """The contents of a GGUF file; tests change them before they write it.

    Attributes:
      metadata: uint32, float32 and string values by key.
      tensors: float32 values by name, rows first.
      types: storage type by name; F32 where a tensor isn't named.
    """

    metadata: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    types: dict[str, gguf.GGMLQuantizationType] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        """Writes the file and returns its path."""
        writer = gguf.GGUFWriter(path, self.metadata["general.architecture"])
        for key, value in self.metadata.items():
            if key == "general.architecture":
                continue
            if isinstance(value, str):
                writer.add_string(key, value)
            elif isinstance(value, float):
                writer.add_float32(key, value)
            else:
                writer.add_uint32(key, value)
        for name, values in self.tensors.items():
            kind = self.types.get(name)
            if kind is None:
                writer.add_tensor(name, values)
            else:
                writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def _tiny(layers: int) -> TinyModel:
    random = np.random.default_rng(7)

    def values(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32) * np.float32(0.2)

    model = TinyModel()
    model.metadata = {
        "general.architecture": "llama",
        "llama.block_count": layers,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 2e-5,
        "llama.rope.freq_base": 5000.0,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.vocab_size": VOCABULARY,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": 5,
    }
    model.tensors["token_embd.weight"] = values(VOCABULARY, WIDTH)
    model.tensors["output_norm.weight"] = 1 + values(WIDTH)
    for block in (f"blk.{i}." for i in range(layers)):
        model.tensors |= {
            f"{block}attn_norm.weight": 1 + values(WIDTH),
            f"{block}attn_q.weight": values(WIDTH, WIDTH),
            f"{block}attn_k.weight": values(WIDTH * KV_HEADS // HEADS, WIDTH),
            f"{block}attn_v.weight": values(WIDTH * KV_HEADS // HEADS, WIDTH),
            f"{block}attn_output.weight": values(WIDTH, WIDTH),
            f"{block}ffn_norm.weight": 1 + values(WIDTH),
            f"{block}ffn_gate.weight": values(HIDDEN, WIDTH),
            f"{block}ffn_up.weight": values(HIDDEN, WIDTH),
            f"{block}ffn_down.weight": values(WIDTH, HIDDEN),
        }
    return model


@pytest.fixture
def tiny() -> TinyModel:
    """A Llama model of three layers with random weights."""
    return _tiny(layers=3)


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., ModelContext]:
    """A function from a TinyModel (or a file's path), settings and args to a ModelContext.

    Its `most` and `length` are the YAML file's max_seq_length and max_context_length, `methods` are
    names with commas; `files` are more files of the target.
    """

    def make(
        model: TinyModel | Path,
        *,
        most: int = 8,
        length: int = 16,
        methods: str = "",
        embedding: str = "",
        files: Mapping[str, Path] | None = None,
        **args: str,
    ) -> ModelContext:
        path = model if isinstance(model, Path) else model.write(tmp_path / "model.gguf")
        settings: dict[str, Any] = {
            "model": {"use_kv_cache": True},
            "export": {"max_seq_length": most, "max_context_length": length},
        }
        if embedding:
            settings["quantization"] = {"embedding_quantize": embedding}
        if methods:
            names = [{"method_name": name} for name in methods.split(",")]
            settings["multimethod"] = {"methods": names, "share_mutable_buffers": True}
        config = tmp_path / "llm.yaml"
        config.write_text(yaml.safe_dump(settings))
        data = {"tiny/model.gguf": path, "tiny/llm.yaml": config, **(files or {})}
        return ModelContext({"backends": "portable"} | args, data, "//m:llama")

    return make
