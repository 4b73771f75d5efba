"""The recipes that a sensitivity is measured of."""

from __future__ import annotations

from dataclasses import dataclass

from etlower import recipe as recipes
from etlower.flags import Request
from executorch.export import ExportRecipe

_FLOAT = "not quantized"


@dataclass(frozen=True)
class Choice:
    """A recipe that layers may have.

    Attributes:
      label: of its target.
      recipe: upstream's object.
    """

    label: str
    recipe: ExportRecipe


def of_request(request: Request) -> list[Choice]:
    """The choices of a request.

    A tree with `choices` has them; the tree of any other recipe means this recipe, or no
    quantization of a layer.
    """
    tree = request.recipe
    if tree.get("choices"):
        return [Choice(node["label"], recipes.of_tree(node, request)) for node in tree["choices"]]
    return [
        Choice(_FLOAT, ExportRecipe(name="float")),
        Choice(tree["label"], recipes.make(request)),
    ]
