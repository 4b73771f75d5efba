"""Names the call of a model that upstream's lowering fails on.

Upstream's passes fail with whatever they come across: a KeyError says nothing of the model. So its
beginnings are lowered, by bisection: the last call of the shortest one that fails is the one.
"""

from __future__ import annotations

import os
import re
import time
import traceback
from collections.abc import Callable, Mapping

from etbuild import BuildError
from torch.export import ExportedProgram
from torch.fx import Node

from etlower import operators, upstream_passes
from etlower.refusals import Snapshot

# For all attempts, in seconds.
_PATIENCE = 60
_MOST_LETTERS = 400
_HINT = (
    "Write it with other operators, move it out of the model, or use another recipe for its layer "
    "(overrides of et_recipe)."
)
_OUT_OF_MEMORY = "can't allocate memory"


def explain(
    error: Exception,
    programs: Mapping[str, ExportedProgram],
    lower: Callable[[str, ExportedProgram], object],
    label: str,
) -> None:
    """Fails with a sentence where upstream failed without one.

    Args:
      error: what was raised; of code of a recipe it stays as it is.
      programs: by method, as they were exported.
      lower: lowers a program that stands for a method; raises what upstream fails with.
      label: of the model.

    Raises:
      BuildError: with the call, its line and its inputs, as far as they are known.
    """
    if _is_told(error):
        return
    end = time.monotonic() + _PATIENCE
    where = f"{label}: upstream's lowering fails on the model"
    for name, program in sorted(programs.items()):
        calls = _failing(error, name, program, lower, end)
        if len(calls) == 1:
            where = (
                f'{label}: the method "{name}" calls {_called(calls[0])} with '
                f"{operators.inputs_of(calls[0])}, and upstream's lowering fails on it"
            )
        elif calls:
            where = (
                f'{label}: upstream\'s lowering fails on the method "{name}", on a call from '
                f"{_called(calls[0])} to {_called(calls[-1])}"
            )
        if calls:
            break
    raise BuildError(f"{where}: {described(error)}.", _HINT) from error


def explain_quantizer(error: Exception, label: str) -> None:
    """Fails with a sentence where upstream's quantizer failed without one.

    Args:
      error: what was raised, with its traceback; of code of a recipe it stays as it is.
      label: of the model.

    Raises:
      BuildError: with the call that the quantizer looked at, as far as it is known.
    """
    if _is_told(error) or upstream_passes.failed_pass(error) is not None:
        return
    node = _looked_at(error)
    what = "the model"
    if node is not None:
        what = f"{_called(node)} with {operators.inputs_of(node)}"
    said = f"{label}: upstream's quantizer fails on {what}: {described(error)}."
    raise BuildError(said, _HINT) from error


def _looked_at(error: Exception) -> Node | None:
    """The last call that is named in the frames which an error went through."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for value in frame.f_locals.values():
            if isinstance(value, Node) and value.op == "call_function":
                found = value
    return found


def _is_told(error: Exception) -> bool:
    """Tells whether an error says enough by itself."""
    is_known = isinstance(error, BuildError | ImportError | MemoryError)
    return is_known or _OUT_OF_MEMORY in str(error) or _is_recipes_own(error)


def _is_recipes_own(error: Exception) -> bool:
    """Tells whether code of a recipe raised an error, whose trace has its line."""
    frames = traceback.extract_tb(error.__traceback__)
    known = ("site-packages", "/backends/", os.path.dirname(__file__), os.path.dirname(os.__file__))
    return bool(frames) and not any(part in frames[-1].filename for part in known)


def described(error: Exception) -> str:
    """An error's type, what it says and where it comes from, in a line."""
    failed = upstream_passes.failed_pass(error)
    if failed is not None:
        return f"{failed[0]}: {described(failed[1])}"
    own = str(error).partition("While executing ")[0]
    said = " ".join(own.split())[:_MOST_LETTERS].rstrip(".: ")
    frames = traceback.extract_tb(error.__traceback__)
    file = frames[-1].filename.rpartition("site-packages/")[2] if frames else ""
    place = f" ({file}:{frames[-1].lineno})" if file else ""
    return f"{type(error).__name__}{f': {said}' if said else ''}{place}"


def _first_words(error: Exception) -> str:
    """An error's type and the beginning of what it says, without names of nodes and places."""
    said = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__} {re.sub(r'[^A-Za-z ]+', '', said)[:40]}"


def _called(node: Node) -> str:
    return f"{operators.name(node) or node.target}{operators.place_of(node)}"


def _failing(
    original: Exception,
    name: str,
    program: ExportedProgram,
    lower: Callable[[str, ExportedProgram], object],
    end: float,
) -> list[Node]:
    def is_lowered(part: ExportedProgram) -> bool:
        try:
            lower(name, part)
        except Exception as error:
            # A beginning may fail on what the whole does not have.
            return _first_words(error) != _first_words(original)
        return True

    try:
        return Snapshot.of(program).refused_among(is_lowered, lambda: time.monotonic() > end)
    except Exception:  # Not every beginning is a program.
        return []
