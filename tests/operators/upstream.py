"""Scripts of docs/support/upstream for one accelerator still show what they are about.

    python -m tests.operators.upstream --prefix qnn_

Each runs in a process of its own, with upstream's API. No wheel for Linux has MLX or Vulkan:
instead, programs run in the emulator, or in the runtime for Android, of et_program_test.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path

import torch
from etbuild import Options, RecipeContext
from etlower import arrays, flags, sources
from etlower.cases import outputs_of
from runner import runtime

from tests.operators.trial import tensor_of

_FOLDER = Path("docs/support/upstream")
_BINDINGS = "executorch.extension.pybindings.portable_lib"


def main() -> None:
    """Runs the scripts; ends with 1 if one does not find its fault."""
    parser = argparse.ArgumentParser(prog="upstream", description=__doc__)
    parser.add_argument("--flags", type=Path, required=True, help="of the recipe's target")
    parser.add_argument("--prefix", required=True, help="of the scripts' names")
    options = parser.parse_args()
    # The recipe is not made, as that mends some of what the scripts show; its modules are used.
    request = flags.parse(["lower", "--output=net", *flags.expand([f"@{options.flags}"])])
    sources.install(Path(tempfile.mkdtemp()), request.sources, request.roots)
    _PREPARED.get(options.prefix, lambda: None)()
    sys.path.insert(0, str(_FOLDER.absolute()))
    scripts = sorted(_FOLDER.glob(f"{options.prefix}*.py"))
    gone = [script.name for script in scripts if not _shows(script)]
    if gone or not scripts:
        sys.exit(f"Nothing is wrong any more in: {', '.join(gone) or options.prefix}")


def _shows(script: Path) -> bool:
    """Runs a script in a copy of this process."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(status)


class _Loaded:
    """Replaces upstream's bindings that were built with MLX or Vulkan."""

    def __init__(self, buffer: bytes) -> None:
        path = Path(tempfile.mkdtemp(), "net.pte")
        path.write_bytes(buffer)
        self._program = runtime.Program(path)

    def run_method(self, name: str, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs a method."""
        given = [arrays.of_torch(value) for value in inputs]
        return [tensor_of(value) for value in outputs_of(self._program, name, given)]


def _replace_bindings() -> None:
    bindings = types.ModuleType(_BINDINGS)
    bindings._load_for_executorch_from_buffer = lambda buffer: _Loaded(bytes(buffer))  # type: ignore[attr-defined]
    sys.modules[_BINDINGS] = bindings


def _prepare_mlx() -> None:
    import mlx_sources

    mlx_sources.make_sources("//:net")
    _replace_bindings()


def _prepare_qnn() -> None:
    import qualcomm_recipes

    qualcomm_recipes.load_libraries(RecipeContext(Options({}, "//:net"), "//:net"))


_PREPARED = {"mlx_": _prepare_mlx, "qnn_": _prepare_qnn, "vulkan_": _replace_bindings}


if __name__ == "__main__":
    main()
