"""Updates the exporter's locks: `bazel run …//toolchains/exporter:lock.update`.

The versions of ExecuTorch and PyTorch are those of `executorch.exporter()` in MODULE.bazel. Each
lock that it names has an input beside it (`exporter.in` for `exporter.txt`), which lists the
packages; if it is missing, these rules' input is copied. Arguments go to the program in `lock`:

    bazel run @rules_executorch//toolchains/exporter:lock.update -- --upgrade
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PYTHON = "3.11"
_VARIABLE = "RULES_EXECUTORCH_PYTHON"
_MAIN = "@@//"


class LockError(Exception):
    """A mistake of the user."""


def own_locks(labels: Sequence[str], workspace: Path) -> list[Path]:
    """The files of those locks that lie in the main repository.

    Args:
      labels: canonical, "@@//:exporter.txt".
      workspace: folder of the main repository.

    Raises:
      LockError: there is none.
    """
    locks = []
    for label in labels:
        if label.startswith(_MAIN):
            package, _, name = label.removeprefix(_MAIN).partition(":")
            locks.append(workspace / package / name)
    if not locks:
        raise LockError(
            f"{workspace / 'MODULE.bazel'}: the exporter of this workspace has no lock of its own: "
            f"got locks = {json.dumps(list(labels))}, expected a file of this workspace, such as "
            'locks = ["//:exporter.txt"], which need not exist yet. Name one in the root module\'s '
            "executorch.exporter() tag, and try again."
        )
    return locks


def find_python(environment: Mapping[str, str]) -> str:
    """The CPython that the locks are for.

    Args:
      environment: variables: $RULES_EXECUTORCH_PYTHON, PATH.

    Raises:
      LockError: there is none.
    """
    asked = environment.get(_VARIABLE)
    path = environment.get("PATH")
    for name in [asked] if asked else ["python" + _PYTHON, "python3"]:
        python = shutil.which(name, path=path)
        if python and _version(python) == _PYTHON:
            return python
    raise LockError(
        f"no Python {_PYTHON} to write locks with. Install it and put it on PATH, or set "
        f"{_VARIABLE} to its path."
    )


def _version(python: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def run(request: Mapping[str, object], program: Path, workspace: Path, words: list[str]) -> int:
    """Writes the locks; returns the program's exit code.

    Args:
      request: the contents of lock.json: "locks", "versions".
      program: folder of the program that writes locks.
      workspace: folder of the main repository.
      words: arguments for it.
    """
    command = [find_python(os.environ), "-I", "-B", str(program)]
    for package, version in sorted(request["versions"].items()):
        command.append(f"--version={package}=={version}")
    created = []
    ours = program.parent / "locks"
    locks = own_locks(request["locks"], workspace)
    if all(lock.parent.resolve() == ours.resolve() for lock in locks):
        # In these rules' own repository: all locks, including those of backends.
        locks = []
    for lock in locks:
        source = lock.with_suffix(".in")
        if not source.exists():
            shutil.copyfile(ours / "exporter_cp311.in", source)
            created.append(source)
        command.append(f"--input={source}")
    code = subprocess.run([*command, *words], cwd=workspace, check=False).returncode
    for source in created:
        if code:
            source.unlink()
        else:
            print(f"{source}: a copy of these rules' input; add packages to it", file=sys.stderr)
    return code


def main() -> int:
    """Runs the command."""
    folder = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if not folder:
        print("error: start this with `bazel run`", file=sys.stderr)
        return 1
    here = Path(__file__).absolute()
    request = json.loads((here.parents[3] / sys.argv[1]).read_text())
    # Resolved: the program reads files beside it in the source tree.
    program = (here.parent / "lock/__main__.py").resolve().parent
    try:
        return run(request, program, Path(folder), sys.argv[2:])
    except LockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
