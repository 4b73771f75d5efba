"""The commands of the exporter: lower, export, record for devtools, train, expect, bundle and more.

A request runs in four steps: the declared sources become importable, the recipe and the model are
made by the user's code, the command does its work, and its outputs are written. `child.py` runs
this in a process of its own, within the guard.

Two invariants hold. What a command writes to `request.output` depends on the request alone: times,
memory, and numbers that depend on the machine's instructions go to `request.timings`, which no
cached action reads. And an output is whole or absent: `remove_on_failure` removes it when anything
is raised, as a folder that Bazel finds half-written would be taken for the result. State that
outlives a request (a loaded model, a changed global of torch) would break the first:
`make_deterministic` sets all that is known to matter, at the start of each request.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import logging
import platform
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etbuild import BuildError, Method, ModelSpec
from etlink.declared_sizes import InputSizes
from etlink.lowered import Index
from etlink.split import split

from etlower import sources
from etlower.flags import Request
from etlower.forked import ForkedTask
from etlower.guard import nothing_refused
from etlower.progress import Progress

if TYPE_CHECKING:
    from etlower.calls import Calls
    from etlower.capture import WeightNames

# What a lowered program says of itself beside its index; `etlink` and `etcli.report` read it.
LOWERING = "lowering.json"


def run(request: Request, progress: Progress, tree: Path) -> None:
    """Executes a request; leaves its outputs whole, or raises.

    Raises:
      BuildError: something in the user's files is wrong.
      Exception: whatever the model's code or upstream raise.
    """
    sources.install(tree, request.sources, request.roots)
    with progress.stage("load"):
        make_deterministic()
        if request.command in ("placeholder", "adapt"):
            from etlower import adapter

            with remove_on_failure(request.output):
                adapter.COMMANDS[request.command](request)
            return
        if request.command == "bundle":
            from etlower import bundled

            with remove_on_failure(request.output):
                bundled.write(request)
            return
        if request.command == "sensitivity":
            with remove_on_failure(request.output):
                _write_json(request.output, _tuning().measure(request))
            return
        path = _fast_path()
        path.import_executorch(request.lowering)
        from etlower import calibration, model, training

        # Both first: a typo in either must not wait for a model's weights.
        export_recipe = made_recipe(request) if request.recipe else None
        with path.while_loading(request.lowering):
            loaded = model.load_spec(request)
        spec = calibration.with_file(loaded, export_recipe, request)
        if request.trained_checkpoint and export_recipe:
            training.with_checkpoint(export_recipe, spec, request)
    commands = {
        "lower": _lower,
        "etrecord": _etrecord,
        "train": _train,
        "expect": _expect,
    }
    commands[request.command](request, spec, export_recipe, progress, tree)


def made_recipe(request: Request, spec: ModelSpec | None = None) -> Any:
    """The ExportRecipe of a request.

    Args:
      request: with a recipe.
      spec: the model, to load a trained checkpoint into; None: the recipe would train.
    """
    from etlower import recipe, training

    made = recipe.make(request)
    if request.quantize == "none":
        made.quantization_recipe = None
    if spec is not None and request.trained_checkpoint:
        training.with_checkpoint(made, spec, request)
    return made


def make_deterministic() -> None:
    """Makes results depend neither on the number of cores nor on what ran before."""
    import torch

    # After the import, which sets up torch's own loggers.
    quiet()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Without gradients torch's attention is one fused operator, which no runtime has.
    torch.backends.mha.set_fastpath_enabled(False)


def versions() -> dict[str, str]:
    """Versions that a program's bytes may depend on."""
    from importlib.metadata import version

    packages = {name: version(name) for name in ("executorch", "torch", "torchao")}
    return {**packages, "python": platform.python_version()}


def _lower(request: Request, spec: Any, recipe: Any, progress: Progress, tree: Path) -> None:
    from executorch.exir import ExecutorchBackendConfig

    from etlower import capture, kernels, overrides

    # While the model is here: its float weights go before it is lowered.
    names = capture.WeightNames(method.module for method in spec.methods.values())
    overridden = overrides.described(recipe, spec)
    with contextlib.ExitStack() as beside:
        lowered = _run(request, spec, recipe, progress, names, beside)
        manager = lowered.manager
        with progress.stage("split"), remove_on_failure(request.output), _scratch(tree) as scratch:
            program = scratch / "program.pte"
            with open(program, "wb") as out:
                manager.write_to_file(out)
            config = recipe.executorch_backend_config or ExecutorchBackendConfig()
            hints = capture.hints(manager, names, program, scratch, config)
            hints = dataclasses.replace(hints, sizes=lowered.sizes)
            index = split(program, request.output, request.label, versions(), hints)
            lowering = {
                **_described(index, spec, recipe, request, overridden, lowered.notes),
                "calls": lowered.calls.of_program(manager),
                "delegation": lowered.delegation,
                "without_kernel": kernels.missing(manager),
            }
            _write_json(request.output / LOWERING, lowering)
        timings: dict[str, Any] = {"path": lowered.used.as_json()}
        if lowered.accuracy:
            with progress.stage("compare"):
                timings["accuracy"] = lowered.accuracy.result()
    if request.timings:
        _write_json(request.timings, {**progress.as_json(), **timings})


@dataclass
class _Lowered:
    """A lowered model.

    Attributes:
      manager: upstream's ExecutorchProgramManager.
      delegation: as `delegation.of_program` has it.
      calls: modules of its nodes.
      used: what became of the fast path's units: its `Used`.
      accuracy: as `accuracy.measure` has it; None: training changes the model to compare with.
      notes: on what stays in float although the recipe quantizes it.
      sizes: of inputs with a dynamic dimension, by method.
    """

    manager: Any
    delegation: dict[str, Any]
    calls: Calls
    used: Any
    accuracy: ForkedTask[dict[str, Any]] | None
    notes: list[str]
    sizes: dict[str, Sequence[InputSizes]]


def _run(
    request: Request,
    spec: Any,
    recipe: Any,
    progress: Progress,
    names: WeightNames,
    beside: contextlib.ExitStack,
) -> _Lowered:
    from etlower import accuracy, declared_sizes, delegation, model, stages
    from etlower.calls import Calls
    from etlower.reasons import Reasons
    from etlower.unloaded_model import unload

    reasons, calls = Reasons(), Calls()
    delegated: dict[str, Any] = {}
    compared: list[ForkedTask[dict[str, Any]]] = []

    def quantized(modules: Mapping[str, Any]) -> None:
        if not recipe.quantization_recipe.is_qat:
            work = ForkedTask(lambda: accuracy.measure(spec, modules), sound=nothing_refused)
            compared.append(beside.enter_context(work))
            # Upstream's own functions run with what upstream keeps.
            if work.begun and request.lowering == "fast":
                unload(spec, lambda: model.load_spec(request))

    def lowered(edge: Any) -> None:
        delegated.update(delegation.of_program(edge, reasons, recipe))
        calls.keep(edge)

    sizes: dict[str, Sequence[InputSizes]] = {}

    def exported(programs: Mapping[str, Any]) -> None:
        names.keep(programs)
        for name, program in programs.items():
            sizes[name] = declared_sizes.declared(program, spec.methods[name].dynamic_shapes)

    notes: list[str] = []
    watch = stages.Watch(quantized, exported, lowered, notes.append)
    with (
        _fast_path().chosen(request.lowering) as used,
        names.watching(),
        reasons.watching(),
    ):
        manager = stages.run(
            spec, recipe, progress, request.model_label, etrecord=False, watch=watch
        )
    accuracies = compared[0] if compared else None
    return _Lowered(manager, delegated, calls, used, accuracies, notes, sizes)


def _described(
    index: Index,
    spec: Any,
    recipe: Any,
    request: Request,
    overridden: list[dict[str, Any]],
    notes: list[str],
) -> dict[str, Any]:
    """Describes a lowering for the report, beside the index: deterministic."""
    from etlower import overrides

    filters = overrides.layer_filters(recipe)
    return {
        "label": index.label,
        "model": request.model_label,
        "notes": [*spec.notes, *notes],
        "recipe": {
            "label": request.recipe["label"],
            "name": recipe.name or "",
            "overrides": overridden,
        },
        "not_quantized": {k: v for f in filters for k, v in sorted(f.skipped.items())},
        "quantized_layers": sum(len(f.taken) for f in filters),
    }


def _etrecord(request: Request, spec: Any, recipe: Any, progress: Progress, tree: Path) -> None:
    from etlower import stages

    with _fast_path().chosen(request.lowering):
        manager = stages.run(spec, recipe, progress, request.model_label, etrecord=True)
        with progress.stage("record"), remove_on_failure(request.output):
            manager.get_etrecord().save(str(request.output))


def _train(request: Request, spec: Any, recipe: Any, progress: Progress, tree: Path) -> None:
    with progress.stage("train"), remove_on_failure(request.output):
        _tuning().train(spec, recipe, request)


def _fast_path() -> Any:
    """The fast path, behind a wall: nothing else here knows of that package."""
    return importlib.import_module("etfast.path")


def _tuning() -> Any:
    """The commands of tuning, behind a wall: nothing else here knows of that package."""
    return importlib.import_module("ettune.commands")


def _expect(request: Request, spec: Any, recipe: Any, progress: Progress, tree: Path) -> None:
    from etlower import expected, given_inputs

    spec = given_inputs.with_files(spec, request)
    with progress.stage("run the eager model"), remove_on_failure(request.output):
        expected.write(request.output, list(expected.of_model(spec)))


@contextlib.contextmanager
def _scratch(tree: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=tree.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove(output: Path) -> None:
    """Removes a file or folder of a request that failed, if there is one."""
    if output.is_dir():
        shutil.rmtree(output, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            output.unlink()


@contextlib.contextmanager
def remove_on_failure(output: Path) -> Iterator[None]:
    """Removes a half-written output."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        remove(output)
        if isinstance(error, OSError):
            raise BuildError(
                f"Cannot write {output.name}: {error.strerror or error}.",
                "Check that its folder is writable and has space left.",
            ) from error
        raise


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def preload(lowering: str = "fast") -> None:
    """Imports what every lowering needs and runs one, so that requests find it all warm.

    Upstream builds caches on first use: decompositions, and the pattern graphs of XNNPACK's passes.
    Nothing of the model that is lowered here stays.

    Args:
      lowering: the path of the requests, "fast" or "stock"; the other one works, too, less warm.
    """
    make_deterministic()
    path = _fast_path()
    path.import_executorch(lowering)
    import executorch.backends.xnnpack.recipes as xnnpack
    import torch
    from executorch.export import ExportRecipe

    from etlower import kernels, stages

    kernels.registered()
    spec = ModelSpec({"forward": Method(torch.nn.Linear(8, 8), (torch.zeros(1, 8),))})
    recipe = ExportRecipe.get_recipe(xnnpack.XNNPackRecipeType.FP32)
    with path.chosen(lowering):
        stages.run(spec, recipe, Progress(), "//:warm_up", etrecord=False)


def quiet() -> None:
    """Silences what libraries say of themselves; a model's own warnings stay."""
    warnings.filterwarnings("ignore")
    for name in ("torch", "torchao", "executorch"):
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger().addFilter(_no_upstream)


def _no_upstream(record: logging.LogRecord) -> bool:
    """Tells whether a record of the root logger is not upstream's: they log through it, too."""
    return "site-packages" not in record.pathname or record.levelno >= logging.ERROR
