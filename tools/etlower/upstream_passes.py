"""Says in a sentence which of upstream's passes fails, on which operator, and why."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from importlib.metadata import version

from etbuild import BuildError

# torch's pass manager puts the names of all passes before it into its message.
_FAILED = re.compile(r"^An error occurred when running the '([^']+)' pass")
# torch.fx adds both to what an operator raises in a pass that runs the graph.
_OPERATOR = re.compile(r"call_function\[target=(?:torch\.ops\.)?([\w.]+)\]")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')


@contextlib.contextmanager
def explained(label: str) -> Iterator[None]:
    """Turns a failure of a pass on a graph that is quantized or exported into a sentence.

    What fails later is looked for by bisection (failing_call.py).

    Args:
      label: of the model, for messages.

    Raises:
      BuildError: a pass failed in the body. Other errors go on as they are.

    Example:

        with explained("//models:net"):
            prepare_pt2e(module, quantizer)
    """
    try:
        yield
    except Exception as error:
        found = _FAILED.match(str(error))
        if not found or error.__cause__ is None:
            raise
        cause = error.__cause__
        if isinstance(cause, BuildError):
            raise cause from error
        said = (str(cause).strip().splitlines() or ["no message"])[0].removesuffix(".")
        name = f"{found[1].strip('<>')} of ExecuTorch {version('executorch')}"
        raise BuildError(
            f"{label}: the pass {name} fails{_place(str(cause))}: {type(cause).__name__}: {said}.",
            "Write the layer with other operators, or use another recipe for it (overrides).",
        ) from error


def failed_pass(error: Exception) -> tuple[str, Exception] | None:
    """The pass that failed, "pass ConvertMinMaxPass of ExecuTorch 1.5.1", and why; None: none."""
    found = _FAILED.match(str(error))
    if not found or not isinstance(error.__cause__, Exception):
        return None
    return f"pass {found[1].strip('<>')} of ExecuTorch {version('executorch')}", error.__cause__


def _place(text: str) -> str:
    """The operator and the line of the model that an error's text names: " on aten.x, net.py:3"."""
    operator = _OPERATOR.search(text)
    frames = _FRAME.findall(text)
    on = f" on {operator[1]}" if operator else ""
    return f"{on}, {os.path.basename(frames[-1][0])}:{frames[-1][1]}" if frames else on
