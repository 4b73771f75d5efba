"""Making upstream's ExportRecipe from a recipe target: parameters of builders, lists, messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError, Options, RecipeContext
from etlower import recipe
from ettune import choices
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.export import ExportRecipe
from request_files import install, request

pytestmark = pytest.mark.usefixtures("clean_imports")

Make = Callable[..., ExportRecipe]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes the recipe //r:own of a function."""

    def made(builder: Callable[..., Any], base: Any = None, **options: str) -> ExportRecipe:
        functions = {"own:build": builder, "base:build": lambda: base}
        monkeypatch.setattr(recipe, "load", lambda reference, *_: functions[reference])
        node = {"label": "//r:own", "builder": "own:build", "options": options, "base": None}
        if base is not None:
            node["base"] = {"label": "//r:base", "builder": "base:build", "options": {}}
        return recipe.make(request(recipe=node))

    return made


def named(name: Any) -> ExportRecipe:
    """A recipe that shows a value as its name."""
    return ExportRecipe(name=repr(name))


def test_a_builder_without_parameters(make: Make) -> None:
    assert make(lambda: named("plain")).name == "'plain'"


def test_any_first_parameter_is_the_context(make: Make) -> None:
    def build(anything: RecipeContext) -> ExportRecipe:
        assert isinstance(anything.options, Options)
        return named((anything.label, dict(anything.options), anything.base))

    assert make(build, n="1").name == "('//r:own', {'n': '1'}, None)"

    def keyword(*, ctx: RecipeContext) -> ExportRecipe:
        return named(ctx.label)

    assert make(keyword).name == "'//r:own'"


def test_options_by_name_have_the_type_of_their_annotation(make: Make) -> None:
    def build(ctx: Any, size: int, fast: bool, rate: float, kind: str, rest: int = 7) -> Any:
        return named((ctx.label, size, fast, rate, kind, rest))

    # An annotation is a string here, and a type without the future import.
    assert isinstance(inspect.signature(build).parameters["size"].annotation, str)
    given = {"size": "3", "fast": "yes", "rate": "0.5", "kind": "3"}
    expected = "('//r:own', 3, True, 0.5, '3', 7)"
    assert make(build, **given).name == expected
    types = {"size": int, "fast": bool, "rate": float, "kind": str, "rest": int}
    build.__annotations__ = types
    assert make(build, **given).name == expected
    assert make(build, **given, rest="8").name.endswith("8)")


def test_without_an_annotation_the_default_tells_the_type(make: Make) -> None:
    def build(size=32, fast=True, rate=0.1, kind="a", any=None):
        return named((size, fast, rate, kind, any))

    assert make(build).name == "(32, True, 0.1, 'a', None)"
    given = {"size": "64", "fast": "false", "rate": "2", "kind": "1", "any": "1"}
    assert make(build, **given).name == "(64, False, 2.0, '1', '1')"


def test_all_options_at_once(make: Make) -> None:
    def build(options: Options, **rest: str) -> ExportRecipe:
        return named((options.integer("b", 0), rest))

    assert make(build, b="2", a="1").name == "(2, {'a': '1', 'b': '2'})"

    def first(options: Options, b: int) -> ExportRecipe:
        return named((dict(options), b))

    assert make(first, b="2", a="1").name == "({'a': '1', 'b': '2'}, 2)"

    def some(ctx: Any, a: int, **rest: str) -> ExportRecipe:
        return named((ctx.label, a, rest))

    assert make(some, b="2", a="1").name == "('//r:own', 1, {'b': '2'})"


def test_the_base_is_made_first(make: Make) -> None:
    base = ExportRecipe(name="the base")

    def build(base: ExportRecipe, size: int = 1) -> ExportRecipe:
        return named((base.name, size))

    assert make(build, base, size="2").name == "('the base', 2)"
    assert make(lambda ctx: ctx.base, base) is base
    assert make(lambda base: named(base)).name == "None"


def test_files_of_a_recipe(tmp_path: Path) -> None:
    install(
        tmp_path,
        rules__own="from executorch.export import ExportRecipe\n"
        "def build(ctx): return ExportRecipe(name=str(ctx.file('t.json')))",
    )
    node = {"label": "//r:own", "builder": "rules.own:build", "data": ["_main/r/t.json"]}
    files = {"_main/r/t.json": Path("/t"), "_main/other/t.json": Path("/other")}
    assert recipe.make(request(recipe=node, recipe_data=files)).name == "/t"


def test_a_missing_option_says_how_to_give_it(make: Make) -> None:
    def build(ctx: Any, size: int) -> ExportRecipe:
        raise AssertionError

    with pytest.raises(BuildError) as caught:
        make(build)
    assert str(caught.value) == (
        '//r:own: its builder needs the option "size", which is not given.\n'
        'Add options = {"size": "…"} to the recipe.'
    )


def test_a_first_parameter_of_a_plain_type_is_an_option(make: Make) -> None:
    def build(size: int) -> ExportRecipe:
        return named(size)

    assert make(build, size="3").name == "3"
    for annotation in ("int", int, str, float, bool):
        build.__annotations__["size"] = annotation
        with pytest.raises(BuildError, match='^//r:own: its builder needs the option "size"'):
            make(build)


def test_a_wrong_value_names_the_option(make: Make) -> None:
    def build(size: int = 1, fast: bool = False, rate: float = 1.0) -> ExportRecipe:
        raise AssertionError

    for name, expected in (
        ("size", "a whole number"),
        ("fast", "true or false"),
        ("rate", "a number"),
    ):
        with pytest.raises(BuildError) as caught:
            make(build, **{name: "much"})
        assert str(caught.value) == f'//r:own: option "{name}": got "much", expected {expected}.'


def test_an_option_that_the_builder_can_not_see_is_an_error(make: Make) -> None:
    def build(group_size: int = 32, base: Any = None) -> ExportRecipe:
        return named(group_size)

    with pytest.raises(BuildError) as caught:
        make(build, group_szie="64")
    assert str(caught.value) == (
        '//r:own: unknown option "group_szie". Its builder takes only: group_size.'
    )
    with pytest.raises(BuildError) as caught:
        make(lambda: named(1), size="64")
    assert str(caught.value) == '//r:own: unknown option "size". Its builder takes none.'


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "NoneType"), (XNNPackRecipeType.FP32, "XNNPackRecipeType"), ({}, "dict")],
)
def test_a_builder_must_return_a_recipe(make: Make, value: Any, kind: str) -> None:
    with pytest.raises(BuildError) as caught:
        make(lambda: value)
    assert str(caught.value) == (
        f'//r:own: builder "own:build" returned a {kind}, expected an '
        "executorch.export.ExportRecipe."
    )


def test_a_missing_builder_is_told_of_the_recipe(tmp_path: Path) -> None:
    install(tmp_path, rules__few="def other(): pass")
    node = {"label": "//r:own", "builder": "rules.few:build"}
    with pytest.raises(BuildError, match=r'^//r:own: builder = "rules.few:build": .* are: other\.'):
        recipe.make(request(recipe=node))


def test_recipes_of_a_list_are_combined(tmp_path: Path) -> None:
    install(
        tmp_path,
        rules__both="from executorch.export import ExportRecipe\n"
        "from executorch.backends.xnnpack.recipes import XNNPackRecipeType\n"
        "def quiet(): return ExportRecipe(name='quiet', strict=False)\n"
        "def fp32(): return ExportRecipe.get_recipe(XNNPackRecipeType.FP32)\n",
    )
    first, second = (
        {"label": f"//r:{name}", "builder": f"rules.both:{name}"} for name in ("fp32", "quiet")
    )
    node = {"label": "//r:both", "recipes": [first, first]}
    result = recipe.make(request(recipe=node))
    assert len(result.lowering_recipe.partitioners) == 2
    node = {"label": "//r:both", "recipes": [first, second]}
    with pytest.raises(BuildError) as caught:
        recipe.make(request(recipe=node))
    assert caught.value.what.startswith(
        "//r:both: the recipes //r:fp32, //r:quiet cannot be combined: "
    )
    assert caught.value.hint == "Choose recipes that agree, or write a builder that resolves it."


def tuned(path: str = "") -> dict[str, Any]:
    """The tree of an et_tuned_recipe with two choices, and the file that has the choice."""
    builders = ("fp32", "int8_dynamic_act_int4_weight")
    choices = [
        {"label": f"//r:{name}", "builder": f"xnnpack_recipes:{name}", "options": {}, "base": None}
        for name in builders
    ]
    return {"label": "//r:tuned", "choices": choices, "chosen": path}


def test_a_choice_gives_layers_their_recipes(tmp_path: Path) -> None:
    """The first recipe is for all layers that the file does not give another one."""
    file = tmp_path / "tuned.chosen.json"
    file.write_text('{"layers": {"head": 0, "layers.0": 1, "odd[1]": 1}}')
    made = recipe.make(request(recipe=tuned("_main/t.json"), recipe_data={"_main/t.json": file}))
    (owners,) = made.quantization_recipe.owners
    assert [(o.pattern, o.label) for o in owners.overrides] == [
        ("layers.0", "//r:int8_dynamic_act_int4_weight"),
        ("odd[[]1]", "//r:int8_dynamic_act_int4_weight"),
    ]
    assert [owners.of(name) for name in ("head", "layers.0.up", "odd[1]")] == [-1, 0, 1]
    assert owners.label == "//r:tuned"


def test_a_choice_without_layers_is_its_first_recipe(tmp_path: Path) -> None:
    file = tmp_path / "tuned.chosen.json"
    file.write_text('{"layers": {"head": 0}}')
    made = recipe.make(request(recipe=tuned("t.json"), recipe_data={"t.json": file}))
    assert made.quantization_recipe is None


def test_what_is_measured_of_a_recipe() -> None:
    """All choices, or else a layer with the recipe and without it."""
    labels = [choice.label for choice in choices.of_request(request(recipe=tuned()))]
    assert labels == ["//r:fp32", "//r:int8_dynamic_act_int4_weight"]
    alone = tuned()["choices"][1]
    labels = [choice.label for choice in choices.of_request(request(recipe=alone))]
    assert labels == ["not quantized", "//r:int8_dynamic_act_int4_weight"]
