"""Turns what went wrong into a message for the person who wrote the target."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path

from etbuild.errors import BuildError

from etlower import sources
from etlower.flags import MAIN
from etlower.progress import Progress

# torch has no exception of its own for this.
_NO_MEMORY = "DefaultCPUAllocator: can't allocate memory"


def message(
    error: BaseException, label: str, progress: Progress, tree: Path, log: str | None
) -> str:
    """Returns the message of a failed request.

    Args:
      error: what was raised.
      label: the target.
      progress: where it happened.
      tree: the import tree, to find the user's own files in the trace.
      log: the file that holds the full stack trace; None: it is part of the message.
    """
    lines = [f"ERROR: {label}: {_headline(error, progress)}"]
    if not isinstance(error, BuildError):
        own = _own_frames(error, tree)
        if own:
            lines.append("In your code:")
            lines.extend(f"  {line}" for line in own)
    if progress.line():
        lines.append(f"Stages: {progress.line()}.")
    if not isinstance(error, BuildError):
        trace = "".join(traceback.format_exception(error))
        if log:
            lines.append(f"The full stack trace is in {log}")
        else:
            lines.append("The full stack trace:")
            lines.append(textwrap.indent(trace.rstrip(), "  | "))
    return _without_paths("\n".join(lines), tree) + "\n"


def run_test(label: str, compare: Callable[[Progress, Path], list[str]]) -> int:
    """Runs a comparison in a folder of its own, and prints what it finds.

    Args:
      label: the target.
      compare: takes stages and the folder; returns a sentence per difference.

    Returns:
      The exit code: 1 for differences and errors.
    """
    progress = Progress()
    work = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    try:
        problems = compare(progress, work)
    except Exception as error:
        sys.stderr.write(message(error, label, progress, work, None))
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for problem in problems:
        print(f"FAILED: {label}: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _without_paths(text: str, tree: Path) -> str:
    """A message that names files as the workspace does."""
    text = text.replace(f"{tree}{os.sep}{MAIN}", "").replace(f"{tree}{os.sep}", "")
    # Where this machine's Bazel lays out what other actions made.
    text = re.sub(r"/[^\s\"']*/execroot/[^/\s\"']+/(?=bazel-out/)", "", text)
    return re.sub(r"/[^\s\"']*/site-packages/", "", text)


def log_of_worker() -> str | None:
    """The file that a worker's standard error goes to; None where that can't be known."""
    try:
        path = _path_of(2)
    except OSError:
        return None
    return path if path.startswith("/") and os.path.isfile(path) else None


def _path_of(descriptor: int) -> str:
    """The path of an open file; raises OSError where the system does not say it."""
    if sys.platform != "darwin":
        return os.readlink(f"/proc/self/fd/{descriptor}")
    import fcntl

    # macOS has no /proc. The kernel fills a buffer of PATH_MAX bytes, and ends the path with a 0.
    answer = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
    return os.fsdecode(answer.partition(b"\0")[0])


def _headline(error: BaseException, progress: Progress) -> str:
    if isinstance(error, BuildError):
        return str(error)
    stage = f' in the stage "{progress.current}"' if progress.current else ""
    if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
        return (
            f"out of memory{stage}.\nGive the machine more memory, or fewer jobs at once "
            "(--local_resources=memory=…)."
        )
    if isinstance(error, SystemExit):
        return f"the model's code called exit({error.code}){stage}."
    text = str(error).strip() or "no message"
    is_absent = isinstance(error, ImportError) and sources.absent_module(error)
    hint = f"\n{sources.absence_hint(error)}" if is_absent else ""
    return f"failed{stage}: {type(error).__name__}: {_shortened(text)}{hint}"


def _shortened(text: str, most: int = 4000) -> str:
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most} more characters)"


def _own_frames(error: BaseException, tree: Path) -> list[str]:
    """Places in the user's files, innermost last."""
    root = str(tree) + os.sep
    frames = []
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(root):
            file = frame.filename[len(root) :].removeprefix(MAIN)
            frames.append(f"{file}:{frame.lineno} in {frame.name}: {frame.line}")
    return frames
