"""The code blocks of a page, and what each is for.

The text says it to a reader, and to this file:

- the sentence before the block begins with a file's name and ends with a colon ("`net.py` has a
  module:", "`BUILD.bazel`:"): the block is that file. "Append to `BUILD.bazel`:" adds to it;
- `sh`: commands, run in the workspace;
- `text` after commands: lines that they print, in this order; "…" stands for anything. Where the
  text between says "fails", the commands must;
- an HTML comment before it, `<!-- not run: <reason> -->`, which readers don't see: the block is
  left alone, and counted.

Another HTML comment, `<!-- continues from: ../../README.md -->`, names the page whose files exist
at the start.

Anything else is a mistake in the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

_FENCE = re.compile(r"^```(\w*)$")
_FILE = re.compile(r"^(Append to )?`([\w./-]*[\w-]\.?[\w-]+)`")
_SKIPPED = re.compile(r"^<!-- not run: (.+) -->$")
_STARTS_FROM = re.compile(r"^<!-- continues from: (\S+\.md) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        line: of the page, of its first fence; from 1.
        language: "starlark", "python", "sh", "text", …
        text: what is in it.
        kind: "file", "append", "commands", "output" or "skipped".
        name: of the file; of a skipped block the reason.
        fails: of commands: whether they must fail.
    """

    line: int
    language: str
    text: str
    kind: str
    name: str = ""
    fails: bool = False


class PageError(Exception):
    """A block that has no meaning: page, line, and what to do."""


def read(text: str, page: str) -> list[Block]:
    """The blocks of a page in their order.

    Args:
      text: its markdown.
      page: its name, for messages.

    Raises:
      PageError: a block is neither a file nor commands, their output, or marked.
    """
    blocks: list[Block] = []
    for line, language, content, before, skip_reason in _fenced(text, page):
        where = f"{page}:{line}"
        sentence = re.split(r"(?<=[.!?])\s+", before)[-1]
        named = _FILE.match(sentence) if sentence.endswith(":") else None
        if skip_reason:
            blocks.append(Block(line, language, content, "skipped", skip_reason))
        elif named and language != "sh":
            kind = "append" if named[1] else "file"
            _check_name(named[2], where)
            blocks.append(Block(line, language, content, kind, named[2]))
        elif language == "sh":
            blocks.append(Block(line, language, content, "commands"))
        elif language == "text" and blocks and blocks[-1].kind == "commands":
            if "fails" in before:
                last = blocks[-1]
                blocks[-1] = Block(last.line, last.language, last.text, last.kind, fails=True)
            blocks.append(Block(line, language, content, "output"))
        else:
            raise PageError(
                f'{where}: the block is neither a file ("`net.py`:" before it) nor commands (sh) '
                "nor their output (text). If it cannot be run, put <!-- not run: <reason> --> "
                "before it"
            )
    return blocks


def starts_from(text: str) -> str | None:
    """The page whose workspace this page continues from: a path relative to this page."""
    match = _STARTS_FROM.search(text)
    return match[1] if match else None


def _fenced(text: str, page: str) -> Iterator[tuple[int, str, str, str, str]]:
    """Line, language, content, the paragraph before and the reason not to run of each block."""
    paragraph: list[str] = []
    ended = False
    skip_reason = ""
    lines = iter(enumerate(text.split("\n"), 1))
    for number, line in lines:
        fence = _FENCE.match(line)
        if not fence:
            if line.strip().startswith("```"):
                raise PageError(f"{page}:{number}: a fence must begin at the left margin")
            marker = _SKIPPED.match(line.strip())
            if marker:
                skip_reason = marker[1]
                continue
            if line.strip():
                skip_reason = ""
            if ended and line.strip():
                paragraph, ended = [], False
            ended = ended or not line.strip()
            paragraph += [line.strip()] if line.strip() else []
            continue
        content = []
        for _, inner in lines:
            if inner == "```":
                break
            content.append(inner)
        else:
            raise PageError(f"{page}:{number}: the block has no end")
        yield number, fence[1], "\n".join(content) + "\n", " ".join(paragraph), skip_reason
        paragraph, ended, skip_reason = [], False, ""


def _check_name(name: str, where: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise PageError(f"{where}: the file {name} would lie outside of the workspace")
