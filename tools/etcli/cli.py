"""The command line of `et`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from etbuild.errors import BuildError

from etcli import comparison, inspection, places, running, verification
from etcli.console import Printer, printable

_EXIT_CODES = """\
exit codes:
  0   done; of diff: the same bytes; of verify and run: all is as it should be
  1   diff: they differ; verify, run of a .bpte: something is not what was built or expected
  2   the command line is wrong, a file is missing, truncated, damaged or of another kind, or a
      program can't be run; one sentence says which

With --json each command prints one JSON object. NO_COLOR turns colors off.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    options = _parser().parse_args(arguments)
    return guarded(lambda: options.run(options, Printer(sys.stdout)))


def guarded(command: Callable[[], int]) -> int:
    """Runs a command whose errors become a sentence; returns the exit code."""
    try:
        code = command()
        sys.stdout.flush()
        return code
    except BuildError as error:
        text = f"error: {error.what} {error.hint}".strip()
        print(printable(" ".join(text.split())), file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            # Nobody reads any more: `et inspect x.pte | head`.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print(printable(f"error: {error.filename}: {error.strerror}."), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="et",
        description="Looks into ExecuTorch programs, compares, checks and runs them.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _inspect_command(commands)
    _diff_command(commands)
    _verify_command(commands)
    _run_command(commands)
    return parser


def _command(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)
    return parser


def _inspect_command(commands: Any) -> None:
    parser = _command(
        commands, "inspect", _inspect, "what is in a file, and what is missing to run it"
    )
    parser.add_argument("file", metavar="FILE", help=".pte, .ptd or .bpte")
    _data_option(parser)
    parser.add_argument("--all", action="store_true", help="all data and whole names")
    parser.add_argument(
        "--runtime",
        action="store_true",
        help="also ask this machine's runtime for the backends and operators",
    )


def _diff_command(commands: Any) -> None:
    parser = _command(commands, "diff", _diff, "what changed, in bytes and tensors")
    parser.add_argument("before", metavar="A", help="file or folder")
    parser.add_argument("after", metavar="B", help="file or folder of the same kind")


def _verify_command(commands: Any) -> None:
    parser = _command(
        commands, "verify", _verify, "whether an app or a program is what was built, every byte"
    )
    parser.add_argument("path", metavar="APP_DIR", help="the folder of an app, or a .pte")
    _data_option(parser)


def _run_command(commands: Any) -> None:
    parser = _command(commands, "run", _run, "run a program on this machine")
    parser.add_argument("file", metavar="FILE", help=".pte, .bpte (its test cases) or APP_DIR")
    _data_option(parser)
    parser.add_argument("--method", default="", help='default: "forward", else the first')
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="FILE",
        help="inputs in their order: .npy, or .safetensors with the names 0, 1, …",
    )
    parser.add_argument(
        "--fill",
        choices=("random", "ones", "zeros"),
        default="random",
        help="inputs without a file; integers are never random (%(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random inputs (%(default)s)")
    parser.add_argument("--repeat", type=positive, default=1, help="times to run (%(default)s)")
    parser.add_argument("--output", default="", metavar="FILE", help=".safetensors to write")
    parser.add_argument("--atol", type=float, default=1e-4, help="of a .bpte (%(default)s)")
    parser.add_argument("--rtol", type=float, default=1e-4, help="of a .bpte (%(default)s)")
    parser.add_argument("rest", nargs="*", metavar="ARGUMENT", help="of an app's binary, after --")


def _data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FILE",
        help=".ptd that the program loads; default: those beside it",
    )


def positive(text: str) -> int:
    """A number of the command line that is at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _inspect(options: argparse.Namespace, out: Printer) -> int:
    path = places.given(options.file)
    data = [places.given(p) for p in options.data]
    if not data and inspection.checked_kind(path) == inspection.PROGRAM:
        data = places.data_beside(path)
    found = inspection.inspect(path, data)
    if options.runtime and "needs" in found:
        found["runtime"] = running.missing(found["needs"])
    if options.json:
        return _print_json(found)
    inspection.show(found, out, options.all)
    return 0


def _diff(options: argparse.Namespace, out: Printer) -> int:
    found = comparison.compare(places.given(options.before), places.given(options.after))
    if options.json:
        _print_json(found)
    else:
        comparison.show(found, out)
    return 0 if found["same"] else 1


def _verify(options: argparse.Namespace, out: Printer) -> int:
    data = [places.given(p) for p in options.data]
    found = verification.verify(places.given(options.path), data)
    if options.json:
        _print_json(found)
    else:
        verification.show(found, out)
    return 0 if found["ok"] else 1


def _run(options: argparse.Namespace, out: Printer) -> int:
    path = places.given(options.file)
    if path.is_dir():
        return running.run_app(path, options.rest)
    if options.rest:
        raise BuildError(
            f"{path.name} takes no arguments: {' '.join(options.rest)}.", "Only apps do."
        )
    wanted = running.Options(
        method=options.method,
        data=tuple(places.given(p) for p in options.data),
        inputs=tuple(places.given(p) for p in options.input),
        fill=options.fill,
        seed=options.seed,
        repeat=options.repeat,
        output=str(places.written(options.output).absolute()) if options.output else "",
        atol=options.atol,
        rtol=options.rtol,
    )
    found = running.run(path, wanted)
    if options.json:
        _print_json(found)
    else:
        running.show(found, out)
    return 1 if any(one.get("problems") for one in found["runs"]) else 0


def _print_json(found: object) -> int:
    print(json.dumps(found, indent=1, sort_keys=True))
    return 0
