"""The command line of `et`: finds the command, prints its outcome, turns errors into sentences.

Commands are imported when they are asked for. So `et` starts in a fraction of a second, without
torch, and what runs one command does not depend on the modules of the others.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence

from etbuild.errors import BuildError
from etlink.container import write_text

from etcli import paths
from etcli.command import Outcome
from etcli.console import Printer, printable

# Module and help of each command.
COMMANDS = {
    "inspect": ("etcli.files.inspection", "show what is in a file, and what is missing to run it"),
    "diff": ("etcli.files.comparison", "show what changed, in bytes and tensors"),
    "verify": ("etcli.files.verification", "check that an app or a program is as it was built"),
    "pin": ("etcli.hub.pin", "pin a model of the Hugging Face hub by commit and hash"),
    "run": ("etcli.running", "run a program on this machine"),
    "evaluate": ("etcli.measure.evaluate", "compare a program with its eager model"),
    "divergence": ("etcli.measure.divergence", "find the module where a program's numbers part"),
    "benchmark": ("etcli.measure.benchmark", "measure time, memory and operators of a program"),
    "reproduce": ("etcli.reproduce.command", "build targets twice, and compare all bytes"),
}

# A command line of each command; those of targets take the target's model.
EXAMPLES = {
    "inspect": "et inspect net.pte --data foundation.ptd",
    "diff": "et diff before/net.pte after/net.pte",
    "verify": "et verify chat_linux_x86_64",
    "pin": "et pin HuggingFaceTB/SmolLM2-135M-Instruct",
    "run": "et run net.pte --input x.npy --output y.safetensors --repeat 10",
    "evaluate": "bazel run //x:net_xnnpack.evaluate -- --text test.txt",
    "divergence": "bazel run //x:net_xnnpack.divergence -- --inputs photo.npy",
    "benchmark": "et benchmark net.pte --repeat 50 --save before.json",
    "reproduce": "et reproduce //x:net_xnnpack //x:chat_linux_x86_64",
}

_EXIT_CODES = """\
exit codes:
  0   done; of diff, verify, run and reproduce: the bytes or outputs are as expected
  1   diff, reproduce: the bytes differ; verify, run of a .bpte: something is not what was built
      or expected; benchmark: slower than --max_slowdown allows
  2   the command line is wrong, a file is missing, truncated, damaged or of another kind, a
      program cannot be run, the hub has no such model or file, or a build failed; one sentence
      says which

NO_COLOR turns colors off.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = _parser(words[0] if words else "")
    options, unknown = parser.parse_known_args(words)
    if unknown:
        return _guarded(lambda: _refuse(words[0], unknown[0], options.known))
    return _guarded(lambda: _finish(options.command(options), options))


def _refuse(command: str, word: str, options: Sequence[str]) -> int:
    """Fails for a word that a command does not take; argparse would say what `et` takes."""
    if not word.startswith("-"):
        raise BuildError(
            f"et {command}: got {word}, expected no more files or targets.",
            f"Example: {EXAMPLES[command]}",
        )
    name = word.partition("=")[0]
    similar = difflib.get_close_matches(name, options, n=1)
    hint = f"Did you mean {similar[0]}?" if similar else f"Options: {', '.join(options)}."
    raise BuildError(f"et {command}: unknown option {name}.", hint)


def _parser(name: str) -> argparse.ArgumentParser:
    """The parser, with the options of one command."""
    parser = argparse.ArgumentParser(
        prog="et",
        description="Inspects, compares, checks, runs and measures ExecuTorch programs.",
        epilog=_epilog(*EXAMPLES.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for each, (module, text) in COMMANDS.items():
        inner = commands.add_parser(
            each,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=_epilog(EXAMPLES[each]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if each == name:
            code = importlib.import_module(module)
            code.add_arguments(inner)
            inner.add_argument("--json", action="store_true", help="print one JSON object")
            inner.add_argument("--save", metavar="FILE", help="write that object to a file")
            names = [name for name in inner._option_string_actions if name.startswith("--")]
            hidden = [name for name in names if name.startswith("--target_")]
            shown = sorted(set(names) - set(hidden))
            inner.set_defaults(command=code.command, known=shown)
    return parser


def _epilog(*examples: str) -> str:
    lines = ["examples:" if len(examples) > 1 else "example:", *examples]
    if any(example.startswith("et ") for example in examples):
        lines.append('"et" is: bazel run @rules_executorch//tools:et --')
    return "\n  ".join(lines) + "\n\n" + _EXIT_CODES


def _finish(outcome: Outcome, options: argparse.Namespace) -> int:
    if outcome.result is not None:
        text = json.dumps(outcome.result, indent=1, sort_keys=True) + "\n"
        if options.save:
            write_text(paths.written(options.save), text)
        if options.json:
            print(text, end="")
        else:
            outcome.show(Printer(sys.stdout))
    sys.stdout.flush()
    for problem in outcome.problems:
        print(printable(problem), file=sys.stderr)
    return outcome.code


def _guarded(command: Callable[[], int]) -> int:
    """Runs a command whose errors become a sentence; returns the exit code."""
    try:
        return command()
    except BuildError as error:
        text = f"error: {error.what} {error.hint}"
        print(printable(" ".join(text.split())), file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Nobody reads any more: `et inspect x.pte | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(printable(f"error: {error.filename}: {error.strerror}."), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
