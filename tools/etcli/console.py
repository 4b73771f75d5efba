"""The output of commands: tables and colors on a terminal, plain aligned text in a pipe."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

# Seconds after which a bar is shown.
_PATIENCE = 0.5


class Printer:
    """Prints a result.

    Args:
      out: where to; tables and colors are for terminals. NO_COLOR is honored.

    Example:

        printer = Printer(sys.stdout)
        printer.heading("Methods")
        printer.table(["name", "bytes"], [["forward", "1.5 MB"]], numbers=[1])
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._console = Console(file=out, highlight=False, soft_wrap=False)
        self.rich = self._console.is_terminal

    def heading(self, text: str) -> None:
        """A line above a group of lines or a table."""
        if self.rich:
            self._console.print()
            self._console.print(Text(printable(text), style="bold cyan"))
        else:
            self._out.write(f"\n{printable(text)}\n")

    def line(self, text: str, style: str = "") -> None:
        """A line of text; the style is rich's ("bold", "red") and for terminals only."""
        if self.rich:
            self._console.print(Text(printable(text), style=style))
        else:
            self._out.write(printable(text) + "\n")

    def verbatim(self, text: str) -> None:
        """Text to copy, which a terminal does not wrap."""
        self._out.write(printable(text))

    def warning(self, text: str) -> None:
        """A line that should be seen."""
        self.line(f"! {text}", "yellow")

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        numbers: Sequence[int] = (),
        styles: Sequence[str] = (),
    ) -> None:
        """A table.

        Args:
          columns: their titles.
          rows: a cell for each column.
          numbers: columns that are aligned to the right.
          styles: rich's style of each row, for terminals only.
        """
        clean = [[printable(cell) for cell in row] for row in rows]
        if not self.rich:
            self._plain(columns, clean, numbers)
            return
        table = Table(box=None, pad_edge=False, header_style="dim")
        for number, title in enumerate(columns):
            right = number in numbers
            table.add_column(
                title, justify="right" if right else "left", no_wrap=right, overflow="fold"
            )
        for row, style in zip(clean, [*styles, *[""] * len(clean)], strict=False):
            table.add_row(*(Text(cell) for cell in row), style=style)
        self._console.print(table)

    def _plain(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]
    ) -> None:
        widths = [max(len(r[n]) for r in [columns, *rows]) for n in range(len(columns))]
        for row in [columns, *rows]:
            cells = [
                cell.rjust(width) if number in numbers else cell.ljust(width)
                for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            self._out.write("  ".join(cells).rstrip() + "\n")


def shortened(name: str, most: int = 60) -> str:
    """A name that may be very long, such as a key of two hashes."""
    return name if len(name) <= most else f"{name[: most - 13]}…{name[-12:]}"


def printable(text: str) -> str:
    """Text from a file, with a terminal's control sequences (`\\x1b[2J`) escaped."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


@contextlib.contextmanager
def bar(
    title: str, total: int, err: TextIO | None = None, unit: str = ""
) -> Iterator[Callable[[int], None]]:
    """Shows the progress of long work on a terminal.

    Args:
      title: of the work.
      total: its amount, in the unit.
      err: the terminal; default: the standard error output.
      unit: for the display; default: bytes.

    Yields:
      A function that is called with each amount that was completed.
    """
    console = Console(file=err or sys.stderr)
    done = TextColumn(f"{{task.completed}}/{{task.total}} {unit}") if unit else DownloadColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), done, TimeRemainingColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(title, total=total)
    begin = time.monotonic()
    shown = contextlib.ExitStack()

    def advance(count: int) -> None:
        progress.advance(task, count)
        late = time.monotonic() - begin > _PATIENCE
        if late and console.is_terminal and not progress.live.is_started:
            shown.enter_context(progress)

    with shown:
        yield advance


@contextlib.contextmanager
def waiting(title: str, err: TextIO | None = None) -> Iterator[None]:
    """Shows on a terminal that work of unknown length goes on."""
    console = Console(file=err or sys.stderr)
    if not console.is_terminal:
        yield
        return
    with console.status(title):
        yield
