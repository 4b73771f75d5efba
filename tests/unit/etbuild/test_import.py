"""A model's file can be imported where torch is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import etbuild

_BLOCKED = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchao", "executorch", "numpy"):
            raise ImportError("blocked: " + name)

sys.meta_path.insert(0, Block())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter that refuses to import torch."""
    environment = {**os.environ, "PYTHONPATH": str(Path(etbuild.__file__).absolute().parents[1])}
    command = [sys.executable, "-B", "-c", _BLOCKED + code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_all_public_names_are_there_without_torch() -> None:
    names = ", ".join(sorted(etbuild.__all__))
    done = run(
        f"from etbuild import {names}\n"
        "import pkgutil, importlib, etbuild\n"
        "for info in pkgutil.iter_modules(etbuild.__path__):\n"
        "    importlib.import_module('etbuild.' + info.name)\n"
        "print(Method, ModelSpec({'forward': Method(None)}), groups_fit(32).multiple)\n"
    )
    assert done.returncode == 0, done.stderr
    assert "32" in done.stdout


def test_the_block_works() -> None:
    done = run("import torch")
    assert done.returncode != 0
    assert "blocked: torch" in done.stderr
