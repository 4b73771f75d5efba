"""Arguments of model code and recipes; nothing here needs torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from etbuild import BuildError, ModelContext, Options


def context(*files: str, **arguments: str) -> ModelContext:
    """A context with files of these places."""
    return ModelContext(arguments, {f: Path("/real") / f for f in files}, "//x:m")


def test_files() -> None:
    """By name, and by as many folders as it takes."""
    ctx = context("a/w.bin", "b/w.bin", "b/model.gguf")
    assert ctx.file("model.gguf") == Path("/real/b/model.gguf")
    assert ctx.file("a/w.bin") == Path("/real/a/w.bin")
    with pytest.raises(BuildError, match=r'"w.bin" is ambiguous: a/w.bin, b/w.bin'):
        ctx.file("w.bin")
    with pytest.raises(
        BuildError, match=r'not in its data\. Available.*\n.*ask for "b/model.gguf"'
    ):
        ctx.file("modell.gguf")
    with pytest.raises(BuildError, match="the target has no data"):
        context().file("w.bin")


def test_arguments() -> None:
    """With and without defaults."""
    ctx = context(width="8")
    assert ctx.arg("width") == "8"
    assert ctx.arg("depth", "2") == "2"
    with pytest.raises(BuildError, match='needs the argument "depth", and got: width'):
        ctx.arg("depth")


def test_options() -> None:
    """Each type, its default and its message."""
    options = Options({"n": "4", "on": "yes", "f": "1.5", "t": "x"}, "//x:r")
    assert options.integer("n", 1) == 4
    assert options.integer("absent", 7) == 7
    assert options.boolean("on", False) is True
    assert options.number("f", 0.0) == 1.5
    assert options.text("t", "") == "x"
    with pytest.raises(BuildError, match='"n": got "4", expected a whole number of at least 5'):
        options.integer("n", 1, minimum=5)
    with pytest.raises(BuildError, match='"t": got "x", expected true or false'):
        options.boolean("t", False)
    with pytest.raises(BuildError, match='"t": got "x", expected one of a, b'):
        options.text("t", "a", choices=["a", "b"])
    with pytest.raises(BuildError, match='unknown option "f". It takes: n, on, t'):
        options.only("n", "on", "t")


def test_imports_without_torch() -> None:
    """Model code can be imported and linted where torch is missing."""
    code = "import sys; sys.modules['torch'] = None; import etbuild; etbuild.Method(1, ())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
