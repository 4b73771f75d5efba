"""Writes a folder that shows a fault alone: the smallest module with it, and its inputs.

The module where the numbers part is lowered by itself, with the inputs that it has in the model. If
it is right then, the modules around it are tried, from the inside out. What is written is a package
for Bazel: the module as an exported program, its inputs, and a test that fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from etbuild import BuildError, Method, ModelSpec
from etlower import divergence, stages
from etlower.divergence import Fall
from etlower.eager import with_own_state
from etlower.inputs import deep_copy
from etlower.outputs import leaves
from etlower.progress import Progress

_MODEL = '''\
"""A module of {model}, as it was exported."""

import torch


def build(ctx):
    return torch.export.load(ctx.file("module.pt2"))
'''
_BUILD = """\
load("@rules_executorch//rules:defs.bzl", "et_model", "et_program", "et_program_test")

# {module} of {model}: {ratio} where {least:g} dB or more are expected.
et_model(
    name = "module",
    srcs = ["model.py"],
    data = ["module.pt2"],
    entry_point = "{package}model:build",
)

et_program(
    name = "program",
    model = ":module",
    recipe = "{recipe}",
)

et_program_test(
    name = "program_test",
    inputs = ["inputs.npz"],
    min_sqnr_db = "{least:g}",
    program = ":program",
)
"""


@dataclass(frozen=True)
class Lowering:
    """A way to lower and run a part of a model.

    Attributes:
      make_recipe: makes the recipe, anew for each lowering.
      run: runs a .pte file on cases and returns the outputs of each.
      work: a folder for files.
      label: of the program, for messages.
    """

    make_recipe: Callable[[], Any]
    run: divergence.Runner
    work: Path
    label: str

    def ratio(self, module: torch.nn.Module, inputs: tuple[Any, ...]) -> float:
        """The least ratio of a module's outputs, lowered by itself, in dB."""
        spec = ModelSpec({"forward": Method(module, inputs)})
        manager = stages.run(spec, self.make_recipe(), Progress(), self.label, etrecord=False)
        file = self.work / "module.pte"
        with open(file, "wb") as out:
            manager.write_to_file(out)
        [got] = self.run(file, divergence.cases_of("forward", [inputs]))
        with torch.no_grad():
            expected = leaves(with_own_state(module)(*deep_copy(inputs)))
        ratios = [
            divergence.compare([(g, e)]).sqnr_db
            for g, e in zip(divergence.tensors(got), expected, strict=True)
            if isinstance(e, torch.Tensor)
        ]
        return min((ratio for ratio in ratios if ratio is not None), default=float("inf"))


def write(
    folder: Path,
    method: Method,
    inputs: Sequence[Any],
    fall: Fall,
    drop: float,
    lowering: Lowering,
    names: tuple[str, str],
) -> str:
    """Writes the folder of the smallest module that has a fault by itself.

    Args:
      folder: is made; what is in it stays, but for files of the same names.
      method: of the model.
      inputs: its positional arguments.
      fall: where the numbers part.
      drop: in dB.
      lowering: the program's.
      names: labels of the model and of the recipe.

    Returns:
      The module's name; empty: it is the whole model.

    Raises:
      BuildError: the recipe takes no exported program, or no module has the fault by itself.
    """
    quantization = lowering.make_recipe().quantization_recipe
    if quantization and quantization.ao_quantization_configs:
        raise BuildError(
            f"{lowering.label}: --reduce: the recipe quantizes layers of an eager model (torchao), "
            "and the folder has an exported module.",
            "Reduce a program with a PT2E or a float recipe.",
        )
    least = fall.before_db - drop
    for name, module, arguments in _modules(method.module, inputs, fall.module):
        ratio = lowering.ratio(module, arguments)
        if ratio < least:
            _write_files(folder, module, arguments)
            text = _BUILD.format(
                module=name or "The whole",
                model=names[0],
                recipe=names[1],
                least=least,
                ratio=divergence.db(ratio),
                package=_package(folder),
            )
            (folder / "BUILD.bazel").write_text(text, encoding="utf-8")
            (folder / "model.py").write_text(_MODEL.format(model=names[0]), encoding="utf-8")
            return name
    raise BuildError(
        f"{lowering.label}: --reduce: neither {fall.module or 'the model'} nor a module around it "
        "has the fault when it is lowered by itself.",
        "The fault depends on what stands around it, or on a pass that names modules.",
    )


def _modules(
    model: torch.nn.Module, inputs: Sequence[Any], name: str
) -> Iterator[tuple[str, torch.nn.Module, tuple[Any, ...]]]:
    """A module and those around it, from the inside out, with the arguments of the first call."""
    parts = name.split(".") if name else []
    for count in range(len(parts), -1, -1):
        outer = ".".join(parts[:count])
        arguments = _arguments(model, inputs, outer)
        if arguments is not None:
            yield outer, model.get_submodule(outer), arguments


def _arguments(model: torch.nn.Module, inputs: Sequence[Any], name: str) -> tuple[Any, ...] | None:
    """Positional arguments of a module's first call; None: it has others, or is not called."""
    copy = with_own_state(model)
    seen: list[tuple[Any, ...] | None] = []

    def keep(module: Any, args: Any, kwargs: Any) -> None:
        known = not kwargs and all(isinstance(a, torch.Tensor) for a in args)
        # As a program takes them: without the strides that values have within a model.
        seen.append(tuple(a.detach().clone().contiguous() for a in args) if known else None)

    copy.get_submodule(name).register_forward_pre_hook(keep, with_kwargs=True)
    with torch.no_grad():
        copy(*deep_copy(tuple(inputs)))
    return seen[0] if seen else None


def _write_files(folder: Path, module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        torch.export.save(torch.export.export(module, arguments), folder / "module.pt2")
    arrays = {str(number): value.numpy() for number, value in enumerate(arguments)}
    np.savez(folder / "inputs.npz", **arrays)


def _package(folder: Path) -> str:
    """The folder as the prefix of a Python module, where it lies in the user's workspace."""
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY", "")
    if not root or not folder.absolute().is_relative_to(root):
        return ""
    parts = folder.absolute().relative_to(root).parts
    return "".join(f"{part}." for part in parts)
