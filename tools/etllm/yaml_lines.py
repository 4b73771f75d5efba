"""A YAML file as plain values, with the line that each key stands in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from etbuild import BuildError

# More than any configuration has; aliases could make a small file endless.
_MOST_VALUES = 10_000
_MERGE = "<<"


@dataclass(frozen=True)
class YamlFile:
    """Values of a YAML file.

    Attributes:
      name: of the file, for messages.
      values: of the mapping that it is.
      lines: line of each key, from 1, by its path: "model.use_kv_cache",
        "multimethod.methods.0.method_name".
    """

    name: str
    values: Mapping[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, name: str) -> YamlFile:
        """Reads a file.

        Args:
          path: of the file.
          name: what messages call it.

        Raises:
          BuildError: it can't be read, is no YAML or no mapping, or has a key twice.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BuildError(f"{name}: cannot be read: {error}.") from None
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError) as error:
            raise _no_yaml(name, error) from None
        if node is None:
            return cls(name, {})
        reader = _Reader(name)
        try:
            values = reader.value(node, "")
        except RecursionError:
            raise BuildError(f"{name}:1: the file is nested too deeply, or in itself.") from None
        if not isinstance(values, dict):
            raise BuildError(
                f"{name}:1: got {type(values).__name__}, expected a mapping.",
                'Write sections with keys, e.g. "model:" and below it "  use_kv_cache: true".',
            )
        return cls(name, values, reader.lines)

    def position(self, key: str) -> str:
        """Returns a key's position, as "llm.yaml:7"; of a missing one, its section's."""
        parts = key.split(".")
        while parts and ".".join(parts) not in self.lines:
            parts.pop()
        return f"{self.name}:{self.lines.get('.'.join(parts), 1)}"

    def has(self, key: str) -> bool:
        """Tells whether the file has a key."""
        return key in self.lines


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[str, int] = {}
        self._scalars = yaml.SafeLoader("")
        self._count = 0

    def value(self, node: yaml.Node, path: str) -> Any:
        self._count += 1
        if self._count > _MOST_VALUES:
            raise BuildError(f"{self._at(node)}: the file has more than {_MOST_VALUES} values.")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(n, f"{path}.{i}") for i, n in enumerate(node.value)]
        if isinstance(node.value, str) and "${" in node.value:
            raise BuildError(
                f'{self._at(node)}: {path}: got "{node.value}", expected a plain value: builds '
                "have no environment to take it from.",
                "Write the value itself.",
            )
        try:
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise BuildError(f"{self._at(node)}: {path}: {error}.") from None

    def _item(self, node: yaml.Node, path: str) -> Any:
        self.lines[path] = node.start_mark.line + 1
        return self.value(node, path)

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or not isinstance(key, str):
                raise BuildError(f"{self._at(key_node)}: a key has to be a word.")
            here = f"{path}.{key}" if path else key
            if key == _MERGE:
                raise BuildError(f'{self._at(key_node)}: merges ("{_MERGE}") are not supported.')
            if key in values:
                raise BuildError(
                    f"{self._at(key_node)}: {here} is there twice; the first one is in line "
                    f"{self.lines[here]}.",
                    "Remove one of them.",
                )
            self.lines[here] = key_node.start_mark.line + 1
            values[key] = self.value(value_node, here)
        return values

    def _at(self, node: yaml.Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}"


def _no_yaml(name: str, error: Exception) -> BuildError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error) or type(error).__name__
    problem = problem.splitlines()[0].rstrip(".")
    line = mark.line + 1 if mark else 1
    hint = "Correct the line."
    if "block" in problem:
        hint = "Keys of one section begin in the same column, with spaces; correct the indentation."
    return BuildError(f"{name}:{line}: no YAML: {problem}.", hint)
