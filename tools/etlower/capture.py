"""Records what the linker needs and a .pte file does not say: alignments, names of weights.

Programs share weights by name and content, and a program's file keeps neither reliably: XNNPACK's
payloads have bytes only, constants of ExecuTorch's own kernels have numbers, and quantization
replaces weights by constants that it counts. Upstream knows each name for a moment while it lowers.
So functions of upstream are replaced, for the time of one lowering, by ones that record what passes
through and call the original with the same arguments: recording changes no byte of the program.

Three sources are put together in `hints`. The emitter's placeholders give the names of constants by
method and value (`WeightNames.by_value`). XNNPACK's visitors give those inside payloads
(`names.py`). All other backends store a weight's bytes as they are, so the digest of each exported
weight leads to its name (`WeightNames.weights`).

A version of upstream without one of these functions is left alone: its weights have no names then,
the program stays right, and less of it is shared. What would break this is a function that is still
there with other parameters, or a call that moves past the recorder; the linker's tests of names
fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from etlink import ptd, pte, schema, tables
from etlink.named_data import Layout
from etlink.split import Hints, Weight

from etlower.names import FoldedNames, ModelNames, digest, watching_xnnpack
from etlower.replacing import replaced


class WeightNames:
    """Watches upstream for the names of weights, which a program's file doesn't keep.

    Args:
      models: the model's modules or exported programs, as its author made them.

    Attributes:
      model: what its weights are called.
      by_value: (method, value) of a tensor to its qualified name.
      folded_from: the same to the weight that quantization folded into it, where it did.
      payloads: sha256 of a delegate's payload to the names of its constants, one list for each
        delegate of these bytes.
      folded: names of weights that were folded into constants.
      programs: weights and constants of the exported programs by method.
    """

    def __init__(self, models: Iterable[Any] = ()) -> None:
        self.model = ModelNames(models)
        self.by_value: dict[tuple[str, int], str] = {}
        self.folded_from: dict[tuple[str, int], str] = {}
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
            stack.enter_context(watching_xnnpack(self.payloads, self.folded))
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
                key = (self.name, value.id)
                names.by_value[key] = names.model.plain(weight)
                if not names.model.is_stable(weight):
                    program = self.exported_program
                    value_of = {**program.constants, **program.state_dict}.get(weight)
                    names.folded_from[key] = names.folded.name(weight, value_of)
            return value

        return replaced((emitter, "placeholder", placeholder))

    def weights(self, sizes: Set[int]) -> dict[str, list[Weight]]:
        """The exported weights by the sha256 of their bytes.

        Backends that take a weight's bytes as they are store it under this digest, so that its name
        is known without watching them.

        Args:
          sizes: in bytes; weights of other sizes, which can't be what is looked for, are left out.
        """
        by_digest: dict[str, list[Weight]] = {}
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
                    if blob and weight not in by_digest.setdefault(blob, []):
                        by_digest[blob].append(weight)
        return by_digest


def _as_stored(tensor: Any, sizes: Set[int]) -> list[Any]:
    """A weight as backends store it, as it is or in half precision, where its size is asked for."""
    import torch

    size = tensor.numel() * tensor.element_size()
    stored = [tensor] if size in sizes else []
    if tensor.dtype == torch.float32 and size // 2 in sizes:
        stored.append(tensor.half())
    return stored


def hints(manager: Any, names: WeightNames, program: Path, scratch: Path, config: Any) -> Hints:
    """Returns what is known about a program beside its file.

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

    def by_plan(by_value: Mapping[tuple[str, int], str]) -> dict[tuple[int, int], str]:
        return {
            (plans[method], value): name
            for (method, value), name in by_value.items()
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
        payloads={blob: tuple(lists) for blob, lists in names.payloads.items()},
        tensors=by_plan(names.by_value),
        own=names.model.own,
        folded=by_plan(names.folded_from),
        external=_external(manager, scratch),
        segment_alignment=config.segment_alignment,
        tensor_alignment=config.constant_tensor_alignment or schema.INLINE_ALIGNMENT,
        delegate_alignment=config.delegate_alignment or schema.INLINE_ALIGNMENT,
    )


def _layout(layout: Any) -> Layout:
    return Layout(int(layout.scalar_type), tuple(layout.sizes), tuple(layout.dim_order))


def _external(manager: Any, scratch: Path) -> dict[str, Any]:
    external: dict[str, Any] = {}
    for number, (tag, cord) in enumerate(sorted(manager._tensor_data.items())):
        path = scratch / f"external{number}.ptd"
        with open(path, "wb") as out:
            cord.write_to_file(out)
        for key, (piece, layout) in ptd.read(path).items():
            external[key] = (tag, piece, 1, layout)
    return external
