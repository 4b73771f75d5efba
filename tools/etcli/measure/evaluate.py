"""`prog.evaluate`: how far a program is from its eager model, on a text or on inputs.

Contract:
`etcli.measure.evaluate --target_flags FILE --target_manifest FILE --target_recipe LABEL …`
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from etexport import compare, exported
from etexport.inputs import deep_copy
from etlink import merge
from etlink.container import write_text

from etcli import cli, places
from etcli.console import Printer, bar
from etcli.measure import eager, language, target
from etcli.measure.target import Target

PRECISIONS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluates and prints; returns the exit code."""
    options = _parser().parse_args(arguments)
    return cli.guarded(lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="evaluate",
        description="Compares a program with its eager model: perplexity of a text (language "
        "models), or the outputs of all methods on the model's example and test inputs.",
    )
    target.add_arguments(parser)
    parser.add_argument("--text", metavar="FILE", help="UTF-8; measure its perplexity")
    parser.add_argument("--tokens", type=int, default=256, help="of the text (%(default)s)")
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json; default: the model's")
    parser.add_argument(
        "--precision",
        action="append",
        default=[],
        choices=sorted(PRECISIONS),
        help="also the eager model cast to that; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", metavar="FILE", help="write that object to a file, too")
    return parser


def _run(options: argparse.Namespace) -> int:
    given = target.of(options)
    # Before a model is loaded, which takes its time.
    text = _read(options.text) if options.text else ""
    tokenizer = places.given(options.tokenizer) if options.tokenizer else None
    work = Path(tempfile.mkdtemp(prefix="evaluate-"))
    try:
        data = merge.checked(
            given.manifest, _program(given), list(given.request.program_data), work
        )
        spec = eager.load(given, work)
        if options.text:
            found = {
                "text": Path(options.text).name,
                **_text(given, spec, data, text, tokenizer, options),
            }
        else:
            found = _outputs(given, spec, data, options)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    whole = {"label": given.label, "recipe": given.recipe, **found}
    if options.save:
        write_text(places.written(options.save), _json(whole))
    if options.json:
        print(_json(whole), end="")
    else:
        show(whole, Printer(sys.stdout))
    return 0


def _program(given: Target) -> Path:
    if given.request.program is None:
        raise BuildError(f"{given.label}: there is no program.")
    return given.request.program


def _variants(spec: ModelSpec, precisions: Sequence[str]) -> dict[str, ModelSpec | str]:
    """The eager model cast to each precision, or why it can't be."""
    found: dict[str, ModelSpec | str] = {}
    for name in dict.fromkeys(precisions):
        try:
            methods = {n: _cast(m, PRECISIONS[name]) for n, m in spec.methods.items()}
            found[name] = ModelSpec(methods, spec.constant_methods)
        except Exception as error:
            found[name] = _reason(error)
    return found


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


def _text(
    given: Target,
    spec: ModelSpec,
    data: Path | None,
    text: str,
    tokenizer_file: Path | None,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Perplexity of a text, for eager, each precision and the program."""
    if not language.is_language_model(spec.constant_methods, spec.methods):
        raise BuildError(
            f"{given.label} is no language model: it has the methods "
            f"{', '.join(sorted({*spec.methods, *spec.constant_methods}))}.",
            "Leave --text out to compare outputs.",
        )
    tokenizer = language.tokenizer_of(tokenizer_file, given.request.data)
    tokens = tokenizer.encode(text, add_special_tokens=False).ids[: options.tokens]
    if len(tokens) < 2:
        raise BuildError(f"{options.text} has {len(tokens)} tokens, wanted at least 2.")
    window = int(spec.constant_methods["get_max_context_len"])
    models: dict[str, Any] = {"eager": language.EagerSteps(spec)}
    for name in dict.fromkeys(options.precision):
        models[f"eager {name}"] = language.EagerSteps(spec, PRECISIONS[name])
    models["program"] = language.ProgramSteps(_program(given), data)
    rows, first = [], None
    for name, steps in models.items():
        try:
            with bar(name, len(tokens), unit="tokens") as advance:
                score = language.score(steps, tokens, window, advance)
        except (RuntimeError, ValueError) as error:
            if name in ("eager", "program"):
                raise BuildError(f"{given.label}: {name} failed: {_reason(error)}.") from error
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
    return {"tokens": len(tokens), "window": window, "perplexity": rows}


def _read(text: str) -> str:
    path = places.given(text)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BuildError(f"{path} is not UTF-8: {error.reason}.", "Convert it.") from error


def _outputs(
    given: Target, spec: ModelSpec, data: Path | None, options: argparse.Namespace
) -> dict[str, Any]:
    """How far all outputs are from eager's, for each precision and the program."""
    request = given.request
    program = compare.Program(_with_data(request, data))
    casts = _variants(spec, options.precision)
    rows: list[dict[str, Any]] = []
    for name, method in spec.methods.items():
        inputs = (method.example_inputs, *method.test_inputs)
        wanted = [_eager(method, one) for one in inputs]
        for variant, cast in casts.items():
            if isinstance(cast, str):
                rows.append({"method": name, "model": f"eager {variant}", "skipped": cast})
                continue
            inner = cast.methods[name]
            try:
                got = [_eager(inner, one) for one in (inner.example_inputs, *inner.test_inputs)]
            except Exception as error:
                rows.append(
                    {"method": name, "model": f"eager {variant}", "skipped": _reason(error)}
                )
                continue
            rows += _compared(name, f"eager {variant}", got, wanted)
        got = [program.call(name, deep_copy(tuple(one))) for one in inputs]
        rows += _compared(name, "program", got, wanted)
    return {"outputs": rows}


def _with_data(request: Any, data: Path | None) -> Any:
    import dataclasses

    return dataclasses.replace(request, program_data=(data,) if data else ())


def _eager(method: Method, inputs: Sequence[Any]) -> list[Any]:
    module = exported.eager(method.module)
    with torch.no_grad():
        return compare.leaves(deep_copy(module)(*deep_copy(tuple(inputs))))


def _compared(
    method: str, model: str, got: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]]
) -> list[dict[str, Any]]:
    """A row for each output, the worst of all inputs."""
    rows = []
    for number in range(len(wanted[0])):
        pairs = [(g[number], w[number]) for g, w in zip(got, wanted, strict=True)]
        row: dict[str, Any] = {"method": method, "output": number, "model": model}
        tensors = [
            (g, w) for g, w in pairs if isinstance(g, torch.Tensor) and isinstance(w, torch.Tensor)
        ]
        if len(tensors) < len(pairs) or any(g.shape != w.shape for g, w in tensors):
            row["skipped"] = "numbers, or other shapes than eager gives"
        else:
            ratio = min(compare.sqnr_db(g, w) for g, w in tensors)
            row["sqnr_db"] = ratio if math.isfinite(ratio) else None
            if row["sqnr_db"] is None:
                row["note"] = "the same" if ratio > 0 else "zeros, or not finite"
            row["largest_difference"] = max(_largest(g, w) for g, w in tensors)
            same = [_same_class(g, w) for g, w in tensors]
            if None not in same:
                row["same_class_percent"] = 100 * sum(same) / len(same)  # type: ignore[arg-type]
        rows.append(row)
    return rows


def _largest(got: torch.Tensor, wanted: torch.Tensor) -> float:
    difference = (got.double() - wanted.double()).abs()
    return float(difference.max()) if difference.numel() else 0.0


def _same_class(got: torch.Tensor, wanted: torch.Tensor) -> float | None:
    """Share of the rows whose largest element is at the same place; None: there are no rows."""
    if not wanted.dim() or wanted.shape[-1] < 2 or not wanted.dtype.is_floating_point:
        return None
    return float((got.argmax(-1) == wanted.argmax(-1)).double().mean())


def show(found: Mapping[str, Any], out: Printer) -> None:
    """Prints what was found."""
    out.line(f"{found['label']}, {found['recipe']}", "bold")
    if "perplexity" in found:
        out.heading(f"Perplexity of {found['text']}: {found['tokens']} tokens")
        rows = [
            [row["model"], "–", "–", "–"]
            if "skipped" in row
            else [
                row["model"],
                f"{row['perplexity']:.3f}",
                f"{row['more_percent']:+.2f}%",
                f"{row['same_token_percent']:.1f}%",
            ]
            for row in found["perplexity"]
        ]
        out.table(["model", "perplexity", "to eager", "same token"], rows, numbers=[1, 2, 3])
        _show_skipped(found["perplexity"], out)
        return
    out.heading("Outputs, against the eager model")
    rows = [
        [row["method"], str(row.get("output", "–")), row["model"], "–", "–", "–"]
        if "skipped" in row
        else [
            row["method"],
            str(row["output"]),
            row["model"],
            row["note"] if row["sqnr_db"] is None else f"{row['sqnr_db']:.1f} dB",
            f"{row['largest_difference']:.3g}",
            f"{row['same_class_percent']:.1f}%" if "same_class_percent" in row else "–",
        ]
        for row in found["outputs"]
    ]
    columns = ["method", "output", "model", "SQNR", "largest difference", "same largest element"]
    out.table(columns, rows, numbers=[1, 3, 4, 5])
    _show_skipped(found["outputs"], out)


def _show_skipped(rows: Sequence[Mapping[str, Any]], out: Printer) -> None:
    for row in rows:
        if "skipped" in row:
            where = f", method {row['method']}" if "method" in row else ""
            out.warning(f"{row['model']}{where}: not compared: {row['skipped']}")


def _json(found: Mapping[str, Any]) -> str:
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
