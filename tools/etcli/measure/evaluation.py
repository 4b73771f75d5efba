"""A program against its eager model: the perplexity of a text, or the outputs of all methods."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from etlower import calibration
from etlower.arrays import Array, to_torch
from etlower.cases import outputs_of
from etlower.eager import eager_outputs
from etlower.expected import plain
from etlower.inputs import deep_copy
from etlower.outputs import leaves, sqnr_db
from ettune import texts
from runner.runtime import Program

from etcli.console import bar
from etcli.measure import language
from etcli.measure.target import Target, is_language_model


def of_text(
    program: Target,
    spec: ModelSpec,
    text: str,
    tokenizer_file: Path | None,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Perplexity of a text, for the eager model, its casts and the program.

    Args:
      program: the target.
      spec: its model.
      text: to predict.
      tokenizer_file: a tokenizer.json; None: the model's.
      options: text (the file's name), tokens and precision.

    Raises:
      BuildError: it is not a language model, the text is too short, or a model failed.
    """
    if not is_language_model(spec.constant_methods, spec.methods):
        raise BuildError(
            f"{program.label} is not a language model: it has the methods "
            f"{', '.join(sorted({*spec.methods, *spec.constant_methods}))}.",
            "Leave --text out to compare outputs.",
        )
    tokenizer = texts.tokenizer_of(tokenizer_file, program.request.data)
    tokens = tokenizer.encode(text, add_special_tokens=False).ids[: options.tokens]
    if len(tokens) < 2:
        raise BuildError(f"{options.text}: got {len(tokens)} tokens, expected at least 2.")
    window = int(spec.constant_methods["get_max_context_len"])
    opened = program.open()
    models: dict[str, Any] = {"eager": language.EagerSteps(spec)}
    for name in dict.fromkeys(options.precision):
        models[f"eager {name}"] = language.EagerSteps(spec, getattr(torch, name))
    models["program"] = language.ProgramSteps(opened)
    rows, first = [], None
    for name, steps in models.items():
        try:
            with bar(name, len(tokens), unit="tokens") as advance:
                score = language.score(steps, tokens, window, advance)
        except (RuntimeError, ValueError) as error:
            if name in ("eager", "program"):
                raise BuildError(f"{program.label}: {name} failed: {_reason(error)}.") from error
            rows.append({"model": name, "skipped": _reason(error)})
            continue
        first = first or score
        rows.append(
            {
                "model": name,
                "perplexity": score.perplexity,
                "more_percent": 100 * (score.perplexity / first.perplexity - 1),
                "same_token_percent": score.agreement(first),
            }
        )
    file = Path(options.text).name
    return {"text": file, "tokens": len(tokens), "window": window, "perplexity": rows}


def with_inputs(spec: ModelSpec, file: Path, label: str) -> ModelSpec:
    """A model whose methods have a file's samples as inputs; methods that it leaves out go.

    Args:
      spec: the model.
      file: .safetensors, as et_program's `calibration`.
      label: of the program.

    Raises:
      BuildError: it is damaged, or does not fit the methods.
    """
    methods = {}
    for name, (first, *more) in calibration.read(file, spec.methods, label, "--inputs").items():
        method = spec.methods[name]
        methods[name] = dataclasses.replace(method, example_inputs=first, test_inputs=more)
    return dataclasses.replace(spec, methods=methods)


def of_outputs(program: Target, spec: ModelSpec, precisions: Sequence[str]) -> dict[str, Any]:
    """Compares all outputs with the eager model's, for its casts and the program.

    Args:
      program: the target.
      spec: its model.
      precisions: types that the eager model is cast to: "bfloat16", …
    """
    rows: list[dict[str, Any]] = []
    opened = program.open()
    for name, method in spec.methods.items():
        inputs = (method.example_inputs, *method.test_inputs)
        expected = [eager_outputs(method.module, values) for values in inputs]
        for precision in dict.fromkeys(precisions):
            model = f"eager {precision}"
            try:
                cast = _cast(method, getattr(torch, precision))
                arguments = (cast.example_inputs, *cast.test_inputs)
                got = [eager_outputs(cast.module, values) for values in arguments]
            except Exception as error:
                rows.append({"method": name, "model": model, "skipped": _reason(error)})
                continue
            rows += _compared(name, model, got, expected)
        got = [_call(opened, name, values) for values in inputs]
        rows += _compared(name, "program", got, expected)
    return {"outputs": rows}


def _call(program: Program, method: str, inputs: Any) -> list[Any]:
    """The outputs of a program, fresh for each call, as torch has them."""
    program.reset()
    where = f'method "{method}"'
    outputs = outputs_of(program, method, plain(leaves(tuple(inputs)), where))
    return [to_torch(value) if isinstance(value, Array) else value for value in outputs]


def _cast(method: Method, dtype: torch.dtype) -> Method:
    module = method.module
    if isinstance(module, torch.export.ExportedProgram):
        raise BuildError("an exported program has the types that it was exported with")

    def cast(value: Any) -> Any:
        floats = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
        return value.to(dtype) if floats else value

    def inputs(values: Any) -> Any:
        return torch.utils._pytree.tree_map(cast, values)

    tests = [inputs(t) for t in method.test_inputs]
    return Method(deep_copy(module).to(dtype), inputs(method.example_inputs), test_inputs=tests)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _compared(
    method: str, model: str, got: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]
) -> list[dict[str, Any]]:
    """A row for each output, the worst of all inputs."""
    rows = []
    for number in range(len(expected[0])):
        pairs = [(g[number], e[number]) for g, e in zip(got, expected, strict=True)]
        row: dict[str, Any] = {"method": method, "output": number, "model": model}
        tensors = [
            (g, e) for g, e in pairs if isinstance(g, torch.Tensor) and isinstance(e, torch.Tensor)
        ]
        if len(tensors) < len(pairs) or any(g.shape != e.shape for g, e in tensors):
            row["skipped"] = "numbers, or other shapes than the eager model gives"
        else:
            ratio = min(sqnr_db(g, e) for g, e in tensors)
            row["sqnr_db"] = ratio if math.isfinite(ratio) else None
            if row["sqnr_db"] is None:
                row["note"] = "the same" if ratio > 0 else "zeros, or not finite"
            row["largest_difference"] = max(_largest(g, e) for g, e in tensors)
            shares = [_same_class(g, e) for g, e in tensors]
            known = [share for share in shares if share is not None]
            if len(known) == len(shares):
                row["same_class_percent"] = 100 * sum(known) / len(known)
        rows.append(row)
    return rows


def _largest(got: torch.Tensor, expected: torch.Tensor) -> float:
    difference = (got.double() - expected.double()).abs()
    return float(difference.max()) if difference.numel() else 0.0


def _same_class(got: torch.Tensor, expected: torch.Tensor) -> float | None:
    """Share of the rows with the largest element at the same index; None: there are no rows."""
    if not expected.dim() or expected.shape[-1] < 2 or not expected.dtype.is_floating_point:
        return None
    return float((got.argmax(-1) == expected.argmax(-1)).double().mean())
