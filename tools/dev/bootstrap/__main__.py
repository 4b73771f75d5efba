"""Entry point of `python3 tools/dev/bootstrap`, which `bazelw` starts when no decision holds."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

# It runs before Bazel does, so nothing else says where what it shares with repository rules is.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "toolchains/exporter"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "toolchains"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from debian.command import ActionableError

from bootstrap.cache import Cache, write_file
from bootstrap.candidates import PROBE_VARIABLE
from bootstrap.console import format_error
from bootstrap.rcfile import read_user_options
from bootstrap.resolve import Request, resolve

# Bazel's own code for "the environment lacks something".
_EXIT_ENVIRONMENT = 36


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bootstrap", description=__doc__)
    for flag in ("--cache", "--decision", "--self"):
        parser.add_argument(flag, required=True, type=Path)
    for flag in ("--workspace", "--key", "--bazel-on-path", "--bazelisk-on-path"):
        parser.add_argument(flag, required=True)
    return parser.parse_args(arguments)


def _decide(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    if os.environ.get(PROBE_VARIABLE):
        raise ActionableError("this program leads back to bazelw, which is looking for Bazel")
    workspace = Path(options.workspace) if options.workspace else None
    home = os.environ.get("HOME", "")
    request = Request(
        cache=Cache(options.cache.absolute()),
        workspace=workspace,
        self_path=options.self,
        programs={"bazel": options.bazel_on_path, "bazelisk": options.bazelisk_on_path},
        options=read_user_options(workspace or Path.cwd(), home, arguments),
    )
    write_file(options.decision, resolve(request).text(options.key))


def main(words: Sequence[str]) -> int:
    """Makes the decision and writes it; returns the exit code."""
    separator = words.index("--")
    options = _parse(words[:separator])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        _decide(options, words[separator + 1 :])
    except (ActionableError, OSError) as error:
        if isinstance(error, OSError):
            reason = f"{error.filename or options.cache}: {error.strerror or error}"
            remedy = "Set XDG_CACHE_HOME to a writable directory with 1 GB of free disk space."
            error = ActionableError(reason, [remedy])
        print(format_error(error), file=sys.stderr)
        return _EXIT_ENVIRONMENT
    except KeyboardInterrupt:
        print("bazelw: interrupted; the cache holds nothing unfinished", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
