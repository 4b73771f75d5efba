"""What the linker needs and a .pte file doesn't say: alignments, names of weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from etlink import ptd, pte, tables
from etlink.ptd import Layout
from etlink.split import Hints


class WeightNames:
    """Watches upstream's emitter for which value of a method is which weight.

    Upstream keeps names only of tensors that it puts outside of the program
    (executorch/exir/emit/_emitter.py, `_TopLevelEmitter.placeholder`).
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], str] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Records while programs are emitted; an emitter of another shape is left alone."""
        from executorch.exir.emit import _emitter

        emitter = getattr(_emitter, "_TopLevelEmitter", None)
        original = getattr(emitter, "placeholder", None)
        if emitter is None or original is None:
            yield
            return
        names = self

        def placeholder(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
            value = original(self, target, args, kwargs)
            signature = self.exported_program.graph_signature
            weight = signature.inputs_to_parameters.get(
                target, signature.inputs_to_buffers.get(target)
            )
            if weight is not None:
                names.found[(self.name, value.id)] = weight
            return value

        emitter.placeholder = placeholder
        try:
            yield
        finally:
            emitter.placeholder = original


def hints(manager: Any, names: WeightNames, program: Path, scratch: Path, config: Any) -> Hints:
    """What is known about a program beside its file.

    Args:
      manager: upstream's ExecutorchProgramManager.
      names: what was recorded while it was emitted.
      program: its .pte file.
      scratch: folder for data files that the recipe itself moved out of the program.
      config: upstream's ExecutorchBackendConfig.
    """
    tables_of = pte.read(program).program
    plans = {tables.text(plan.name): n for n, plan in enumerate(tables_of.executionPlan)}
    constants = {(p, v) for p, v, tensor in tables.tensors(tables_of) if tables.is_constant(tensor)}
    tensors = {
        (plans[method], value): name
        for (method, value), name in names.found.items()
        if method in plans and (plans[method], value) in constants
    }
    named = manager._named_data
    alignments: dict[str, int] = {}
    layouts: dict[str, Layout] = {}
    for key, entry in (named.pte_data if named else {}).items():
        alignments[key] = entry.alignment
        if entry.tensor_layout is not None:
            layouts[key] = _layout(entry.tensor_layout)
    return Hints(
        alignments=alignments,
        layouts=layouts,
        tensors=tensors,
        external=_external(manager, scratch),
        segment_alignment=config.segment_alignment,
        tensor_alignment=config.constant_tensor_alignment or 16,
    )


def _layout(layout: Any) -> Layout:
    return Layout(int(layout.scalar_type), tuple(layout.sizes), tuple(layout.dim_order))


def _external(manager: Any, scratch: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, (tag, cord) in enumerate(sorted(manager._tensor_data.items())):
        path = scratch / f"external{number}.ptd"
        with open(path, "wb") as out:
            cord.write_to_file(out)
        for key, (piece, layout) in ptd.read(path).items():
            found[key] = (tag, piece, 1, layout)
    return found
