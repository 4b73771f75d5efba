"""Work that a second core does while the request goes on: in a forked child.

Python runs one thread at a time, so another core can only help in another process. A fork has all
that is known so far at no cost, and what it computes is what this process would compute. Whatever
else it changes is lost with it, but for mappings that `merge_from_children` names.

A child that fails tells nothing: this process then does the work itself, and meets the error where
its message belongs. On a machine with one core it does it in any case.

What would break it: a lock that another thread holds at the fork. A request is one thread; torch
has been told to start no others (`make_deterministic`).
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Mappings of lists whose additions come back from children.
_MERGED: list[dict[Any, list[Any]]] = []


@contextlib.contextmanager
def merge_from_children(mapping: dict[Any, list[Any]]) -> Iterator[None]:
    """Appends here what children append to this mapping's lists, when their work is taken."""
    _MERGED.append(mapping)
    try:
        yield
    finally:
        _MERGED.pop()


def cores() -> int:
    """Counts the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ForkedTask(Generic[T]):
    """One piece of work, begun at once if there is a second core.

    Args:
      work: what to do; its result can be pickled.
      sound: asked in the child when the work is done: whether its result may be used.

    Example:

        with ForkedTask(lambda: compare(model, quantized)) as comparison:
            lower(quantized)
            write(comparison.result())
    """

    def __init__(self, work: Callable[[], T], sound: Callable[[], bool] = lambda: True) -> None:
        self._work = work
        self._merged = list(_MERGED)
        self._child: int | None = None
        if cores() < 2:
            return
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        sys.stdout.flush()
        sys.stderr.flush()
        self._child = os.fork()
        if not self._child:
            os._exit(self._run(sound))

    @property
    def begun(self) -> bool:
        """Tells whether a child does the work."""
        return self._child is not None

    def result(self) -> T:
        """Waits for the work, or does it; to be called once.

        Raises:
          whatever the work raises.
        """
        if self._child is None:
            return self._work()
        _, status = os.waitpid(self._child, 0)
        self._child = None
        with self._file:
            if status:
                return self._work()
            self._file.seek(0)
            result, additions = pickle.load(self._file)
        for mapping, added in zip(self._merged, additions, strict=True):
            for key, values in added.items():
                mapping.setdefault(key, []).extend(values)
        return result

    def __enter__(self) -> ForkedTask[T]:
        return self

    def __exit__(self, *_: object) -> None:
        """Stops work whose result nobody asked for."""
        if self._child is not None:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._file.close()

    def _run(self, sound: Callable[[], bool]) -> int:
        """The child's exit code."""
        # Looking for garbage would write to all pages that both processes share.
        gc.disable()
        try:
            before = [{key: len(values) for key, values in m.items()} for m in self._merged]
            result = self._work()
            additions = [
                {key: values[had.get(key, 0) :] for key, values in mapping.items()}
                for mapping, had in zip(self._merged, before, strict=True)
            ]
            if not sound():
                return 1
            pickle.dump((result, additions), self._file, protocol=pickle.HIGHEST_PROTOCOL)
            self._file.flush()
        except BaseException:
            return 1
        return 0
