"""The partitioners of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from executorch.export import ExportRecipe


def partitioners_of_recipe(recipe: ExportRecipe) -> list[Any]:
    """Upstream's partitioners, of all methods where these have their own."""
    chosen = _chosen(recipe)
    if isinstance(chosen, Mapping):
        return [each for own in chosen.values() for each in own]
    return list(chosen)


def partitioners_of_method(recipe: ExportRecipe, method: str) -> list[Any]:
    """The partitioners of a method, in the order in which they are asked."""
    chosen = _chosen(recipe)
    return list(chosen.get(method, []) if isinstance(chosen, Mapping) else chosen)


def _chosen(recipe: ExportRecipe) -> Any:
    lowering = recipe.lowering_recipe
    return (lowering and lowering.partitioners) or []
