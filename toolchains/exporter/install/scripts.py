"""Programs of packages (`vela`, `model-converter`), in a folder that can stand on PATH."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from .errors import InstallError
from .packages import Installed

_LAUNCHER = """\
#!/bin/sh
# Starts {module}:{function} in the Python environment that this file lies in.
root=$(dirname "$(dirname "$(readlink -f "$0")")")
exec "$root/python/bin/{python}" -B -I -c '
import sys
sys.path.insert(0, sys.argv.pop(1) + "/site-packages")
sys.argv[0] = "{name}"
from {module} import {top}
sys.exit({function}())
' "$root" "$@"
"""

_LAYER_LAUNCHER = """\
#!/bin/sh
# Starts {module}:{function} with the interpreter and the import path of the process that calls it.
exec "${{RULES_EXECUTORCH_INTERPRETER:?is set by the exporter}}" -B -I -c '
import os, sys
sys.path[:] = os.environ["RULES_EXECUTORCH_PATH"].split(os.pathsep)
sys.argv[0] = "{name}"
from {module} import {top}
sys.exit({function}())
' "$@"
"""


def launcher(name: str, target: str, python: str) -> str:
    """A shell script without absolute paths that calls an entry point, "module:function".

    Args:
      python: name of the environment's interpreter; empty: the one that the exporter runs with.
    """
    module, _, function = target.split("[")[0].strip().partition(":")
    return (_LAUNCHER if python else _LAYER_LAUNCHER).format(
        name=name, module=module, function=function, top=function.split(".")[0], python=python
    )


def create(names: Iterable[str], installed: Installed, output: Path, python: str) -> None:
    """Puts programs of installed packages into the new folder `output`; `python` as above."""
    points, files = installed.entry_points, installed.programs
    output.mkdir()
    for name in sorted(names):
        if name in points:
            (output / name).write_text(launcher(name, points[name], python), encoding="utf-8")
        elif name in files:
            shutil.copyfile(files[name], output / name)
        else:
            raise InstallError(
                f"{name}: no package of the locks has a program of this name. Available: "
                f"{', '.join(sorted({*points, *files})) or 'none'}. Add its package to a lock, or "
                "correct the name."
            )
        (output / name).chmod(0o755)
