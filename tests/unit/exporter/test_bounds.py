"""A program takes every size that its export allows, or isn't built."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etfast import path
from etlower import bounds, stages
from etlower.progress import Progress
from executorch.exir import EdgeCompileConfig
from executorch.exir.pass_base import ExportPass
from executorch.export import ExportRecipe
from executorch.export.recipe import LoweringRecipe
from quiet_torch import run
from torch import Tensor
from torch.export import Dim
from torch.fx.passes.infra.pass_base import PassResult

P = Dim("p", min=2, max=9)


class Net(torch.nn.Module):
    """A function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Any) -> Any:
        return self.function(x, y)


def portable(**more: Any) -> ExportRecipe:
    return ExportRecipe(name="portable", **more)


def unchecked() -> ExportRecipe:
    config = EdgeCompileConfig(_check_ir_validity=False)
    return portable(lowering_recipe=LoweringRecipe(edge_compile_config=config))


def quantized() -> ExportRecipe:
    name = "//backends/xnnpack:int8_static_per_tensor"
    return xnnpack_recipes.int8_static_per_tensor(RecipeContext(Options({}, name), name))


def lowered(
    function: Callable[..., Any],
    y: Any,
    shapes: Any,
    recipe: ExportRecipe | None = None,
    lowering: str = "fast",
    rows: int = 3,
) -> list[Any]:
    """The sizes of the inputs of a program; None: an input is no tensor."""
    method = Method(Net(function).eval(), (torch.randn(rows, 8), y), shapes)
    with path.chosen(lowering):
        manager = stages.run(
            ModelSpec({"forward": method}), recipe or portable(), Progress(), "//t:net", False
        )
    plan = manager.executorch_program.execution_plan[0]
    return [getattr(plan.values[value].val, "sizes", None) for value in plan.inputs]


def chunks(x: Tensor, y: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return a * b + y


def slices(x: Tensor, y: Tensor) -> Tensor:
    return x[:, :4] * x[:, 4:] + y


@pytest.mark.parametrize("lowering", ["fast", "stock"])
def test_a_list_of_results(lowering: str) -> None:
    """Upstream's check of graphs would fix the size: it takes the first tensor for the list."""
    assert lowered(chunks, torch.randn(4), ({0: P}, None), lowering=lowering) == [[9, 8], [4]]


def test_a_fixed_size() -> None:
    """A pass that does so is named."""

    class Fixes(ExportPass):
        def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
            int(graph_module.graph.find_nodes(op="placeholder")[0].meta["val"].shape[0])
            return PassResult(graph_module, False)

    lowering = LoweringRecipe(edge_transform_passes=[_edge_passes(Fixes())])
    with pytest.raises(BuildError) as caught:
        lowered(slices, torch.randn(4), ({0: P}, None), portable(lowering_recipe=lowering))
    assert caught.value.what == (
        '//t:net: the method "forward": input 0 ("x"), dimension 0, lost its range: got at most 3, '
        "expected at most 9, as exported."
    )
    assert "took the example's size, in " in caught.value.hint


@pytest.mark.parametrize("lowering", ["fast", "stock"])
@pytest.mark.parametrize("stage", ["aten", "edge"])
def test_an_example_whose_sizes_are_equal(stage: str, lowering: str) -> None:
    """A pass that compares them is told what is so for all sizes, and the range stays."""
    answers = []

    def ask(graph: torch.fx.GraphModule) -> None:
        rows, columns = graph.graph.find_nodes(op="placeholder")[0].meta["val"].shape
        asked = (rows == columns, rows != 8, rows * 2 == 16, rows % 4 == 0, rows > 1)
        answers.append([bool(answer) for answer in asked])

    def aten(_method: str, program: torch.export.ExportedProgram) -> Any:
        ask(program.graph_module)
        return program

    class Edge(ExportPass):
        def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
            ask(graph_module)
            return PassResult(graph_module, False)

    more: dict[str, Any] = {"aten_transform_passes": [aten]}
    if stage == "edge":
        more = {"lowering_recipe": LoweringRecipe(edge_transform_passes=[_edge_passes(Edge())])}
    sizes = lowered(slices, torch.randn(4), ({0: P}, None), portable(**more), lowering, rows=8)
    assert sizes == [[9, 8], [4]]
    assert answers == [[False, True, False, False, True]]


def _edge_passes(each: ExportPass) -> Callable[..., Any]:
    return lambda _method, _program: [each]


def test_a_pass_that_fixes_a_size_before_a_lowering() -> None:
    """It is refused as one of a lowering is."""

    def fix(_method: str, program: torch.export.ExportedProgram) -> Any:
        int(program.graph.find_nodes(op="placeholder")[0].meta["val"].shape[0])
        return program

    with pytest.raises(BuildError, match="dimension 0, lost its range: got at most 3, expected"):
        lowered(slices, torch.randn(4), ({0: P}, None), portable(aten_transform_passes=[fix]))


@pytest.mark.parametrize("recipe", [portable, quantized])
def test_views_of_an_example_whose_sizes_are_equal(recipe: Callable[[], ExportRecipe]) -> None:
    """Rules of operators ask whether shapes are equal."""

    def views(x: Tensor, y: Tensor) -> Tensor:
        return (y @ x.mT).reshape(4, -1)

    weight = torch.randn(16, 8)
    assert lowered(views, weight, ({0: P}, None), recipe(), rows=8) == [[9, 8], [16, 8]]


def test_passes_that_fail_with_dynamic_shapes() -> None:
    """The sentence has the shapes, and the place where a pass failed; others fail as they do."""

    def fail(_edge: Any) -> Any:
        raise TypeError("unhashable type: non-nested SymInt")

    lowering = LoweringRecipe(edge_manager_transform_passes=[fail])
    with pytest.raises(BuildError) as caught:
        lowered(slices, torch.randn(4), ({0: P}, None), portable(lowering_recipe=lowering))
    assert re.fullmatch(
        r'//t:net: the method "forward" has dynamic shapes \(s\d+ in 2 to 9\), and could not be '
        r"lowered with them: .*:\d+: TypeError: unhashable type: non-nested SymInt",
        caught.value.what,
    )
    with pytest.raises(TypeError):
        lowered(slices, torch.randn(4), None, portable(lowering_recipe=lowering))


def test_recipes_without_the_check() -> None:
    shapes = ({0: P}, None)
    assert lowered(slices, torch.randn(4), shapes) == [[9, 8], [4]]
    assert lowered(chunks, torch.randn(4), shapes, unchecked()) == [[9, 8], [4]]
    assert lowered(chunks, torch.randn(4), shapes, quantized()) == [[9, 8], [4]]


@pytest.mark.parametrize("dimension", [Dim("n"), Dim.AUTO, Dim.DYNAMIC], ids=str)
def test_no_upper_bound(dimension: Any) -> None:
    """Upstream would plan memory for the example."""
    with pytest.raises(BuildError) as caught:
        lowered(lambda x, y: x + y, torch.randn(8), ({0: dimension}, None))
    assert caught.value.what == (
        '//t:net: the method "forward": input 0 ("x"), dimension 0, has no upper bound: ExecuTorch '
        "plans memory for the largest size, and would take 3, that of the example."
    )
    assert caught.value.hint == (
        'Give the dimension a max in dynamic_shapes, as in Dim("n", max=512).'
    )


def test_an_upper_bound_of_one_of_two_equal_sizes() -> None:
    """Export gives it to both, and upstream's plan to none."""
    shapes = ({0: Dim.AUTO(max=9)}, {0: Dim.AUTO})
    with pytest.raises(BuildError, match="got at most 3, expected at most 9"):
        lowered(lambda x, y: x + y, torch.randn(3, 8), shapes)


def count(x: Tensor, y: int) -> Tensor:
    return torch.arange(y).sum() + x


def few(x: Tensor, y: int) -> Tensor:
    torch._check(y <= 7)
    return count(x, y)


def test_a_result_without_an_upper_bound() -> None:
    """It is planned, too: of a number that is an input, say."""
    with pytest.raises(BuildError) as caught:
        lowered(count, 5, ({0: P}, Dim.DYNAMIC))
    assert caught.value.what.startswith(
        '//t:net: the method "forward": a result of aten.arange.start_out, dimension 0, has no '
        "upper bound"
    )
    assert lowered(few, 5, ({0: P}, Dim.DYNAMIC)) == [[9, 8], None]
    assert lowered(count, 5, ({0: P}, Dim.DYNAMIC(max=7))) == [[9, 8], None]


@pytest.mark.parametrize(
    ("function", "y", "shapes", "expected"),
    [
        (
            lambda x, y: torch.cat([x, y]),
            torch.randn(6, 8),
            ({0: P}, {0: 2 * P}),
            [[9, 8], [18, 8]],
        ),
        (lambda x, y: x + 1, torch.randn(4), ({0: P}, {0: Dim("q", max=11)}), [[9, 8], [11]]),
        (lambda x, y: x * y, 3, ({0: P}, None), [[9, 8], None]),
        (lambda x, y: x + y, torch.randn(3, 8), ({0: P}, {0: P}), [[9, 8], [9, 8]]),
        (lambda x, y: torch.nonzero(x), None, ({0: P}, None), [[9, 8], None]),
        (lambda x, y: x.reshape(3, 8), None, ({0: Dim.AUTO}, None), [[3, 8], None]),
    ],
    ids=["derived", "unused", "constant", "shared", "data", "fixed by the export"],
)
def test_ranges_that_stay(function: Any, y: Any, shapes: Any, expected: Any) -> None:
    """Bounds are those of the export, also where it fixed a size itself."""
    assert lowered(function, y, shapes) == expected


def test_a_second_export() -> None:
    """Quantizing exports a graph again: what the first export allows counts."""
    first = [bounds.Input("x", (9, None)), bounds.Input("n", (None,), tensor=False)]
    bounds.check_export(first, first, "forward", "//t:net")
    for second, message in (
        ([bounds.Input("x", (3, None)), first[1]], r'"x"\), dimension 0, .* expected at most 9'),
        ([bounds.Input("x", (9, 8)), first[1]], r'"x"\), dimension 1, .* got at most 8, .* any'),
        ([first[0], bounds.Input("n", (5,), tensor=False)], r'input 1 \("n"\) lost its range'),
    ):
        with pytest.raises(BuildError, match=message):
            bounds.check_export(first, second, "forward", "//t:net")


def test_the_graph_that_is_quantized_says_what_it_takes() -> None:
    """As the export does from which it comes."""
    program = torch.export.export(
        Net(slices).eval(), (torch.randn(3, 8), torch.randn(4)), dynamic_shapes=({0: P}, None)
    )
    assert bounds.captured(program.module(check_guards=False)) == bounds.exported(program)
    assert bounds.exported(program)[0] == bounds.Input("x", (9, 8))


class OfSeveral(torch.nn.Module):
    """Takes any number of inputs, and adds a multiple that a size gives."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        first, second = inputs
        return torch.add(first, second, alpha=first.shape[0])


def test_quantized_methods_of_several_inputs_have_dynamic_shapes() -> None:
    """The graph that is quantized takes them one by one."""
    size = {0: torch.export.Dim("n", min=2, max=9)}
    inputs = (torch.randn(4, 8), torch.randn(4, 8))
    method = Method(OfSeveral(), inputs, dynamic_shapes=((size, size),), strict=False)
    manager = run(ModelSpec({"forward": method}), quantized())
    [plan] = manager.executorch_program.execution_plan
    assert [plan.values[place].val.sizes for place in plan.inputs] == [[9, 8], [9, 8]]


class Attention(torch.nn.Module):
    """Splits its input into queries, keys and values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.reshape(x.shape[0], -1, 2, 2).mT for part in x.chunk(3, -1))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def test_views_of_a_list_of_results() -> None:
    """Upstream fixes the size and then fails on a view of memory."""
    shapes = ({0: torch.export.Dim("n", min=2, max=7)},)
    method = Method(Attention(), (torch.randn(5, 6, 12),), dynamic_shapes=shapes, strict=False)
    manager = run(ModelSpec({"forward": method}), ExportRecipe(name="any"))
    [plan] = manager.executorch_program.execution_plan
    assert plan.values[plan.inputs[0]].val.sizes == [7, 6, 12]
