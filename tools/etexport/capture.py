"""What the linker needs and a .pte file doesn't say: alignments, names of weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from etlink import ptd, pte, schema, tables
from etlink.named_data import Layout
from etlink.split import Hints, Weight

from etexport import xnnpack_names
from etexport.folded import FoldedNames, digest
from etexport.names import ModelNames
from etexport.replaced import replaced


class WeightNames:
    """Watches upstream for the names of weights, which a program's file doesn't keep.

    Args:
      models: the model's modules or exported programs, as its author made them.

    Attributes:
      model: what its weights are called.
      found: (method, value) of a tensor to its qualified name.
      made_from: the same to the weight that quantization folded into it, where it did.
      payloads: sha256 of a delegate's payload to the names of its constants, one list for each
        delegate of these bytes.
      folded: names of weights that were folded into constants.
      programs: weights and constants of the exported programs by method.
    """

    def __init__(self, models: Iterable[Any] = ()) -> None:
        self.model = ModelNames(models)
        self.found: dict[tuple[str, int], str] = {}
        self.made_from: dict[tuple[str, int], str] = {}
        self.payloads: dict[str, list[tuple[str, ...]]] = {}
        self.programs: Mapping[str, Any] = {}
        self.folded = FoldedNames(self.model)

    def keep(self, programs: Mapping[str, Any]) -> None:
        """Keeps the exported programs until their weights have been compared with named data."""
        self.programs = {
            name: (dict(program.state_dict), dict(program.constants))
            for name, program in programs.items()
        }

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Records while programs are lowered and emitted; unknown versions are left alone."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._watching_emitter())
            stack.enter_context(self.folded.watching())
            stack.enter_context(xnnpack_names.watching(self.payloads, self.folded))
            yield

    def _watching_emitter(self) -> contextlib.AbstractContextManager[None]:
        """Records the tensors that upstream's emitter sees.

        Source: executorch/exir/emit/_emitter.py, `_TopLevelEmitter.placeholder`.
        """
        from executorch.exir.emit import _emitter

        emitter = getattr(_emitter, "_TopLevelEmitter", None)
        original = getattr(emitter, "placeholder", None)
        if original is None:
            return contextlib.nullcontext()
        names = self

        def placeholder(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
            value = original(self, target, args, kwargs)
            signature = self.exported_program.graph_signature
            weight = signature.inputs_to_parameters.get(
                target, signature.inputs_to_buffers.get(target)
            )
            if weight is not None:
                place = (self.name, value.id)
                names.found[place] = names.model.plain(weight)
                if not names.model.is_stable(weight):
                    program = self.exported_program
                    value_of = {**program.constants, **program.state_dict}.get(weight)
                    names.made_from[place] = names.folded.name(weight, value_of)
            return value

        return replaced(emitter, "placeholder", placeholder)

    def weights(self, sizes: Set[int]) -> dict[str, list[Weight]]:
        """The exported weights by the sha256 of their bytes.

        Backends that take a weight's bytes as they are store it under this digest, so that its name
        is known without watching them.

        Args:
          sizes: in bytes; weights of other sizes, which can't be what is looked for, are left out.
        """
        found: dict[str, list[Weight]] = {}
        seen: set[tuple[int, str]] = set()
        for state, constants in self.programs.values():
            tensors = {**constants, **state}
            for name, tensor in sorted(tensors.items()):
                if not hasattr(tensor, "untyped_storage") or (id(tensor), name) in seen:
                    continue
                seen.add((id(tensor), name))
                for stored in _as_stored(tensor, sizes):
                    dtype = str(stored.dtype).removeprefix("torch.")
                    weight = Weight(self.model.plain(name), dtype, tuple(tensor.shape))
                    blob = digest(stored)
                    if blob and weight not in found.setdefault(blob, []):
                        found[blob].append(weight)
        return found


def _as_stored(tensor: Any, sizes: Set[int]) -> list[Any]:
    """A weight as backends store it, as it is or in half precision, where its size is asked for."""
    import torch

    size = tensor.numel() * tensor.element_size()
    stored = [tensor] if size in sizes else []
    if tensor.dtype == torch.float32 and size // 2 in sizes:
        stored.append(tensor.half())
    return stored


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

    def placed(found: Mapping[tuple[str, int], str]) -> dict[tuple[int, int], str]:
        return {
            (plans[method], value): name
            for (method, value), name in found.items()
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
        weights=names.weights,
        payloads={blob: tuple(found) for blob, found in names.payloads.items()},
        tensors=placed(names.found),
        own=names.model.own,
        folded=placed(names.made_from),
        external=_external(manager, scratch),
        segment_alignment=config.segment_alignment,
        tensor_alignment=config.constant_tensor_alignment or schema.INLINE_ALIGNMENT,
        delegate_alignment=config.delegate_alignment or schema.INLINE_ALIGNMENT,
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
