"""Draws a terminal with commands and what they printed, as an SVG file.

Lines that Bazel writes over on a terminal are left out, and so is what differs from run to run, but
for seconds. `//tests/bench:commands` runs the commands.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import escape

_PASSING = re.compile(
    r"(Loading|Analyzing|Computing main repo|Extracting|Starting local|\[[\d,]+ / [\d,]+\])"
)
# Also what installs Bazel and the exporter, line by line.
_LEFT_OUT = re.compile(
    r"(bazelw: |  - |\[\d+/\d+\] |unpacking$|copying |compiling |Python \d|torch \d|"
    r"INFO: (Invocation ID|Running command line|\d+ process|Analyzed|From )|WARNING:|$)"
)
_COLUMNS = 98
_WIDTH, _LINE, _LEFT, _TOP = 860, 21, 18, 52
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
     aria-label="{label}">
  <style>
    rect {{ fill: #0d1117; }}
    text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }}
    text {{ fill: #d1d7e0; white-space: pre; }}
    .command {{ fill: #ffffff; font-weight: 600; }}
    .seconds {{ fill: #9198a1; }}
  </style>
  <rect width="{width}" height="{height}" rx="10"/>
  <circle cx="22" cy="20" r="6" fill="#f85149"/>
  <circle cx="42" cy="20" r="6" fill="#d29922"/>
  <circle cx="62" cy="20" r="6" fill="#3fb950"/>
"""


def rows(command: str, output: str, seconds: float) -> list[tuple[str, str]]:
    """A command on a terminal: pairs of a class of style and a line of text."""
    # As a terminal of this width breaks lines.
    wrapped = [textwrap.wrap(line, _COLUMNS, drop_whitespace=False) for line in shown(output)]
    lines = [("", part) for parts in wrapped for part in parts]
    return [("command", f"$ {command}"), *lines, ("seconds", f"{seconds:.0f} s")]


def shown(output: str) -> list[str]:
    """Returns the lines of a command's output that are left on a terminal."""
    lines = (line.rstrip() for line in output.splitlines())
    return [line for line in lines if not _PASSING.match(line) and not _LEFT_OUT.match(line)]


def drawn(rows: Sequence[tuple[str, str]], label: str) -> str:
    """The text of an SVG file with a row for each class of style and text."""
    height = _TOP + _LINE * len(rows) + 4
    lines = [_HEAD.format(width=_WIDTH, height=height, label=escape(label, quote=True))]
    for number, (style, text) in enumerate(rows):
        kind = f' class="{style}"' if style else ""
        lines.append(
            f'  <text x="{_LEFT}" y="{_TOP + _LINE * number}"{kind}>{escape(text)}</text>\n'
        )
    return "".join([*lines, "</svg>\n"])
