"""Writes a checkpoint of the shapes of Llama 3.2 1B with random weights, 2.1 GB of bfloat16.

The vocabulary has 49,152 entries. The same arguments give the same bytes. The tokenizer is that of
the tiny checkpoints: the program is only lowered.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
import tiny_checkpoint as tiny

_VOCABULARY = 49_152
_SIZES = {
    "WIDTH": 2048,
    "HEADS": 32,
    "KV_HEADS": 8,
    "HEAD": 64,
    "HIDDEN": 8192,
    "LAYERS": 16,
    "CONTEXT": 2048,
}


def main() -> None:
    """Writes the files into the folder on the command line."""
    folder = Path(sys.argv[1])
    tiny.write("llama", folder)
    for name, size in _SIZES.items():
        setattr(tiny, name, size)
    config = tiny.config("llama", _VOCABULARY) | {"tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    shapes = tiny.shapes("llama", _VOCABULARY)
    del shapes["lm_head.weight"]
    _write(folder / "model.safetensors", dict(sorted(shapes.items())))


def _write(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    numbers = np.random.Generator(np.random.PCG64(0))
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            values = numbers.standard_normal(shape, np.float32) * np.float32(0.02)
            # The upper half of a float32 is a bfloat16.
            out.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())


if __name__ == "__main__":
    main()
