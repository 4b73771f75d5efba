"""Starts a program with the right Python, and where it needs it with a pip in it.

This file keeps to syntax that old interpreters understand, so that a wrong one gets a message and
not a SyntaxError.
"""

# ruff: noqa: UP031

import importlib
import os
import subprocess
import sys
import tempfile

EXPECTED = (3, 11)
# The first with all options that are used; ensurepip for this Python has a newer one.
PIP = 22
_NAME = (
    "(a path, or a name on PATH) in the attribute `python` of python_environment, or in the "
    "environment variable RULES_EXECUTORCH_PYTHON."
)


def wrong_version(version, executable):
    """The message for an interpreter of another version than the locks are for."""
    return (
        "error: %s: wrong version: got Python %d.%d, expected Python %d.%d. Install it and name it "
        % ((executable,) + tuple(version[:2]) + EXPECTED)
    ) + _NAME


def start(module, needs_pip=False):
    """Runs a module's `main` and exits with its code; a pip may be one of a virtual environment."""
    if sys.version_info[:2] != EXPECTED:
        sys.exit(wrong_version(sys.version_info, sys.executable))
    if not needs_pip:
        sys.exit(importlib.import_module(module).main(sys.argv[1:]))
    try:
        from pip import __version__ as version
    except ImportError:
        version = "0"
    if int(version.split(".")[0]) >= PIP:
        sys.exit(importlib.import_module(module).main(sys.argv[1:]))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-I", "-m", "venv", folder]
        if subprocess.run(command, capture_output=True).returncode:
            sys.exit(
                "error: %s: no usable pip: got pip %s and no ensurepip, expected pip %d or newer. "
                "Install pip (on Debian and Ubuntu: python3-pip, or python3.11-venv), or name a "
                "Python that has it %s" % (sys.executable, version, PIP, _NAME)
            )
        python = os.path.join(folder, "bin", "python")
        sys.exit(subprocess.call([python, "-I", "-B"] + sys.argv))
