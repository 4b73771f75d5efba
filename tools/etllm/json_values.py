"""Values of a JSON file, with errors that name the file and the key."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild import BuildError

# Far more than any model has, and few enough for the arithmetic that sizes go into.
MOST_LAYERS, MOST_WIDTH = 1 << 12, 1 << 30
_AGAIN = "Fetch the file again, or take the one that its model was published with."


class JsonValues:
    """An object of a JSON file.

    Args:
      values: by key.
      where: file and, for an inner object, its key; for messages.

    Example:

        config = JsonValues.read(folder / "config.json", "config.json")
        width = config.integer("hidden_size", minimum=1)
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values, self.where = values, where

    @classmethod
    def read(cls, path: Path, name: str, hint: str = _AGAIN) -> JsonValues:
        """Reads a file; `name` is what messages call it, `hint` what to do if it is malformed.

        Raises:
          BuildError: it can't be read or is no JSON object.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BuildError(f"{name}: cannot be read: {error.strerror}.", hint) from None
        except RecursionError:
            raise BuildError(f"{name}: it is not JSON: it is nested too deeply.", hint) from None
        except ValueError as error:
            raise BuildError(f"{name}: it is not JSON: {error}.", hint) from None
        if not isinstance(values, dict):
            raise BuildError(f"{name}: got {_kind(values)}, expected a JSON object.", hint)
        return cls(values, name)

    def error(self, key: str, expected: str, hint: str = "") -> BuildError:
        """An error about a key's value."""
        return BuildError(
            f'{self.where}: "{key}": got {self._shown(key)}, expected {expected}.', hint
        )

    def _shown(self, key: str) -> str:
        value = self.values.get(key)
        text = "nothing" if value is None else json.dumps(value)
        return text if len(text) < 80 else f"{text[:77]}…"

    def pair(self, key: str) -> str:
        """A key with its file and its value, for messages."""
        return f'{self.where}: "{key}": {self._shown(key)}'

    def given(self, key: str) -> bool:
        """Tells whether the key is there and not null."""
        return self.values.get(key) is not None

    def integer(
        self, key: str, default: int | None = None, minimum: int = 0, maximum: int = MOST_WIDTH
    ) -> int:
        """A whole number from `minimum` to `maximum`; without a default it must be there."""
        value = self._value(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise self.error(key, f"a whole number of at least {minimum}", _AGAIN)
        if value > maximum:
            raise self.error(key, f"at most {maximum}", _AGAIN)
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A finite number above 0; without a default it must be there."""
        value = self._value(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= 0:
            raise self.error(key, "a number above 0", _AGAIN)
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false", _AGAIN)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.error(key, "a text", _AGAIN)
        return value

    def reals(self, key: str, count: int) -> Sequence[float]:
        """A list of so many finite numbers above 0."""
        value = self.values.get(key)
        if (
            not isinstance(value, list)
            or len(value) != count
            or not all(
                isinstance(v, int | float) and not isinstance(v, bool) and 0 < v < math.inf
                for v in value
            )
        ):
            raise self.error(key, f"a list of {count} numbers above 0", _AGAIN)
        return [float(v) for v in value]

    def inner(self, key: str) -> JsonValues:
        """An object in this one; empty where it is missing."""
        value = self._value(key, {})
        if not isinstance(value, dict):
            raise self.error(key, "an object", _AGAIN)
        return JsonValues(value, f'{self.where}: "{key}"')

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", type(None): "null"}.get(type(value), "a number")
