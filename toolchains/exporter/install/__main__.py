"""Makes a hermetic Python environment for Bazel actions: `python3.11 -I path/to/install --help`.

Only the Python standard library is used, and this file keeps to syntax that old interpreters
understand, so that a wrong one gets a message and not a SyntaxError.
"""

# ruff: noqa: UP031

import os
import sys

WANTED = (3, 11)


def wrong_version(version, executable):
    """The message for an interpreter of another version than the locks are made for."""
    return (
        "error: the exporter environment needs another Python\n"
        "  where: %s\n"
        "  got: Python %d.%d\n"
        "  wanted: Python %d.%d\n"
        "  what to do: install it and name it in the attribute `python` of python_environment,\n"
        "    or in the environment variable RULES_EXECUTORCH_PYTHON (a path, or a name on PATH)\n"
    ) % ((executable,) + tuple(version[:2]) + WANTED)


if __name__ == "__main__":
    if sys.version_info[:2] != WANTED:
        sys.stderr.write(wrong_version(sys.version_info, sys.executable))
        sys.exit(2)
    if not sys.path or sys.path[0] != os.path.dirname(os.path.abspath(__file__)):
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from exporter_environment.cli import main

    sys.exit(main(sys.argv[1:]))
