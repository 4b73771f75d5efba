"""Rejects programs whose mutable buffers would not start with the model's values.

A program keeps buffers between calls, and nothing else. Upstream says no word where a model's
forward changes more, or other things, than the program does:

- of a buffer that a method changes ExecuTorch stores no values, unless a pass of the recipe says
  so: its runtime begins with zeros;
- a parameter or an input that a method changes becomes an output before those of the model;
- a buffer that forward assigns (`self.h = …`) is lost by a strict export, and what forward changes
  in other attributes (a number that counts, a tensor that is no buffer) by every export;
- `share_mutable_buffers` pairs the buffers of methods by name, whatever modules they are of.

So each method's eager module runs, on a copy, before it is exported: what its calls change is
compared with what the program changes.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from etlower import memories
from etlower.eager import eager, with_own_state
from etlower.inputs import deep_copy
from etlower.outputs import leaves

# What else than buffers a method may change, and what to do instead.
_OTHERS = {
    OutputKind.PARAMETER_MUTATION: ("parameter", "Make it a buffer (register_buffer)."),
    OutputKind.USER_INPUT_MUTATION: ("input", "Change a copy of it (clone), and return that."),
}
# Attributes that all modules have, which torch itself changes.
_OF_TORCH = frozenset(vars(torch.nn.Module()))
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def exportable(spec: ModelSpec, label: str) -> tuple[ModelSpec, dict[str, set[str]]]:
    """Runs the eager modules, to find what they change.

    Args:
      spec: the model; it stays unchanged.
      label: of the model.

    Returns:
      The model, whose methods are not exported strictly if they assign buffers; and by method, the
      names of the buffers that a call changes.

    Raises:
      BuildError: later calls depend on an attribute that forward changes and that is no buffer.
    """
    methods, changes = {}, {}
    for name, method in spec.methods.items():
        calls = _Calls(method)
        if calls.first is not None:
            _check_attributes(calls, name, label)
            changes[name] = {n for n in calls.changed if n in calls.buffers}
            if calls.assigned:
                method = dataclasses.replace(method, strict=False)
        methods[name] = method
    return dataclasses.replace(spec, methods=methods), changes


def kept(program: ExportedProgram) -> ExportedProgram:
    """The same program with its own tables of weights: MLX's compiler frees those that it wrote."""
    other = copy.copy(program)
    other._state_dict, other._constants = dict(program.state_dict), dict(program.constants)
    return other


def check(
    manager: Any,
    programs: Mapping[str, ExportedProgram],
    changes: Mapping[str, Collection[str]],
    label: str,
) -> None:
    """Fails where a program's state would not be that of the model.

    Args:
      manager: upstream's ExecutorchProgramManager.
      programs: by method, as they were exported.
      changes: by method, names of the buffers that the eager module changes.
      label: of the model.

    Raises:
      BuildError: a method changes a parameter or an input, or a buffer that begins with other
        values than zeros and isn't stored; or it loses what the model changes.
    """
    for method, before in programs.items():
        program = manager.exported_program(method)
        check_others(method, program, label)
        for name in sorted(set(changes.get(method, ())) - _changed_by(program)):
            # A delegate may have taken it over.
            if name in _changed_by(before.run_decompositions({})):
                continue
            raise BuildError(
                f'{label}: the method "{method}" changes the buffer "{name}", and its export does '
                "not: later calls of the program would give other outputs than the model's.",
                f"Write into the buffer, as in self.{name}.copy_(…).",
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


def check_before_quantization(method: str, program: ExportedProgram, label: str) -> None:
    """Fails where a method changes an input: conversions to 8 bits would hide it.

    Calibration reads the same inputs several times, and would read what was changed.

    Args:
      method: its name.
      program: as it was exported.
      label: of the model.

    Raises:
      BuildError: a method changes a parameter or an input.
    """
    nodes = list(program.graph.nodes)
    buffers = program.graph_signature.inputs_to_buffers
    others = [node for node in nodes if node.op == "placeholder" and node.name not in buffers]
    memory = {each for node in others for each in memories.of(node)}
    if any(not memory.isdisjoint(memories.written(node)) for node in nodes):
        program = program.run_decompositions({})
    check_others(method, program, label)


def check_others(method: str, program: ExportedProgram, label: str) -> None:
    """Fails where a functional method changes a parameter or an input.

    Args:
      method: its name.
      program: of functional operators.
      label: of the model.

    Raises:
      BuildError: the first of them.
    """
    for output in program.graph_signature.output_specs:
        if output.kind in _OTHERS:
            kind, instead = _OTHERS[output.kind]
            raise BuildError(
                f'{label}: the method "{method}" changes the {kind} "{output.target}": '
                "ExecuTorch would give it as an output, before those of the model.",
                instead,
            )


def check_shared(spec: ModelSpec, edge: Any, config: Any, label: str) -> None:
    """Fails where `share_mutable_buffers` would pair other buffers than those that methods share.

    Args:
      spec: the model, as its entry point returned it.
      edge: upstream's EdgeProgramManager.
      config: of the recipe, for the emitter.
      label: of the model.

    Raises:
      BuildError: two buffers have one name, or one buffer has two.
    """
    if not getattr(config.memory_planning_pass, "share_mutable_buffers", False):
        return
    changed = {
        name
        for method in edge.methods
        for name in edge.exported_program(method).graph_signature.buffers_to_mutate.values()
    }
    by_name: dict[str, tuple[str, torch.Tensor]] = {}
    by_tensor: dict[int, tuple[str, str]] = {}
    for method, source in spec.methods.items():
        if isinstance(source.module, ExportedProgram):
            continue
        for name, buffer in source.module.named_buffers(remove_duplicate=False):
            if name not in changed:
                continue
            other, shared = by_name.setdefault(name, (method, buffer))
            if shared is not buffer:
                raise BuildError(
                    f'{label}: the methods "{other}" and "{method}" have different buffers with '
                    f'the name "{name}", and the option share_mutable_buffers would make them one.',
                    "Name them differently, or let both methods' modules hold the same buffer.",
                )
            other, known = by_tensor.setdefault(id(buffer), (method, name))
            if known != name and other != method:
                raise BuildError(
                    f'{label}: the methods "{other}" and "{method}" share a buffer that is called '
                    f'"{known}" in one and "{name}" in the other: the option share_mutable_buffers '
                    "shares buffers of one name.",
                    "Let both methods' modules hold it under the same name.",
                )


class Run:
    """A copy of a method's eager module, which is called several times in a row.

    Args:
      module: as for `eager.eager`; it stays unchanged.
    """

    def __init__(self, module: Any) -> None:
        self.module = with_own_state(eager(module))

    def __call__(self, inputs: tuple[Any, ...]) -> list[Any]:
        """The tensors and numbers that a call returns, flat; later calls don't change them."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            outputs = leaves(self.module(*deep_copy(tuple(inputs))))
        return [v.clone() if isinstance(v, torch.Tensor) else v for v in outputs]


def changed(before: torch.nn.Module, after: torch.nn.Module) -> list[str]:
    """Names of buffers and attributes that differ between two copies of a module."""
    old, new = dict(_values(before)), dict(_values(after))
    return sorted(
        name for name in old.keys() | new.keys() if not _equal(old.get(name), new.get(name))
    )


class _Calls:
    """Everything that the first call of a method changes.

    Attributes:
      first: the copy that was called; None: the method is exported already, or its module does not
        run, which the export will say.
      outputs: of that call.
      changed: names of what it changed.
      buffers: names of all buffers.
      assigned: whether it assigned a buffer instead of writing into it.
    """

    def __init__(self, method: Method) -> None:
        self.method, self.first = method, None
        if isinstance(method.module, ExportedProgram):
            return
        run = Run(method.module)
        begin = dict(run.module.named_buffers(remove_duplicate=False))
        try:
            self.outputs = run(method.example_inputs)
        except Exception:  # The model's code may raise anything.
            return
        self.first = run.module
        self.changed = changed(method.module, self.first)
        now = dict(self.first.named_buffers(remove_duplicate=False))
        self.buffers = now.keys() | begin.keys()
        self.assigned = any(
            name in self.changed and now.get(name) is not begin.get(name) for name in self.buffers
        )


def _check_attributes(calls: _Calls, method: str, label: str) -> None:
    attributes = [name for name in calls.changed if name not in calls.buffers]
    if not attributes:
        return
    inputs = calls.method.example_inputs
    second = Run(calls.first)
    outputs = second(inputs)
    third = Run(second.module)
    third(inputs)
    # A program would carry the buffers on, and have all else as it was.
    program = Run(calls.method.module)
    for name, buffer in calls.first.named_buffers():
        owner, _, own = name.rpartition(".")
        program.module.get_submodule(owner)._buffers[own] = buffer.clone()
    again = changed(second.module, third.module)
    evolving = [n for n in changed(calls.first, second.module) if n in again and n in attributes]
    if not all(map(_equal, program(inputs), outputs)):
        evolving = evolving or attributes
    if evolving:
        names = ", ".join(f'"{name}"' for name in evolving)
        raise BuildError(
            f'{label}: the method "{method}" changes the attribute {names}, which its program '
            "would keep as it is: later calls would give other outputs than the model's.",
            "Make it a buffer (register_buffer) and write into that, as in self.count.add_(1).",
        )


def _values(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """Buffers and the parts of all other attributes, by name; no parameters."""
    seen: set[int] = set()
    for path, child in module.named_modules():
        prefix = f"{path}." if path else ""
        for name, buffer in child._buffers.items():
            yield prefix + name, buffer
        for name, value in vars(child).items():
            if name not in _OF_TORCH:
                yield from _parts(prefix + name, value, seen)


def _parts(name: str, value: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (*_PLAIN, torch.Tensor)):
        yield name, value
        return
    if isinstance(value, torch.nn.Module | type) or callable(value) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts(f"{name}[{key!r}]", item, seen)
    elif isinstance(value, Collection):
        yield f"len({name})", len(value)
        for number, item in enumerate(value if hasattr(value, "__getitem__") else ()):
            yield from _parts(f"{name}[{number}]", item, seen)
    else:
        for key, item in getattr(value, "__dict__", {}).items():
            yield from _parts(f"{name}.{key}", item, seen)


def _equal(left: Any, right: Any) -> bool:
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return type(left) is type(right) and left == right
    if left is right:
        return True
    return (
        left.shape == right.shape
        and left.dtype == right.dtype
        and bool(((left == right) | ((left != left) & (right != right))).all())
    )


def _changed_by(program: ExportedProgram) -> set[str]:
    return set(program.graph_signature.buffers_to_mutate.values())


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
    """Tells whether a tensor has a byte that is not zero, whatever its type."""
    return bool(tensor.detach().contiguous().reshape(-1).view(torch.uint8).any())
