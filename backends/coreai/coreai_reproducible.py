"""Makes Core AI's compiler write the same bytes for the same model.

coreai-core 1.0.0b2 names weights by a hash that is seeded per process, gives functions random
names, and writes the date into the asset; coreai-torch 0.4.2 records the paths of the sources that
a model was traced from.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import random
import re
from pathlib import Path
from typing import Any

import coreai_torch
from executorch.backends.apple.coreai.compiler import preprocess

# Modules that draw the ends of functions' names. Their packages hide them behind functions of the
# same names.
_NAMING = ("coreai._compiler.dialects.coreai.graph", "coreai._compiler.dialects.udml.func")

# What the compiler calls weights.
_RESOURCE = re.compile(r"resource_[0-9]+(?:_[0-9]+)?")

_METADATA = "metadata.json"
_PROGRAM = "main.mlirb"
_PROGRAM_HASH = "main.hash"


def install() -> None:
    """Replaces functions of upstream's and of the compiler's; more than once does no harm."""
    preprocess._convert_to_aiprogram = _converted
    preprocess._save_and_hash = _saved


def _converted(edge_program: Any) -> Any:
    draw = random.Random(0).choice
    for name in _NAMING:
        importlib.import_module(name).choice = draw
    converter = coreai_torch.TorchConverter(mode=coreai_torch.TorchConverter.Mode.RELEASE)
    converter.add_exported_program(preprocess._prepare_program_for_conversion(edge_program))
    program = converter.to_coreai()
    program._mlir_module = _renamed(program._mlir_module)
    return program


def _renamed(module: Any) -> Any:
    """The module, its weights named by the order of their use."""
    text = module.operation.get_asm(enable_debug_info=True)
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"weights_{len(names)}")

    return type(module).parse(_RESOURCE.sub(rename, text), module.context)


def _saved(program: Any, path: Path, min_os: Any = None) -> str:
    """As upstream's: saves an asset and returns the hash of its program."""
    preprocess._save_asset(program, path, min_os)
    metadata = json.loads((path / _METADATA).read_text(encoding="utf-8"))
    metadata.pop("creationDate", None)
    (path / _METADATA).write_text(json.dumps(metadata, indent=2, sort_keys=True), encoding="utf-8")
    digest = hashlib.sha256((path / _PROGRAM).read_bytes()).digest()
    (path / _PROGRAM_HASH).write_bytes(digest)
    return digest.hex()
