"""The command line between `bazelw` and the bootstrap."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from bootstrap.candidates import PROBE_VARIABLE
from bootstrap.console import EXIT_ENVIRONMENT, BootstrapError, format_error
from bootstrap.decision import write_decision
from bootstrap.layout import Layout
from bootstrap.request import Request
from bootstrap.resolve import resolve


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    own, _, users = _split(arguments)
    parser = argparse.ArgumentParser(prog="bootstrap", description=__doc__)
    parser.add_argument("--cache", required=True, type=Path, help="cache directory")
    parser.add_argument("--workspace", required=True, help="workspace root, or empty")
    parser.add_argument("--decision", required=True, type=Path, help="file to write")
    parser.add_argument("--key", required=True, help="what the decision depends on")
    parser.add_argument("--self", required=True, dest="self_path", type=Path, help="bazelw")
    parser.add_argument("--bazel-on-path", default="", help="first bazel on PATH, or empty")
    parser.add_argument("--bazelisk-on-path", default="", help="first bazelisk on PATH, or empty")
    result = parser.parse_args(own)
    result.users = users
    return result


def _split(arguments: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Our arguments, the separator, and the user's, which may hold a separator as well."""
    words = list(arguments)
    position = words.index("--") if "--" in words else len(words)
    return words[:position], "--", words[position + 1 :]


def _explain(error: OSError, cache: Path) -> BootstrapError:
    """An error of the file system in words that say what to do."""
    place = error.filename or cache
    if error.errno == errno.ENOSPC:
        return BootstrapError(
            f"no space left on the disk of {place}",
            ["Free some disk space (1 GB) or set XDG_CACHE_HOME to a directory on a larger disk."],
        )
    return BootstrapError(
        f"{place}: {error.strerror or error}",
        [f"See that {cache} can be written, or set XDG_CACHE_HOME to a directory that can."],
    )


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    """Makes the decision and writes it; returns the exit code."""
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGHUP, _terminated)
    try:
        if os.environ.get(PROBE_VARIABLE):
            raise BootstrapError("this program leads back to bazelw, which is looking for Bazel")
        request = Request(
            layout=Layout(options.cache.absolute()),
            workspace=Path(options.workspace) if options.workspace else None,
            self_path=options.self_path,
            bazel_on_path=options.bazel_on_path,
            bazelisk_on_path=options.bazelisk_on_path,
            arguments=options.users,
        )
        write_decision(options.decision, resolve(request), options.key)
    except BootstrapError as error:
        print(format_error(error), file=sys.stderr)
        return EXIT_ENVIRONMENT
    except OSError as error:
        print(format_error(_explain(error, options.cache)), file=sys.stderr)
        return EXIT_ENVIRONMENT
    except KeyboardInterrupt:
        print("bazelw: interrupted; nothing half-done is left in the cache", file=sys.stderr)
        return 130
    return 0
