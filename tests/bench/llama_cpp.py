"""The same weights in llama.cpp, by node-llama-cpp's prebuilt binaries.

They are not fetched by the build: `npm install --ignore-scripts node-llama-cpp
@node-llama-cpp/linux-x64` in a folder of your own, and node on PATH, is what the benchmark of speed
takes for its rows.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import gguf
import numpy as np

_SCRIPT = Path(__file__).with_name("llama_cpp.mjs")
# Its embedding is the output, too: llama.cpp's own Q4_0 files have more bits there.
_OUTPUT = "token_embd.weight"


def version(modules: Path) -> str:
    """The version of node-llama-cpp, "3.22.1"."""
    package = modules / "node-llama-cpp" / "package.json"
    return json.loads(package.read_text(encoding="utf-8"))["version"]


def write_q4_0(source: Path, path: Path) -> None:
    """Writes the weights of a GGUF file again: matrices in Q4_0, the embedding in Q8_0.

    llama.cpp has kernels for repacked weights in Q4_0.
    """
    read = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, read.fields["general.architecture"].contents())
    for name, field in read.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, field.contents())
        else:
            writer.add_key_value(name, field.contents(), field.types[0])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    for tensor in read.tensors:
        shape = tuple(int(size) for size in reversed(tensor.shape))
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if len(shape) != 2:
            writer.add_tensor(tensor.name, values.reshape(shape))
            continue
        types = gguf.GGMLQuantizationType
        kind = types.Q8_0 if tensor.name == _OUTPUT else types.Q4_0
        quantized = gguf.quants.quantize(values.reshape(shape), kind)
        writer.add_tensor(tensor.name, quantized, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run(
    modules: Path, model: Path, context: int, prompt: int, written: int, threads: int
) -> dict[str, float]:
    """Reads a prompt and writes tokens.

    Args:
      modules: folder node_modules.
      model: a GGUF file.
      context: size of the context, in tokens.
      prompt: tokens to read.
      written: tokens to write.
      threads: how many of them compute.

    Returns:
      "read" and "write": tokens per second.
    """
    numbers = map(str, (context, prompt, written, threads))
    command = ["node", str(_SCRIPT), str(modules), str(model), *numbers]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.rstrip().rpartition("\n")[2])
