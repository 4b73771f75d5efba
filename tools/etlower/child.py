"""Runs one request in a forked child, and reports how it went."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from etbuild.errors import BuildError

from etlower import failure, flags, lower, packages
from etlower.guard import Guard, declared
from etlower.progress import Progress


def execute(arguments: Sequence[str], log: str | None = None) -> tuple[int, str]:
    """Runs a request in this process.

    Args:
      arguments: its command line; `@FILE` stands for the lines of a file.
      log: where the stack trace goes, for messages; None: into the message.

    Returns:
      Exit code and message; the message of a success is empty.
    """
    progress = Progress()
    work = tree = output = Path("/nonexistent")
    label = "the exporter"
    try:
        request = flags.parse(flags.expand(arguments))
        label = request.label
        output = request.output
        # Beside the output: the only folder that every kind of sandbox lets an action write to.
        work = request.output.with_name(f"{request.output.name}.work")
        tree = work / "sources"
        shutil.rmtree(work, ignore_errors=True)
        _make(tree, request)
        _private(work)
        # Elsewhere than the declared files, so that a file can only be found by asking for it.
        os.chdir(work)
        with Guard(label, declared(request, work, packages.installed())).watching():
            lower.run(request, progress, tree)
        return 0, ""
    except BaseException as error:
        # The guard may speak when all is written.
        lower.remove(output)
        if log:
            traceback.print_exc(file=sys.stderr)
            sys.stderr.flush()
        return 1, failure.message(error, label, progress, tree, log)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _make(tree: Path, request: flags.Request) -> None:
    try:
        tree.mkdir(parents=True)
    except OSError as error:
        raise BuildError(
            f"Cannot write to {request.output.parent}: {error.strerror}.",
            "Check the permissions of Bazel's output base and its free space.",
        ) from error


def _private(work: Path) -> None:
    """Points what libraries keep in home and temporary folders to this request's own."""
    for name in ("HOME", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME"):
        folder = work / name.lower()
        folder.mkdir()
        os.environ[name] = str(folder)
    # Where a library has asked before, Python remembers the old folder.
    tempfile.tempdir = None
