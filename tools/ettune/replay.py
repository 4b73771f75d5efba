"""Runs of a model that begin at a layer: what came before it is taken from an earlier run.

A layer that is replaced changes nothing that was computed before its first call. So a recording
keeps the output of every call of a module, in the order in which the calls began, and a replay
returns these outputs until the replaced layer is called. On average that halves the work, and a
layer near the end costs almost nothing.

The invariant: a call that ended before the first call of a replaced layer began has the same
output in both runs. State would break it, so buffers (a KV cache) are put back before each run. A
call that does more than to return new tensors is never left out: one that changes its inputs or a
buffer in place, one that returns an input or a buffer, and one that has arguments of other kinds,
such as a cache.
A layer whose weight is used without a call of the layer is never seen: the replay then runs all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from etlower.inputs import deep_copy
from etlower.outputs import leaves
from etlower.replacing import replaced


@dataclass(frozen=True)
class Sample:
    """Inputs of a method.

    Attributes:
      method: its name.
      inputs: positional arguments.
      next_tokens: of a language model: the token that follows each one of the input.
    """

    method: str
    inputs: tuple[Any, ...]
    next_tokens: tuple[int, ...] = ()


@dataclass
class _Call:
    """A call of a module: it and the calls within it have the numbers from its own up to `end`.

    Attributes:
      output: a copy of what it returned.
      end: number of the next call behind it.
      pure: whether it did nothing but to return new tensors.
    """

    output: Any
    end: int
    pure: bool


@dataclass
class _Run:
    """The calls of one sample, by number, and the number of each module's first call."""

    calls: dict[int, _Call] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """A run of all samples.

    Attributes:
      outputs: for each sample the tensors and numbers that the method returned, flat.
    """

    outputs: list[list[Any]]
    runs: list[_Run]


class Replay:
    """Runs a model's methods on samples, whole or from a layer on.

    Args:
      methods: modules by name; their layers may be replaced between runs.
      samples: what they run on.
    """

    def __init__(self, methods: Mapping[str, torch.nn.Module], samples: Sequence[Sample]) -> None:
        self._methods = methods
        self._samples = samples
        self._state = _State(methods.values())

    def record(self, see: Callable[[Any, tuple[Any, ...], Any], None] | None = None) -> Recording:
        """Runs all samples and keeps the output of each call.

        Args:
          see: is told of each call before it: module, positional arguments, keywords.
        """
        runs, outputs = [], []
        for sample in self._samples:
            run = _Run()
            outputs.append(self._outputs(sample, _recorder(run, see, self._state.buffers)))
            runs.append(run)
        return Recording(outputs, runs)

    def run(self, before: Recording, replaced_layers: Iterable[torch.nn.Module]) -> list[list[Any]]:
        """The outputs, where some layers are other ones than in a recording.

        Args:
          before: the recording.
          replaced_layers: the modules that were in their places then.
        """
        layers = [id(layer) for layer in replaced_layers]
        return [
            self._outputs(sample, _replayer(run, min(run.first.get(i, 0) for i in layers)))
            for sample, run in zip(self._samples, before.runs, strict=True)
        ]

    def _outputs(self, sample: Sample, call: Callable[..., Any]) -> list[Any]:
        self._state.restore()
        with torch.no_grad(), replaced((torch.nn.Module, "__call__", call)):
            returned = self._methods[sample.method](*deep_copy(sample.inputs))
        outputs = _copied(leaves(returned))
        self._state.restore()
        return outputs


def _recorder(
    run: _Run,
    see: Callable[[Any, tuple[Any, ...], Any], None] | None,
    buffers: Callable[[], list[torch.Tensor]],
) -> Any:
    original = torch.nn.Module.__call__
    count = 0

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        number, count = count, count + 1
        run.first.setdefault(id(self), number)
        if see is not None:
            see(self, args, kwargs)
        before = _Before([*args, *kwargs.values()], buffers())
        output = original(self, *args, **kwargs)
        run.calls[number] = _Call(_copied(output), count, before.is_pure(output, buffers()))
        return output

    return call


def _replayer(run: _Run, first: int) -> Any:
    original = torch.nn.Module.__call__
    count = 0

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        known = run.calls.get(count) if count < first else None
        if known is not None and known.pure and known.end <= first:
            count = known.end
            return _copied(known.output)
        count += 1
        return original(self, *args, **kwargs)

    return call


# Arguments that a call cannot change.
_PLAIN = (int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, type(None))


class _Before:
    """Everything that a call could change, as it is before the call."""

    def __init__(self, arguments: Any, buffers: Sequence[torch.Tensor]) -> None:
        parts = leaves(arguments)
        self._tensors = [part for part in parts if isinstance(part, torch.Tensor)]
        self._known = all(isinstance(part, (torch.Tensor, *_PLAIN)) for part in parts)
        self._buffers = list(buffers)
        self._versions = [_version(tensor) for tensor in (*self._tensors, *self._buffers)]

    def is_pure(self, output: Any, buffers: Sequence[torch.Tensor]) -> bool:
        """Returns whether nothing has changed, and the output shares no memory with anything."""
        if not self._known or [*map(id, buffers)] != [*map(id, self._buffers)]:
            return False
        held = (*self._tensors, *self._buffers)
        if [_version(tensor) for tensor in held] != self._versions:
            return False
        parts = leaves(output)
        memory = [_memory(part) for part in parts if isinstance(part, torch.Tensor)]
        is_new = len(set(memory)) == len(memory) and not set(memory) & set(map(_memory, held))
        return is_new and all(isinstance(part, (torch.Tensor, *_PLAIN)) for part in parts)


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _copied(value: Any) -> Any:
    """A copy of tensors in containers: callers may change them in place."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, value)


class _State:
    """The buffers of modules, to put back."""

    def __init__(self, modules: Iterable[torch.nn.Module]) -> None:
        self._before = {
            (id(module), name): (module, name, buffer, buffer.detach().clone())
            for root in modules
            for module in root.modules()
            for name, buffer in module._buffers.items()
            if buffer is not None
        }

    def buffers(self) -> list[torch.Tensor]:
        """Returns what the modules have as their buffers now."""
        return [module._buffers[name] for module, name, _, _ in self._before.values()]

    def restore(self) -> None:
        """Gives each module its own buffers, with the values that they had."""
        for module, name, buffer, values in self._before.values():
            module._buffers[name] = buffer
            buffer.detach().copy_(values)
