"""One rule of what is written out, and as what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.fx import Node


@dataclass(frozen=True)
class Rule:
    """A rule: calls of some operators are written as a function.

    Attributes:
      operators: names of aten operators with overload: "addmm.default".
      applies: tells of a node whether it is to be written out.
      function: what is computed instead, of the operator's own arguments.
      whole: whether operators that torch composes of others stay whole in it.
      constants: tensors for a node that the program stores; `function` takes them before the
        operator's own arguments. Such a rule applies to an exported program's own graph.
      given: what `function` takes instead of the operator's own arguments, of a node.
    """

    operators: tuple[str, ...]
    applies: Callable[[Node], bool]
    function: Callable[..., Any]
    whole: bool = False
    constants: Callable[[Node], Sequence[Tensor]] | None = None
    given: Callable[[Node], Sequence[Any]] | None = None
