"""Options of a recipe: strings in a BUILD file, checked values in a builder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from etbuild.errors import BuildError

# The grammar is that of rules/private/options.bzl: tests/unit/etbuild/grammar.bzl tests both.
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class Options(Mapping[str, str]):
    """The options of one recipe, with conversions whose errors name option and recipe.

    Example:

        group_size = ctx.options.integer("group_size", default=32, minimum=1)

    Args:
      values: strings by name.
      label: the label of the recipe, for messages.
    """

    def __init__(self, values: Mapping[str, str] | None = None, label: str = "//:recipe") -> None:
        self._values = dict(values or {})
        self._label = label

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def text(self, name: str, default: str, choices: Sequence[str] = ()) -> str:
        """An option as a string; with `choices`, one of them."""
        value = self._values.get(name, default)
        if choices and value not in choices:
            raise self.error(name, "one of " + ", ".join(choices))
        return value

    def integer(self, name: str, default: int, minimum: int | None = None) -> int:
        """An option as a whole number of at least `minimum`."""
        value = self._values.get(name)
        if value is None:
            return default
        expected = "a whole number" + (f" of at least {minimum}" if minimum is not None else "")
        number = int(value) if _INTEGER.fullmatch(value) else None
        if number is None or (minimum is not None and number < minimum):
            raise self.error(name, expected)
        return number

    def number(self, name: str, default: float) -> float:
        """An option as a number."""
        value = self._values.get(name)
        if value is None:
            return default
        if not _NUMBER.fullmatch(value):
            raise self.error(name, "a number")
        return float(value)

    def boolean(self, name: str, default: bool | None) -> bool | None:
        """An option as true or false; `default`, which may be None, where it is left out."""
        value = self._values.get(name)
        if value is None:
            return default
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise self.error(name, "true or false")

    def only(self, *known: str) -> None:
        """Raises BuildError for an option whose name is not in `known`."""
        for name in self:
            if name not in known:
                raise BuildError(
                    f'{self._label}: unknown option "{name}". '
                    + (f"It takes: {', '.join(sorted(known))}." if known else "It takes none.")
                )

    def error(self, name: str, expected: str, hint: str = "") -> BuildError:
        """The error for an option with another value than expected.

        Args:
          name: of the option.
          expected: what would do, for example "a number".
          hint: what to do about it, a sentence.
        """
        got = self._values.get(name, "")
        message = f'{self._label}: option "{name}": got "{got}", expected {expected}.'
        return BuildError(message, hint)
