"""What a method changes is state that begins with the model's values, or the program isn't built.

Of a buffer that a method changes ExecuTorch stores no values, unless a pass of the recipe says so:
its runtime begins with zeros. A parameter or an input that a method changes becomes an output
before those of the model. Neither says a word, and both give wrong results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from etbuild import BuildError
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

# What else than buffers a method may change, and what to do instead.
_OTHERS = {
    OutputKind.PARAMETER_MUTATION: ("parameter", "Make it a buffer (register_buffer)."),
    OutputKind.USER_INPUT_MUTATION: ("input", "Change a copy of it (clone), and return that."),
}


def check(manager: Any, methods: Iterable[str], label: str) -> None:
    """Fails where a program's state would not be that of the model.

    Args:
      manager: upstream's ExecutorchProgramManager.
      methods: names of those that were exported.
      label: of the model.

    Raises:
      BuildError: a method changes a parameter or an input, or a buffer that begins with other
        values than zeros and isn't stored.
    """
    for method in methods:
        program = manager.exported_program(method)
        for output in program.graph_signature.output_specs:
            if output.kind in _OTHERS:
                kind, instead = _OTHERS[output.kind]
                raise BuildError(
                    f'{label}: the method "{method}" changes the {kind} "{output.target}": '
                    "ExecuTorch would give it as an output, before those of the model.",
                    instead,
                )
        buffers = dict(_lost(program))
        if buffers:
            names = ", ".join(f'"{name}"' for name in sorted(buffers))
            patterns = json.dumps(sorted(buffers.values()))
            raise BuildError(
                f'{label}: the method "{method}" changes {names}, which would begin with zeros, '
                "expected the model's values: ExecuTorch does not store those of a buffer that "
                "changes.",
                f"Let the recipe store them, by the pass InitializedMutableBufferPass({patterns}) "
                "in its executorch_backend_config (docs/howto/recipes.md), or begin with zeros.",
            )


def _lost(program: ExportedProgram) -> Iterator[tuple[str, str]]:
    """Buffers whose values are lost, by name, with the name that upstream's pass knows."""
    buffers = program.graph_signature.inputs_to_buffers
    for node in program.graph.find_nodes(op="placeholder"):
        name = buffers.get(node.name)
        # The emitter notes what it stores.
        if name is not None and not node.meta["spec"].const:
            owner = program.state_dict if name in program.state_dict else program.constants
            if _nonzero(owner[name]):
                yield name, node.name.removeprefix("b_")


def _nonzero(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a byte that is not zero, whatever its type."""
    return bool(tensor.detach().contiguous().reshape(-1).view(torch.uint8).any())
