"""Compares all stages of a target's program with its eager model."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild import BuildError, ModelSpec
from etfast import path
from etlower import calibration, divergence, expected, given_inputs, lower, packages
from etlower.divergence import Compared, MethodResult
from etlower.expected import Case
from etlower.runs import ProgramRun

from etcli.measure import reproducer
from etcli.measure.built import Built
from etcli.measure.target import Target


def compare(
    program: Target,
    files: Sequence[Path],
    methods: Sequence[str],
    drop: float,
    work: Path,
    told: Callable[[str], None],
    reduce: Path | None = None,
    other: Built | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compares all stages of a program with its eager model.

    Args:
      program: the target, whose request has a recipe.
      files: inputs, or folders of them; empty: the model's.
      methods: names; empty: all.
      drop: in dB.
      work: a folder for files.
      told: is told of each step.
      reduce: a folder to write a reproducer to, if the numbers part; None: nothing is written.
      other: another build's program of the same model; None: there is none.

    Returns:
      `label`, `model`, `recipe`, `drop_db`; `executorch`, its version; `program`, as
      `Built.describe` returns it; and `methods`, by name: `samples`, `columns` (the
      stages), `modules`, a list with the `name` of each and by column its `sqnr_db`,
      `largest_difference` and a `note`; `outputs`, the same of the method's outputs, by column and
      with taps; `first`, the module where the numbers part, or None; `firsts`, by column; `notes`.
      If there is a reproducer, `reduced`: its `folder` and `module`.
      And the same of the other program, as far as it is known: `label`, `program`, and `outputs` of
      `methods`; empty: there is none.
    """
    packages.install_programs()
    spec = _chosen(program.load_model(work), methods, program.label)
    samples = given_inputs.samples(files, spec.methods, program.label)
    spec = dataclasses.replace(
        spec, methods={name: spec.methods[name] for name in spec.methods if name in samples}
    )

    def run_tapped(file: Path, cases: Sequence[Case]) -> list[Sequence[Any]]:
        return _run(file, [], None, cases, work)

    def make_recipe() -> Any:
        return lower.made_recipe(program.request, spec)

    recipe = make_recipe()
    with path.chosen(program.request.lowering):
        given = calibration.with_file(spec, recipe, program.request)
        comparison = divergence.Compare(
            given, make_recipe, run_tapped, work, program.label, drop, told
        )
        of_methods = {n: divergence.cases_of(n, samples[n]) for n in spec.methods}
        cases = [case for of_method in of_methods.values() for case in of_method]
        own = Built(
            program.label,
            program.program,
            program.request.program_data,
            program.manifest,
            program.report,
        )
        outputs = _outputs(own, of_methods, work, told)
        described = own.describe(cases, work)
        others: dict[str, Any] = {}
        if other:
            described_other = other.describe(cases, work)
            common = {n: of for n, of in of_methods.items() if n in described_other["methods"]}
            others = _outputs(other, common, work, told)
        results = comparison.all(outputs, samples, others)
        fallen = next((n for n, r in results.items() if r.first), None)
        reduced = {}
        if reduce and fallen:
            told(f"Reducing it: {fallen}")
            lowering = reproducer.Lowering(make_recipe, run_tapped, work, program.label)
            column, fall = results[fallen].first or ("", None)
            assert fall is not None
            names = (program.request.model_label, program.recipe)
            inputs = samples[fallen][0]
            module = reproducer.write(
                reduce, spec.methods[fallen], inputs, fall, drop, lowering, names
            )
            reduced = {"reduced": {"folder": reduce.name, "module": module}}
    result = {
        **reduced,
        "label": program.label,
        "model": program.request.model_label,
        "recipe": program.recipe,
        "drop_db": drop,
        "executorch": importlib.metadata.version("executorch"),
        "program": described,
        "methods": {name: _described(r, len(samples[name])) for name, r in results.items()},
    }
    before = (
        {
            "label": other.label,
            "program": described_other,
            "methods": {
                name: {"outputs": {"program": _figures(r.other)}, "modules": []}
                for name, r in results.items()
                if r.other
            },
        }
        if other
        else {}
    )
    return result, before


def _outputs(
    of: Built,
    cases: Mapping[str, Sequence[Case]],
    work: Path,
    told: Callable[[str], None],
) -> dict[str, Sequence[Sequence[Any]]]:
    """Outputs of a program, by method and case."""
    outputs = {}
    for name, of_method in cases.items():
        told(f"Running {of.label}: {name}")
        outputs[name] = _run(of.program, of.data, of.manifest, of_method, work)
    return outputs


def _chosen(spec: ModelSpec, methods: Sequence[str], label: str) -> ModelSpec:
    unknown = [name for name in methods if name not in spec.methods]
    if unknown:
        raise BuildError(
            f"{label}: --method: got {unknown[0]}, expected one of "
            f"{', '.join(sorted(spec.methods))}."
        )
    chosen = {n: m for n, m in spec.methods.items() if not methods or n in methods}
    return dataclasses.replace(spec, methods=chosen)


def _run(
    program: Path, data: Sequence[Path], manifest: Path | None, cases: Sequence[Case], work: Path
) -> list[Sequence[Any]]:
    file = work / "cases.safetensors"
    expected.write(file, list(cases))
    return ProgramRun(program, data, manifest, file, [], work).run()[0]


def _described(result: MethodResult, samples: int) -> dict[str, Any]:
    columns = result.columns
    names = sorted({name for c in columns.values() for name in c.modules}, key=_order)
    outputs = {name: column.outputs for name, column in columns.items()}
    if result.tapped is not None:
        outputs["tapped"] = result.tapped
    first = result.first
    return {
        "samples": samples,
        "columns": list(columns),
        "modules": [
            {
                "name": name,
                **{
                    column: _figures(each.modules[name])
                    for column, each in columns.items()
                    if name in each.modules
                },
            }
            for name in names
        ],
        "outputs": {name: _figures(compared) for name, compared in outputs.items()},
        "first": {"stage": first[0], **_fall(first[1])} if first else None,
        "firsts": {name: _fall(c.first) for name, c in columns.items() if c.first},
        "notes": [
            *result.notes,
            *(f"{name}: not compared: {why}." for name, why in sorted(result.skipped.items())),
        ],
    }


def _order(name: str) -> list[tuple[int, int, str]]:
    """Sorts names as a tree, numbers by value."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in (name.split(".") if name else [])
    ]


def _figures(compared: Compared) -> dict[str, Any]:
    ratio = compared.sqnr_db
    note = ""
    if ratio is None:
        note = "no ratio"
    elif not math.isfinite(ratio):
        note = "the same" if ratio > 0 else "far off"
    finite = ratio is not None and math.isfinite(ratio)
    return {
        "sqnr_db": round(ratio, 1) if finite and ratio is not None else None,
        "largest_difference": compared.largest if math.isfinite(compared.largest) else None,
        "note": note,
    }


def _fall(fall: Any) -> Mapping[str, Any]:
    described = dataclasses.asdict(fall)
    ratio = described["sqnr_db"]
    described["sqnr_db"] = round(ratio, 1) if math.isfinite(ratio) else None
    before = described["before_db"]
    described["before_db"] = round(before, 1) if math.isfinite(before) else None
    return described
