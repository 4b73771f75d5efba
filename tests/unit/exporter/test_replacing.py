"""Functions of upstream's classes that are replaced for good."""

from collections.abc import Callable
from typing import Any

from etlower.replacing import replace


def _doubling(inner: Callable[..., int], *given: Any) -> int:
    return 2 * inner(*given)


def test_once_and_as_what_it_was() -> None:
    class Upstream:
        factor = 3

        def method(self, x: int) -> int:
            return self.factor * x

        @staticmethod
        def static(x: int) -> int:
            return x

        @classmethod
        def of_class(cls, x: int) -> int:
            return cls.factor + x

    for name in ("method", "static", "of_class"):
        for _ in range(2):
            replace(Upstream, name, _doubling)
    assert (Upstream().method(5), Upstream.static(5), Upstream.of_class(5)) == (30, 10, 16)
    assert Upstream().static(5) == 10
    assert Upstream.method.__name__ == "method"
