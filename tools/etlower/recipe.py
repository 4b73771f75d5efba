"""Makes upstream's ExportRecipe from a recipe target. Upstream marks that API experimental."""

from __future__ import annotations

import glob
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from etbuild import BuildError, Options, RecipeContext
from etlink.container import REBUILD
from etlink.json_file import read_object
from executorch.export import ExportRecipe

from etlower.flags import MAIN, Request
from etlower.overrides import Override, combined, mixed
from etlower.sources import load

# Name of the choice to leave a layer as it is.


def make(request: Request) -> ExportRecipe:
    """The recipe of a request.

    Raises:
      BuildError: its builder is missing, takes something else, or returns no ExportRecipe; the
        recipes of a list contradict each other.
    """
    return of_tree(request.recipe, request)


def _tuned(node: Mapping[str, Any], request: Request) -> ExportRecipe:
    """The recipes of a list, each for the layers that a file chooses it for."""
    chosen = read_object(request.recipe_data[node["chosen"]], "is not a choice", REBUILD)
    parts = [of_tree(part, request) for part in node["choices"]]
    found = [
        Override(glob.escape(name), node["choices"][number]["label"], parts[number])
        for name, number in chosen["layers"].items()
        if number
    ]
    return mixed(parts[0], found, node["label"]) if found else parts[0]


def of_tree(node: Mapping[str, Any], request: Request) -> ExportRecipe:
    """Makes the recipe of a tree of builders, options and overrides, as a request has it."""
    made = _tuned(node, request) if node.get("chosen") else _without_overrides(node, request)
    found = [
        Override(o["pattern"], o["recipe"]["label"], of_tree(o["recipe"], request))
        for o in node.get("overrides") or []
    ]
    return mixed(made, found, node["label"]) if found else made


def _without_overrides(node: Mapping[str, Any], request: Request) -> ExportRecipe:
    label = node["label"]
    if node.get("recipes"):
        parts = [of_tree(part, request) for part in node["recipes"]]
        try:
            return combined(parts)
        except ValueError as error:
            names = ", ".join(part["label"] for part in node["recipes"])
            raise BuildError(
                f"{label}: the recipes {names} cannot be combined: {error}.",
                "Choose recipes that agree, or write a builder that resolves it.",
            ) from error
    base = of_tree(node["base"], request) if node.get("base") else None
    function = load(node["builder"], label, "builder")
    files = {path.removeprefix(MAIN): request.recipe_data[path] for path in node.get("data", [])}
    options = Options(node.get("options", {}), label)
    context = RecipeContext(
        options,
        label,
        files,
        base,
        qat=request.quantize == "qat",
        emulated=request.emulated,
        allow_inexact=tuple(node.get("allow_inexact", ())),
    )
    recipe = call(function, context, label)
    if not isinstance(recipe, ExportRecipe):
        raise BuildError(
            f'{label}: builder "{node["builder"]}" returned a {type(recipe).__name__}, expected an '
            "executorch.export.ExportRecipe."
        )
    return recipe


def call(function: Callable[..., Any], context: RecipeContext, label: str) -> Any:
    """Calls a builder with what its parameters ask for.

    A parameter named as an option gets its value; `options` gets all of them, `base` the recipe
    that is extended; any other first parameter gets the RecipeContext.

    Raises:
      BuildError: an option is missing, or is one that the builder can't see.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    left = dict(context.options)
    sees_all = False
    parameters = inspect.signature(function).parameters
    for number, (name, parameter) in enumerate(parameters.items()):
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            named.update(left)
            sees_all = True
        elif name in left:
            named[name] = _as_annotated(left.pop(name), parameter, label)
        elif name == "options":
            named[name] = context.options
            sees_all = True
        elif name == "base":
            named[name] = context.base
        elif number == 0 and parameter.default is parameter.empty and not _kind(parameter):
            sees_all = True
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[name] = context
            else:
                positional.append(context)
        elif parameter.default is parameter.empty:
            raise BuildError(
                f'{label}: its builder needs the option "{name}", which is not given.',
                f'Add options = {{"{name}": "…"}} to the recipe.',
            )
    if left and not sees_all:
        known = [name for name in parameters if name != "base"]
        raise BuildError(
            f'{label}: unknown option "{min(left)}". Its builder takes '
            + (f"only: {', '.join(sorted(known))}." if known else "none.")
        )
    return function(*positional, **named)


def _kind(parameter: inspect.Parameter) -> str:
    """Name of a parameter's type, where it is one that an option can have; else empty."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        # Without an annotation the default tells.
        annotation = type(parameter.default)
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name if name in ("bool", "int", "float", "str") else ""


def _as_annotated(value: str, parameter: inspect.Parameter, label: str) -> Any:
    kind = _kind(parameter)
    options = Options({parameter.name: value}, label)
    if kind == "bool":
        return options.boolean(parameter.name, False)
    if kind == "int":
        return options.integer(parameter.name, 0)
    if kind == "float":
        return options.number(parameter.name, 0.0)
    return value
