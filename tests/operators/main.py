"""Tries nets with the recipe of a target; `operators.bzl` starts it.

Either it writes what became of them (`--output`), or it tries some and compares with the record
(`--record`): a net with another outcome fails.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

from etlower import flags, packages, sources
from etlower.lower import make_deterministic, quiet

from tests.operators import results


def main() -> None:
    """Reads the command line, tries, writes or compares."""
    parser = argparse.ArgumentParser(prog="operators", description=__doc__)
    parser.add_argument("--flags", type=Path, required=True, help="of the recipe's target")
    parser.add_argument("--recipe_name", required=True)
    parser.add_argument("--operator", action="append", default=[], help='pattern: "add*"')
    parser.add_argument("--dtype", action="append", default=[], help="of inputs: float32")
    parser.add_argument("--per_operator", type=int, default=0, help="at most so many nets of each")
    parser.add_argument("--operators", type=int, help="at most so many operators")
    parser.add_argument("--core", action="store_true", help="all of core ATen must be tried")
    parser.add_argument("--unequal", type=int, help="at most so many that are recorded as such")
    parser.add_argument("--precision", help="what the backend computes 32-bit floats in: float16")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    packages.install_programs()
    with tempfile.TemporaryDirectory() as tree:
        attempt = _attempt(_recipe_of(options.flags, Path(tree)), options.precision)
        patterns = [name.removeprefix("aten.") for name in options.operator] or ["*"]
        nets = _of_some(
            list(chosen(patterns, options.dtype, options.per_operator)), options.operators
        )
        if options.core:
            _check_core(list(chosen(["*"], [], 0)))
        record = results.read(options.record)["recipes"] if options.record else {}
        operators = record.get(options.recipe_name, {}).get("operators", {})
        if options.output:
            _write(options.output, nets, operators, attempt)
        else:
            sys.exit(_compared(nets, operators, attempt, options.unequal))


def chosen(patterns: Sequence[str], dtypes: Sequence[str], per_operator: int) -> Iterator[Any]:
    """Nets of operators by name, the same ones each time.

    Args:
      patterns: of operators' names.
      dtypes: of inputs; empty: all.
      per_operator: how many of an operator at most, of different types; 0: all.
    """
    from tests.operators import fusions, samples, tables

    tried = itertools.chain(samples.nets(patterns, dtypes), tables.nets(), fusions.nets())
    fitting = [
        net
        for net in tried
        if any(fnmatch(net.operator, pattern) for pattern in patterns)
        and (not dtypes or net.dtype in dtypes)
    ]
    fitting.sort(key=lambda net: (net.operator, net.dtype))
    for _, group in itertools.groupby(fitting, lambda net: net.operator):
        nets = list(group)
        yield from _some(nets, per_operator) if per_operator else nets


def _some(nets: Sequence[Any], count: int) -> list[Any]:
    """Nets of an operator: one of each type, 32-bit floats first, then another of each."""
    turns: dict[str, int] = {}
    order = []
    for net in sorted(nets, key=_hash):
        turns[net.dtype] = turns.get(net.dtype, 0) + 1
        order.append(((turns[net.dtype], net.dtype != "float32", _hash(net)), net))
    chosen_nets = [net for _, net in sorted(order, key=lambda pair: pair[0])[:count]]
    return sorted(chosen_nets, key=lambda net: net.dtype)


def _of_some(nets: Sequence[Any], count: int | None) -> list[Any]:
    """Those of so many operators, spread over all names; None: of all."""
    names = sorted({net.operator for net in nets}, key=lambda name: zlib.crc32(name.encode()))
    some = set(names[:count])
    return [net for net in nets if net.operator in some]


def _check_core(nets: Sequence[Any]) -> None:
    from tests.operators import coverage

    untried = coverage.untried(nets)
    if untried:
        sys.exit(
            f"No net reaches {', '.join(untried)}, of core ATen: give each a net in tables.py, or "
            "a reason in coverage.py."
        )


def _hash(net: Any) -> int:
    return zlib.crc32(net.name.encode())


def _recipe_of(file: Path, tree: Path) -> Callable[[], Any]:
    """Makes the recipe's sources importable; returns what makes the recipe.

    It is made once here: what it imports is the same for all processes that try nets, and a recipe
    that cannot be made is no outcome of a net.
    """
    from etfast import path

    arguments = flags.expand([f"@{file}"])
    request = flags.parse(["lower", "--output=net", *arguments])
    sources.install(tree, request.sources, request.roots)
    path.import_executorch("fast")
    make_deterministic()
    quiet()
    from etlower import recipe

    recipe.make(request)
    return lambda: recipe.make(request)


def _attempt(make_recipe: Callable[[], Any], precision: str | None) -> Any:
    import torch

    from tests.operators.trial import try_together

    dtype = getattr(torch, precision) if precision else None
    return functools.partial(try_together, make_recipe=make_recipe, precision=dtype)


def _tried(nets: Sequence[Any], operators: Any, attempt: Any) -> Iterator[tuple[Any, Any]]:
    from tests.operators.children import outcomes

    def is_equal(net: Any) -> bool:
        known = results.recorded(operators, net.operator, net.parameters)
        return known in (None, results.EQUAL)

    begin = time.monotonic()
    for number, (net, outcome) in enumerate(outcomes(nets, attempt, is_equal), 1):
        if number % 500 == 0 or number == len(nets):
            print(f"{number} of {len(nets)} nets, {time.monotonic() - begin:.0f} s", flush=True)
        yield net, outcome


def _write(output: Path, nets: Sequence[Any], operators: Any, attempt: Any) -> None:
    tried = list(_tried(nets, operators, attempt))
    times = os.times()
    seconds = times.user + times.system + times.children_user + times.children_system
    outcomes = [(net.operator, net.parameters, o.kind, o.reason) for net, o in tried]
    found = {
        "executorch": version("executorch"),
        "nets": len(nets),
        "minutes": round(seconds / 60, 1),
        "operators": results.described(outcomes),
    }
    output.write_text(json.dumps(found), encoding="utf-8")


def _compared(nets: Sequence[Any], operators: Any, attempt: Any, unequal: int | None) -> int:
    """Tries nets that are recorded as equal, and some that are not; returns the exit code."""
    if not operators:
        print("The record does not have this recipe: bazel run //tests/operators:record")
        return 1
    known = [(net, results.recorded(operators, net.operator, net.parameters)) for net in nets]
    equal = [net for net, kind in known if kind == results.EQUAL]
    others = sorted((net for net, kind in known if kind != results.EQUAL), key=_hash)[:unequal]
    wrong = list(_contradictions(_tried([*equal, *others], operators, attempt), operators))
    print("\n".join(sorted(wrong)) or f"{len(equal) + len(others)} nets as recorded")
    return bool(wrong)


def _contradictions(tried: Iterable[tuple[Any, Any]], operators: Any) -> Iterator[str]:
    for net, outcome in tried:
        expected = results.recorded(operators, net.operator, net.parameters)
        if outcome.kind != expected:
            yield (
                f"{net.name}: got {outcome.kind}{' (' if outcome.reason else ''}{outcome.reason}"
                f"{')' if outcome.reason else ''}, recorded {expected}. "
                f"Run: bazel run //tests/operators:record -- --operator '{net.operator}'"
            )


if __name__ == "__main__":
    main()
