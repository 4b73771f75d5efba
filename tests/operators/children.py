"""Tries nets in forked processes, so that one that ends its process costs only itself."""

from __future__ import annotations

import faulthandler
import itertools
import json
import os
import select
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from tests.operators.nets import Net
from tests.operators.outcome import CRASH, Outcome

# Nets that go through a lowering together at most, and lowerings that one process tries.
_TOGETHER = 32
_IN_PROCESS = 100
# In seconds, of one lowering and its runs.
_PATIENCE = 120


# Tries nets in one program; None: a net has to be tried with fewer others.
Attempt = Callable[[Sequence[Net]], Sequence[Outcome | None]]


def outcomes(
    nets: Sequence[Net], attempt: Attempt, is_equal: Callable[[Net], bool]
) -> Iterator[tuple[Net, Outcome]]:
    """Tries nets.

    Args:
      nets: those of an operator, and of a type, one after the other.
      attempt: `trial.try_together` with a recipe.
      is_equal: tells which nets are expected to be equal: many of these go through a lowering
        together. A wrong guess costs time only.

    Yields:
      Each net with its outcome, in any order.
    """
    likely = [net for net in nets if is_equal(net) and not net.more]
    several = [likely[n : n + _TOGETHER] for n in range(0, len(likely), _TOGETHER)]
    # What varies in one net says nothing of another's range.
    single = [[net] for net in nets if net.more]
    unlikely = [net for net in nets if not is_equal(net) and not net.more]
    single += [list(group) for _, group in itertools.groupby(unlikely, lambda net: net.operator)]
    batches: list[list[Net]] = several + single
    while batches:
        chunk = batches[:_IN_PROCESS]
        left, trying = yield from _in_process(chunk, attempt)
        batches[:_IN_PROCESS] = left
        # The process ended while it tried these together: each in a process of its own.
        for net in trying:
            yield from _in_process([[net]], attempt)


def _in_process(
    batches: Sequence[Sequence[Net]], attempt: Attempt
) -> Generator[tuple[Net, Outcome], None, tuple[list[list[Net]], list[Net]]]:
    """Tries batches of nets in one process until it ends.

    Returns:
      Batches of those that it did not come to, and those that it tried together when it ended.
    """
    nets = [net for batch in batches for net in batch]
    numbers = {id(net): number for number, net in enumerate(nets)}
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _quiet()
        try:
            _child(batches, attempt, writer, numbers)
        finally:
            os._exit(0)
    os.close(writer)
    left, trying = dict(enumerate(nets)), []
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        for said in _lines(pipe, child):
            trying = said["trying"]
            for number, *outcome in said["outcomes"]:
                yield left.pop(number), Outcome(*outcome)
    _, status = os.waitpid(child, 0)
    if len(left) == len(nets) and not trying:
        raise RuntimeError(f"a process that tries nets {_ending(status)} before the first")
    again = [left.pop(number) for number in trying if number in left]
    if len(again) == 1:
        yield again.pop(), Outcome(CRASH, _ending(status))
    remaining = [[net for net in batch if numbers[id(net)] in left] for batch in batches]
    return [batch for batch in remaining if batch], again


def _child(
    batches: Sequence[Sequence[Net]],
    attempt: Attempt,
    writer: int,
    numbers: dict[int, int],
) -> None:
    def say(trying: Sequence[Net], outcomes: Sequence[tuple[Net, Outcome]]) -> None:
        line = {
            "trying": [numbers[id(net)] for net in trying],
            "outcomes": [(numbers[id(net)], o.kind, o.reason) for net, o in outcomes],
        }
        os.write(writer, json.dumps(line).encode() + b"\n")

    def try_all(batch: Sequence[Net]) -> None:
        say(batch, [])
        outcomes = list(zip(batch, attempt(batch), strict=True))
        say([], [(net, outcome) for net, outcome in outcomes if outcome])
        unknown = [net for net, outcome in outcomes if not outcome]
        if len(unknown) == len(batch):
            for part in _parts(batch):
                try_all(part)
        elif unknown:
            try_all(unknown)

    for batch in batches:
        try_all(batch)


def _parts(batch: Sequence[Net]) -> list[Sequence[Net]]:
    """Parts of a batch that probably have something in common: an operator, or a type."""
    for key in (lambda net: net.operator, lambda net: (net.operator, net.dtype)):
        groups: list[Sequence[Net]] = [list(group) for _, group in itertools.groupby(batch, key)]
        if len(groups) > 1:
            return groups
    return [[net] for net in batch]


def _lines(pipe: Any, child: int) -> Iterator[dict[str, Any]]:
    left = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], _PATIENCE)
        if not ready:
            os.kill(child, signal.SIGKILL)
        read = pipe.read(1 << 16)
        if not read:
            return
        *lines, left = (left + read).split(b"\n")
        yield from map(json.loads, lines)


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "took too long" if number == signal.SIGKILL else signal.Signals(number).name
    return f"ended with {os.WEXITSTATUS(status)}"


def _quiet() -> None:
    """Sends what is printed nowhere, and errors to a file that `trial` reads the reason from."""
    faulthandler.disable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
