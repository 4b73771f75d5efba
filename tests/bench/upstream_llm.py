"""Upstream's export_llm without hydra, for the benchmarks `export_llm` and `speed`.

    upstream_llm prepare --data NAME=FILE [--data NAME=FILE ...] --layers N --folder FOLDER
    upstream_llm export --config FILE --folder FOLDER --program FILE

The first writes a checkpoint as upstream reads it; the second does all that
`executorch.extension.llm.export.export_llm` does once hydra has read the YAML file.
"""

from __future__ import annotations

import argparse
import json
import sys
import types
from collections.abc import Mapping
from pathlib import Path

PARAMS = "params.json"
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
    parser.add_argument("--data", action="append", help="a file of the checkpoint: NAME=FILE")
    parser.add_argument("--layers", type=int, default=0, help="0: all")
    given = parser.parse_args()
    if given.command == "prepare":
        data = dict(entry.rsplit("=", 1) for entry in given.data)
        files = {name: Path(path) for name, path in data.items()}
        _prepare(files, given.layers, given.folder)
    else:
        _export(given.config, given.folder, given.program)


def _prepare(files: Mapping[str, Path], layers: int, folder: Path) -> None:
    """Writes checkpoint.pth, of float32, and params.json."""
    import torch
    from etbuild import ModelContext
    from etllm import decoder
    from etllm.checkpoint import open_checkpoint
    from etllm.hf_config import Sizes

    context = ModelContext({}, files, "//tests/bench:upstream_llm")
    checkpoint = open_checkpoint(context, Sizes(context=512, most=128, layers=layers))
    arch = checkpoint.architecture
    names = decoder.construct(arch.args).named_parameters()
    weights = {n: checkpoint.weight(n, p.shape).clone() for n, p in names}
    torch.save(weights, folder / "checkpoint.pth")
    sizes = {name: getattr(arch.args, name) for name in _SIZES}
    (folder / PARAMS).write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")


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
    wanted.base.params = str(folder / PARAMS)
    wanted.export.output_dir = str(program.parent)
    # A name that ends so is taken as a path.
    wanted.export.output_name = str(program.absolute())
    export_llama(wanted)


if __name__ == "__main__":
    main()
