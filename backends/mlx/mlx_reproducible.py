"""Makes the keys of MLX's weights the same on all machines.

Upstream (1.5.1) puts four digits before each key, so that weights of two parts of a program with
one name have two keys: a hash of the part's text, where paths of source files are. Here they are
a hash of the part's calls, weights and constants: parts that compute the same with other weights
would have one key, and upstream fails.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import torch
from torch.export import ExportedProgram

_DIGITS = 16


def install(upstream: Any) -> None:
    """Has, for this process, upstream's module `preprocess` make such keys."""
    inner = upstream.MLXProgramBuilder
    if isinstance(inner, functools.partial):
        return

    def build(_inner: Any, program: ExportedProgram, named_data_key_prefix: str) -> Any:
        return _inner(program, named_data_key_prefix=prefix(program))

    upstream.MLXProgramBuilder = functools.partial(build, inner)


def prefix(program: ExportedProgram) -> str:
    """Hexadecimal digits that tell the parts of a program."""
    digest = hashlib.sha256()
    for node in program.graph.nodes:
        digest.update(f"{node.format_node()}\n".encode())
    for name, value in sorted({**program.state_dict, **program.constants}.items()):
        digest.update(name.encode())
        if isinstance(value, torch.Tensor):
            flat = value.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy())
    return digest.hexdigest()[:_DIGITS]
