"""Asks a language model's program one question and checks the answer.

`answer_check --program … --tokenizer … --config … --expect TEXT PROMPT`; see chat.py.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Sequence

import chat


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the check.

    Args:
      arguments: without the program's name; None: those of the process.

    Returns:
      The exit code: 0, or 1 where the answer doesn't contain the text.
    """
    parser = argparse.ArgumentParser(prog="answer_check", allow_abbrev=False)
    parser.add_argument("--expect", required=True)
    options, rest = parser.parse_known_args(arguments)
    answer = io.StringIO()
    with contextlib.redirect_stdout(answer):
        code = chat.main(rest)
    print(answer.getvalue())
    if not code and options.expect not in answer.getvalue():
        print(f"FAILED: the answer doesn't contain {options.expect!r}.", file=sys.stderr)
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
