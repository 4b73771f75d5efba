"""Passes for the recipes of backends that take less than upstream's common path gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from etbuild.errors import BuildError

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def static_shapes(label: str, backend: str) -> Callable[[str, ExportedProgram], ExportedProgram]:
    """A pass for `ExportRecipe.aten_transform_passes` that refuses dynamic shapes with a sentence.

    Args:
      label: of the recipe, for messages.
      backend: its name, for messages.

    Returns:
      The pass: raises BuildError for a method with dynamic shapes.

    Example:

        ExportRecipe(name="npu", aten_transform_passes=[static_shapes(ctx.label, "our NPU")], …)
    """

    def check(method: str, program: ExportedProgram) -> ExportedProgram:
        if program.range_constraints:
            ranges = ", ".join(
                f"{symbol} in {bounds.lower} to {bounds.upper}"
                for symbol, bounds in sorted(program.range_constraints.items(), key=str)
            )
            raise BuildError(
                f'{label}: the method "{method}" has dynamic shapes ({ranges}), and {backend} '
                "takes static ones only.",
                "Give the model methods of fixed sizes (without dynamic_shapes), for example one "
                "for reading a prompt and one for a single token.",
            )
        return program

    return check
