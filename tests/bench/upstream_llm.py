"""Upstream's export_llm without hydra, for the benchmarks `export_llm` and `speed`.

    upstream_llm prepare --gguf FILE --layers N --folder FOLDER
    upstream_llm export --config FILE --folder FOLDER --program FILE

The first writes a checkpoint as upstream reads it; the second does all that
`executorch.extension.llm.export.export_llm` does once hydra has read the YAML file.
"""

from __future__ import annotations

import argparse
import json
import sys
import types
from pathlib import Path

_SIZES = (
    "dim",
    "n_layers",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "hidden_dim",
    "vocab_size",
    "norm_eps",
    "rope_theta",
)


def main() -> None:
    """Converts the checkpoint or exports, by the command line."""
    parser = argparse.ArgumentParser(prog="upstream_llm")
    parser.add_argument("command", choices=("prepare", "export"))
    parser.add_argument("--config", type=Path)
    parser.add_argument("--program", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--layers", type=int, default=0)
    given = parser.parse_args()
    if given.command == "prepare":
        _prepare(given.gguf, given.layers, given.folder)
    else:
        _export(given.config, given.folder, given.program)


def _prepare(gguf: Path, layers: int, folder: Path) -> None:
    """Writes checkpoint.pth, of float32, and params.json."""
    import torch
    from etllm import decoder, gguf_checkpoint
    from etllm.gguf_file import GgufFile
    from etllm.hf_config import Sizes

    file = GgufFile(gguf)
    its = gguf_checkpoint.architecture(file, Sizes(context=512, most=128, layers=layers), str(gguf))
    names = decoder.construct(its.args).named_parameters()
    weights = {n: gguf_checkpoint.weight(file, n, p.shape).clone() for n, p in names}
    torch.save(weights, folder / "checkpoint.pth")
    sizes = {name: getattr(its.args, name) for name in _SIZES}
    (folder / "params.json").write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")


def _export(config: Path, folder: Path, program: Path) -> None:
    """Calls upstream's function with the file's configuration and an existing checkpoint."""
    # Only for downloads, and not among the exporter's packages.
    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = lambda *a, **k: sys.exit("upstream has asked for a download")
    sys.modules["huggingface_hub"] = hub
    from executorch.examples.models.llama.export_llama_lib import export_llama
    from executorch.extension.llm.export.config.llm_config import LlmConfig
    from omegaconf import OmegaConf

    # As upstream's hydra_main does.
    merged = OmegaConf.merge(OmegaConf.structured(LlmConfig), OmegaConf.load(config))
    wanted = OmegaConf.to_object(merged)
    wanted.base.checkpoint = str(folder / "checkpoint.pth")
    wanted.base.params = str(folder / "params.json")
    wanted.export.output_dir = str(program.parent)
    # A name that ends so is taken as a path.
    wanted.export.output_name = str(program.absolute())
    export_llama(wanted)


if __name__ == "__main__":
    main()
