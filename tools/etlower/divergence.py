"""Finds the module from which on a program's numbers differ from the eager model's.

The same inputs run through the eager model, the exported program, the quantized one, and the
lowered one in its runtime. Each value that a module returns, or takes from the operators around it,
is compared with the eager model's, as a ratio in dB. A value has a level: the least ratio of what
it is computed from, or at the inputs what the number format allows. Where a value is worse than its
level by more than `drop`, the module whose operator computes it is named. So rounding that adds up
over many layers names no module, and neither does what follows a fault.

A runtime shows no values from inside of a program. So the exported program is lowered again with
these values as further outputs: taps. They change what a delegate takes as a whole, and so may
hide a fault or add one: the outputs are compared with those of the program itself. Where these
differ, the program is cut at a module instead, which then is its only output, and halving finds the
first module that falls. The same is done for a value that has no tap, as it is inside of a
quantized pattern.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from etlink import pte, tables
from etlink.payload import BACKEND as XNNPACK
from executorch.export import ExportRecipe
from torch.export import ExportedProgram
from torch.fx import Node

from etlower import methods, module_values, operators, stages, state, taps
from etlower.arrays import Array, to_torch
from etlower.eager import inputs_of
from etlower.expected import Case, plain
from etlower.module_values import Point
from etlower.outputs import leaves, sqnr_db
from etlower.progress import Progress

DROP_DB = 10.0
EXPORTED, QUANTIZED, PROGRAM = "exported", "quantized", "program"
# Of outputs with taps and without: a larger distance in dB is a difference.
_SAME_DB = 3.0
# The least ratio that a number format allows for; of whole numbers by their bits.
_FORMATS = {torch.float64: 80.0, torch.float32: 80.0, torch.float16: 45.0, torch.bfloat16: 30.0}
_BITS = {2: 8.0, 4: 20.0, 8: 35.0, 16: 60.0}
# A delegate may compute in half precision, whatever its inputs are.
_OF_DELEGATES = 35.0

Runner = Callable[[Path, Sequence[Case]], list[Sequence[Any]]]


@dataclass(frozen=True)
class Compared:
    """A comparison of tensors with the eager model's.

    Attributes:
      sqnr_db: infinite: the same; None: there is no ratio, as of whole numbers or zeros.
      largest: the largest difference.
    """

    sqnr_db: float | None
    largest: float


@dataclass(frozen=True)
class Fall:
    """A value that is worse than what it is computed from.

    Attributes:
      module: whose operator computes it; empty: the model itself.
      operator: such as "aten.linear.default"; empty: the module was left out.
      line: of the model's code; empty: unknown.
      before_db: its level.
      sqnr_db: its ratio.
      found_by: "values", "taps" or "cuts".
      together: other modules that a delegate computes in one with it, so that only both can be
        named.
    """

    module: str
    operator: str
    line: str
    before_db: float
    sqnr_db: float
    found_by: str
    together: tuple[str, ...] = ()


@dataclass
class Column:
    """The comparison of one stage with the eager model.

    Attributes:
      modules: by name the worst of what it returns.
      outputs: the worst of the method's outputs.
      first: the first fall, or None.
    """

    modules: dict[str, Compared] = field(default_factory=dict)
    outputs: Compared = Compared(None, 0.0)
    first: Fall | None = None


@dataclass
class MethodResult:
    """The comparison of a method.

    Attributes:
      columns: by name, in the order of the stages.
      tapped: outputs of the program with taps; None: it was not run.
      skipped: by module why it was not compared.
      notes: sentences.
      other: outputs of another build's program; None: there is none.
    """

    columns: dict[str, Column] = field(default_factory=dict)
    tapped: Compared | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    other: Compared | None = None

    @property
    def first(self) -> tuple[str, Fall] | None:
        """The first stage with a fall, and its first fall; None: no stage has one."""
        return next(((name, c.first) for name, c in self.columns.items() if c.first), None)


@dataclass(frozen=True)
class Compare:
    """A comparison of all stages.

    Attributes:
      spec: the model, with the inputs to compare on as `example_inputs` and `test_inputs`.
      make_recipe: makes the recipe, anew for each lowering.
      run: runs a .pte file on cases and returns the outputs of each.
      work: a folder for files.
      label: of the program, for messages.
      drop: in dB.
      told: is told of each step.
    """

    spec: ModelSpec
    make_recipe: Callable[[], ExportRecipe]
    run: Runner
    work: Path
    label: str
    drop: float = DROP_DB
    told: Callable[[str], None] = lambda step: None

    def all(
        self,
        outputs: Mapping[str, Sequence[Sequence[Any]]],
        samples: Mapping[str, Any],
        others: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    ) -> dict[str, MethodResult]:
        """Compares all methods.

        Args:
          outputs: of the program without taps, by method and sample.
          samples: inputs by method.
          others: the same of another build's program, of the methods that it has.

        Raises:
          BuildError: a method is an exported program, or cannot be lowered.
        """
        for name, method in self.spec.methods.items():
            if isinstance(method.module, ExportedProgram):
                raise BuildError(
                    f'{self.label}: the method "{name}" is an exported program, which has no '
                    "modules to compare with.",
                    "Give the model's code: an et_model that returns a torch.nn.Module.",
                )
        self.told("Exporting")
        programs = exported(self.spec, self.make_recipe, self.label)
        return {
            name: _MethodComparison(self, name, programs[name], samples[name]).all(
                outputs[name], (others or {}).get(name)
            )
            for name in self.spec.methods
        }

    def lower(self, method: str, program: ExportedProgram) -> Path:
        """Lowers a program with the recipe's partitioners and passes, and writes the .pte file."""
        spec = ModelSpec({method: Method(program, inputs_of(program))})
        recipe = dataclasses.replace(
            self.make_recipe(), quantization_recipe=None, aten_transform_passes=None
        )
        manager = stages.run(spec, recipe, Progress(), self.label, etrecord=False)
        file = self.work / "tapped.pte"
        with open(file, "wb") as out:
            manager.write_to_file(out)
        return file


class _Exported(Exception):
    """Ends a lowering after the export."""


def exported(
    spec: ModelSpec, make_recipe: Callable[[], ExportRecipe], label: str
) -> dict[str, dict[str, ExportedProgram]]:
    """Exports all methods as a lowering does.

    Returns:
      By method the exported program, and where the recipe quantizes, the quantized one.
    """
    found: dict[str, ExportedProgram] = {}
    quantized: list[Any] = []

    def keep(programs: Mapping[str, ExportedProgram]) -> None:
        found.update(programs)
        raise _Exported

    watch = stages.Watch(quantized=quantized.append, exported=keep)
    with contextlib.suppress(_Exported):
        stages.run(spec, make_recipe(), Progress(), label, etrecord=False, watch=watch)
    if not quantized:
        return {name: {EXPORTED: program} for name, program in found.items()}
    floats, _ = state.exportable(spec, label)
    recipe = dataclasses.replace(make_recipe(), quantization_recipe=None)
    return {
        name: {
            EXPORTED: methods.export(name, method.module, method, recipe, label),
            QUANTIZED: found[name],
        }
        for name, method in floats.methods.items()
    }


@dataclass
class _Graph:
    """A program that is compared by value.

    Attributes:
      program: functional.
      points: its values that the eager model has, too.
      start: level of its inputs, in dB.
      compared: each point, as torch computes the graph; empty: it does so by references only.
    """

    program: ExportedProgram
    points: list[Point]
    start: float
    compared: dict[Point, Compared] = field(default_factory=dict)

    def levels(self, ratios: Mapping[Point, float | None]) -> dict[Point, float]:
        """Levels of all points."""
        computed = {point.node: r for point, r in ratios.items() if not point.is_lost}
        before = module_values.levels(self.program, computed, self.start)
        return {
            point: min(before[point.node], _or_more(computed.get(point.node)))
            if point.is_lost
            else before[point.node]
            for point in self.points
        }


@dataclass(frozen=True)
class _Tapped:
    """Values of taps.

    Attributes:
      compared: values of points.
      outputs: of the programs with taps, the worst; None: none could be lowered.
      backends: of these programs.
      refused: by module why it has no tap.
    """

    compared: Mapping[Point, Compared] = field(default_factory=dict)
    outputs: Compared | None = None
    backends: Set[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: _Tapped) -> _Tapped:
        outputs = self.outputs if other.outputs is None else _worse(self.outputs, other.outputs)
        return _Tapped(
            {**self.compared, **other.compared},
            outputs,
            self.backends | other.backends,
            {**self.refused, **other.refused},
        )


class _MethodComparison:
    def __init__(
        self,
        compare: Compare,
        name: str,
        programs: Mapping[str, ExportedProgram],
        samples: Sequence[tuple[Any, ...]],
    ) -> None:
        self._compare, self._name, self._samples = compare, name, samples
        self._programs = programs
        self._result = MethodResult()
        compare.told(f"Running the eager model: {name}")
        module = compare.spec.methods[name].module
        self._runs = [module_values.run_eager(module, inputs) for inputs in samples]

    def all(
        self, outputs: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]] | None
    ) -> MethodResult:
        """Compares all stages; `outputs`, `others`: of the programs, by sample."""
        graph = None
        for column, program in self._programs.items():
            self._compare.told(f"Running it {column}: {self._name}")
            graph = self._by_value(column, module_values.functional(program))
        assert graph is not None
        self._in_runtime(graph, outputs)
        if others is not None:
            self._result.other = self._outputs([tensors(values) for values in others])
        return self._result

    def _by_value(self, column: str, program: ExportedProgram) -> _Graph:
        results = [module_values.run_graph(program, inputs) for inputs in self._samples]
        points, skipped = module_values.points(program, results[0][1], self._runs[0])
        self._result.skipped |= skipped
        start = _start(program, [values for _, values in results])
        graph = _Graph(program, points, start)
        graph.compared = {
            point: compare(
                [
                    (values.get(module_values.measured(point.node).name), point.place.of(run))
                    for (_, values), run in zip(results, self._runs, strict=True)
                ]
            )
            for point in points
        }
        own = (
            _namespaces(program) - module_values.NAMESPACES - _namespaces(self._programs[EXPORTED])
        )
        if own:
            self._result.notes.append(
                f"The {column} program is not compared: torch has no more than references of its "
                f"operators of {', '.join(sorted(own))}."
            )
            graph.compared = {}
            return graph
        self._fill(column, graph, graph.compared, "values")
        self._result.columns[column].outputs = self._outputs([o for o, _ in results])
        return graph

    def _fill(
        self, column: str, graph: _Graph, compared: Mapping[Point, Compared], found_by: str
    ) -> None:
        filled = self._result.columns.setdefault(column, Column())
        for point in graph.points:
            for module in point.outputs_of if point in compared else ():
                filled.modules[module] = _worse(filled.modules.get(module), compared[point])
        filled.first = self._first(graph, compared, found_by)

    def _first(
        self, graph: _Graph, compared: Mapping[Point, Compared], found_by: str
    ) -> Fall | None:
        ratios = {point: each.sqnr_db for point, each in compared.items()}
        levels = graph.levels(ratios)
        for point in graph.points:
            ratio = ratios.get(point)
            if ratio is not None and ratio < levels[point] - self._compare.drop:
                return _fall(point, levels[point], ratio, found_by)
        return None

    def _outputs(self, outputs: Sequence[Sequence[Any]]) -> Compared:
        """The worst of the method's outputs."""
        worst: Compared | None = None
        for number in range(len(self._runs[0].outputs)):
            pairs = [
                (got[number] if number < len(got) else None, run.outputs[number])
                for got, run in zip(outputs, self._runs, strict=True)
            ]
            if all(isinstance(expected, torch.Tensor) for _, expected in pairs):
                worst = _worse(worst, compare(pairs))
        return worst or Compared(None, 0.0)

    def _in_runtime(self, graph: _Graph, outputs: Sequence[Sequence[Any]]) -> None:
        column = self._result.columns[PROGRAM] = Column()
        column.outputs = self._outputs([tensors(values) for values in outputs])
        taken = [p for p in graph.points if p.is_lost or not module_values.is_fused(p.node)]
        self._compare.told(f"Lowering it with {len(taken)} taps: {self._name}")
        tapped = self._tapped(graph, taken)
        graph.start = _start_of_runtime(graph.start, tapped.backends, tapped.compared)
        self._fill(PROGRAM, graph, tapped.compared, "taps")
        self._result.skipped |= {
            name: f"it has no tap: {reason}" for name, reason in tapped.refused.items()
        }
        self._result.tapped = tapped.outputs
        self._cut(graph, tapped.compared, column)

    def _tapped(self, graph: _Graph, points: list[Point]) -> _Tapped:
        """Compares points by taps. A compiler may refuse some: these are found by halving."""
        program, positions = taps.tapped(graph.program, [p.node for p in points])
        try:
            got, backends = self._run(program)
        except Exception as error:
            if len(points) < 2:
                where = (points[0].module if points else "") or "the model"
                return _Tapped(refused={where: " ".join(str(error).split())[:200]})
            half = len(points) // 2
            self._compare.told(f"Lowering it with {half} taps: {self._name}")
            return self._tapped(graph, points[:half]) + self._tapped(graph, points[half:])
        compared = {
            point: compare(
                [
                    (values[position], point.place.of(run))
                    for values, run in zip(got, self._runs, strict=True)
                ]
            )
            for point, position in zip(points, positions, strict=True)
        }
        return _Tapped(compared, self._outputs(got), backends)

    def _cut(self, graph: _Graph, compared: Mapping[Point, Compared], column: Column) -> None:
        """Finds what taps do not show: a fault that they hide, or one inside of a pattern."""
        tapped = self._result.tapped
        if tapped is None:
            self._result.notes.append("No tap could be lowered. The first module is one of cuts.")
            ratio = _or_more(column.outputs.sqnr_db)
            if ratio < graph.start - self._compare.drop:
                column.first = self._bisected(graph)
        elif _differ(column.outputs, tapped, graph.start):
            self._result.notes.append(
                f"Taps change the outputs: {db(tapped.sqnr_db)} with them, "
                f"{db(column.outputs.sqnr_db)} without. The first module was found by cuts."
            )
            column.first = self._bisected(graph)
        elif column.first is not None:
            column.first = self._within_pattern(graph, compared, column.first)

    def _bisected(self, graph: _Graph) -> Fall | None:
        """Halves the points, each as the only output of a program, until one is the first."""
        points = [point for point in graph.points if self._has_ratio(point)]
        least = graph.start - self._compare.drop
        low, high = 0, len(points)
        ratios: dict[int, float] = {}
        while low < high:
            middle = (low + high) // 2
            ratios[middle] = self._cut_ratio(graph, points[middle])
            if ratios[middle] < least:
                high = middle
            else:
                low = middle + 1
        if low == len(points):
            return None
        return _fall(points[low], ratios.get(low - 1, graph.start), ratios[low], "cuts")

    def _within_pattern(
        self, graph: _Graph, compared: Mapping[Point, Compared], first: Fall
    ) -> Fall:
        """The first of the values without a tap between a fall and what was compared before it."""
        at = next(p for p in graph.points if _fall_is_at(first, p, compared))
        nodes = {point.node for point in compared}
        above = module_values.upstream(at.node, lambda node: node in nodes)
        inner = [p for p in graph.points if p.node in above and p not in compared]
        for point in inner:
            if self._has_ratio(point):
                ratio, found_by = self._inner_ratio(graph, point)
                if ratio < first.before_db - self._compare.drop:
                    return _fall(point, first.before_db, ratio, found_by)
        # Alone, each is right: a backend may have another kernel for all of them in one.
        modules = dict.fromkeys(p.module for p in inner if p.module != first.module)
        return dataclasses.replace(first, together=tuple(modules))

    def _inner_ratio(self, graph: _Graph, point: Point) -> tuple[float, str]:
        """The ratio of a value without a tap, and how it was found."""
        by_torch = graph.compared.get(point)
        ratio = _or_more(by_torch.sqnr_db if by_torch else None)
        if ratio < graph.start - self._compare.drop:
            return ratio, "values"
        return self._cut_ratio(graph, point), "cuts"

    def _has_ratio(self, point: Point) -> bool:
        expected = point.place.of(self._runs[0])
        return expected.is_floating_point() and bool((expected != 0).any())

    def _cut_ratio(self, graph: _Graph, point: Point) -> float:
        self._compare.told(f"Cutting it at {point.module or 'the model'}: {self._name}")
        try:
            got, _ = self._run(taps.cut(graph.program, [point.node]))
        except Exception as error:
            # A part of a pattern may have no kernel of its own.
            reason = " ".join(str(error).split())[:200]
            self._result.notes.append(
                f"Cut at {point.module or 'the model'}, it could not be run: {reason}"
            )
            return math.inf
        pairs = [
            (values[-1], point.place.of(run)) for values, run in zip(got, self._runs, strict=True)
        ]
        ratio = compare(pairs).sqnr_db
        return _or_more(ratio)

    def _run(self, program: ExportedProgram) -> tuple[list[list[Any]], set[str]]:
        """Lowers a program and runs it; returns its outputs by sample, and its backends."""
        file = self._compare.lower(self._name, program)
        described = tables.describe_methods(pte.read(file).program)
        backends = {name for method in described for name in method["backends"]}
        cases = cases_of(self._name, self._samples)
        return [tensors(values) for values in self._compare.run(file, cases)], backends


def _namespaces(program: ExportedProgram) -> set[str]:
    return {module_values.namespace(node) for node in program.graph.nodes}


def cases_of(method: str, samples: Sequence[tuple[Any, ...]]) -> list[Case]:
    """Inputs as a program takes them."""
    return [
        Case(method, number, False, plain(leaves(inputs), f'method "{method}"'), ())
        for number, inputs in enumerate(samples)
    ]


def tensors(values: Sequence[Any]) -> list[Any]:
    """Outputs of a program as torch has them."""
    return [to_torch(value) if isinstance(value, Array) else value for value in values]


def _fall(point: Point, before: float, ratio: float, found_by: str) -> Fall:
    node = point.node
    operator = "" if point.is_lost else operators.name(node)
    line = operators.line_of(node).rpartition("/")[2]
    return Fall(point.module, operator, line, before, ratio, found_by)


def _fall_is_at(fall: Fall, point: Point, compared: Mapping[Point, Compared]) -> bool:
    each = compared.get(point)
    return each is not None and point.module == fall.module and each.sqnr_db == fall.sqnr_db


def compare(pairs: Sequence[tuple[Any, torch.Tensor]]) -> Compared:
    """Compares tensors with the expected ones, all as one signal.

    Args:
      pairs: of one value, by sample.
    """
    if any(not isinstance(got, torch.Tensor) or got.shape != e.shape for got, e in pairs):
        return Compared(-math.inf, math.inf)
    got = torch.cat([g.reshape(-1) for g, _ in pairs])
    expected = torch.cat([e.reshape(-1) for _, e in pairs])
    if not expected.numel():
        return Compared(None, 0.0)
    distance = (got.double() - expected.double()).abs()
    largest = float(distance.nan_to_num(nan=0.0, posinf=math.inf).max())
    if not expected.is_floating_point() or not bool((expected != 0).any()):
        return Compared(None, largest)
    return Compared(sqnr_db(got, expected), largest)


def _worse(one: Compared | None, other: Compared) -> Compared:
    if one is None or one.sqnr_db is None:
        return other if one is None or other.sqnr_db is not None else one
    if other.sqnr_db is None:
        return one
    return min(one, other, key=lambda each: each.sqnr_db)  # type: ignore[arg-type,return-value]


def _or_more(ratio: float | None) -> float:
    return math.inf if ratio is None else ratio


def _differ(plain_outputs: Compared, tapped: Compared, most: float) -> bool:
    """Tells whether outputs with taps and without are not equally far from the eager model's."""
    one, other = (min(_or_more(c.sqnr_db), most) for c in (plain_outputs, tapped))
    return one != other and abs(one - other) > _SAME_DB


def _start(program: ExportedProgram, values: Sequence[Mapping[str, torch.Tensor]]) -> float:
    """The ratio that a program's number formats allow for, in dB."""
    bits = [n for n in map(_bits, program.graph.nodes) if n]
    if bits:
        return min(_BITS[min(known for known in _BITS if known >= n)] for n in bits)
    dtypes = {value.dtype for each in values for value in each.values()}
    return min((_FORMATS[d] for d in dtypes if d in _FORMATS), default=_FORMATS[torch.float32])


def _bits(node: Node) -> int:
    """Bits of what a node quantizes or dequantizes; 0: it does neither."""
    if node.op != "call_function" or not module_values.is_quantization(node):
        return 0
    numbers = [a for a in node.args if isinstance(a, int) and not isinstance(a, bool)]
    if len(numbers) < 2 or numbers[-1] <= numbers[-2]:
        return 8
    return min(16, (numbers[-1] - numbers[-2]).bit_length())


def _start_of_runtime(
    start: float, backends: Set[str], compared: Mapping[Point, Compared]
) -> float:
    if backends <= {XNNPACK}:
        return start
    best = [each.sqnr_db for each in compared.values() if each.sqnr_db is not None]
    return min(start, max([*best, _OF_DELEGATES]))


def db(ratio: float | None) -> str:
    """A ratio for people."""
    if ratio is None:
        return "–"
    if math.isfinite(ratio):
        return f"{ratio:.1f} dB"
    return "the same" if ratio > 0 else "far off"
