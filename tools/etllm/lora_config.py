"""Reads an adapter_config.json of PEFT, and rejects what lora.py does not compute."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild import BuildError

from etllm.json_values import JsonValues

# The standard library's own parser: it has no limit for the time that a match takes.
_parser = re._parser  # type: ignore[attr-defined]
_MOST_REPEATS = 5
# More than any adapter has; a damaged file may have any number of digits.
_MOST_RANK = 1 << 20
_MOST_ALPHA = 1e30

SAVE_AGAIN = "Save the adapter again with PEFT's save_pretrained, or fetch the file again."
# Settings of PEFT that change what an adapter computes; each must be off (false, null or empty).
_MUST_BE_OFF = (
    "alora_invocation_tokens",
    "alpha_pattern",
    "arrow_config",
    "fan_in_fan_out",
    "kasa_config",
    "layer_replication",
    "lora_bias",
    "modules_to_save",
    "monteclora_config",
    "rank_pattern",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_dora",
    "use_qalora",
)
# Ways to initialize that leave the base weights alone; others (PiSSA, OLoRA, …) change them.
_INITS = (True, False, None, "gaussian", "eva", "orthogonal")


@dataclass(frozen=True)
class Config:
    """The contents of an adapter_config.json.

    Attributes:
      path: the file.
      rank: r, columns of B and rows of A.
      scale: factor of the product: lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora.
      targets: names of layers or their ends; or a regular expression for whole names.
      excluded: likewise, layers that are left out.
      layers: numbers of the blocks that have the adapter; None: all.
    """

    path: Path
    rank: int
    scale: float
    targets: tuple[str, ...] | str
    excluded: tuple[str, ...] | str = ()
    layers: tuple[int, ...] | None = None

    @classmethod
    def read(cls, path: Path) -> Config:
        """Reads and checks the file.

        Args:
          path: the adapter_config.json.

        Returns:
          The configuration.

        Raises:
          BuildError: it can't be read, or describes something that `attach` doesn't compute.
        """
        values = JsonValues.read(path, str(path), SAVE_AGAIN).values
        _expect(path, values, "peft_type", "LORA")
        _expect(path, values, "bias", "none", default="none")
        for name in _MUST_BE_OFF:
            if values.get(name):
                raise _unsupported(path, name, values[name], "false, null or nothing at all")
        if values.get("init_lora_weights") not in _INITS:
            raise _unsupported(
                path, "init_lora_weights", values["init_lora_weights"], "one that keeps the base"
            )
        rank, alpha = values.get("r"), values.get("lora_alpha")
        if not _is_number(rank, int) or not 1 <= rank <= _MOST_RANK:
            raise _wrong(path, "r", rank, "a whole number of at least 1")
        if not _is_number(alpha, int | float) or not abs(alpha) < _MOST_ALPHA:
            raise _wrong(path, "lora_alpha", alpha, "a number")
        rooted = values.get("use_rslora") or False
        if not isinstance(rooted, bool):
            raise _wrong(path, "use_rslora", rooted, "true or false")
        return cls(
            path,
            rank,
            alpha / (math.sqrt(rank) if rooted else rank),
            _names(path, values, "target_modules"),
            _names(path, values, "exclude_modules", optional=True),
            _layers(path, values.get("layers_to_transform")),
        )

    def takes(self, name: str) -> bool:
        """Tells whether a layer has the adapter; its name is "model.layers.0.self_attn.q_proj"."""
        number = int(name.split(".")[2])
        if self.layers is not None and number not in self.layers:
            return False
        return matches(name, self.targets) and not matches(name, self.excluded)


def _expect(
    path: Path, values: Mapping[str, Any], name: str, expected: str, default: str | None = None
) -> None:
    value = values.get(name, default)
    if value != expected:
        raise _unsupported(path, name, value, json.dumps(expected))


def _unsupported(path: Path, name: str, value: object, expected: str) -> BuildError:
    return BuildError(
        f'{path}: "{name}": got {json.dumps(value)}, expected {expected}.',
        "Train a plain LoRA adapter, or merge this one into the weights with PEFT's "
        "merge_and_unload.",
    )


def _wrong(path: Path, name: str, value: object, expected: str) -> BuildError:
    return BuildError(
        f'{path}: "{name}": got {json.dumps(value)}, expected {expected}.', SAVE_AGAIN
    )


def _is_number(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _names(
    path: Path, values: Mapping[str, Any], name: str, optional: bool = False
) -> tuple[str, ...] | str:
    """A list of names, or a regular expression."""
    value = values.get(name)
    if not value and optional:
        return ()
    if isinstance(value, str) and value:
        try:
            re.compile(value)
        except (OverflowError, RecursionError, re.error) as error:
            raise _wrong(path, name, value, f"a regular expression ({error})") from None
        if _may_take_for_ever(value):
            raise _wrong(path, name, value, "a regular expression without repeats in repeats")
        # PEFT's own word for every linear layer but the head.
        return ".*" if value == "all-linear" else value
    if isinstance(value, list) and value and all(isinstance(n, str) for n in value):
        return tuple(sorted(set(value)))
    raise _wrong(path, name, value, "a list of layer names, or a regular expression")


def _may_take_for_ever(pattern: str) -> bool:
    """Tells whether a match may take exponentially long: repeats in a repeat, or many."""
    repeats = 0
    waiting: list[tuple[Any, bool]] = [(_parser.parse(pattern), False)]
    while waiting:
        part, repeated = waiting.pop()
        if isinstance(part, tuple) and len(part) == 3 and isinstance(part[1], int):
            # Least and most times, and what is repeated.
            least, most, _ = part
            if most > least and repeated:
                return True
            repeats += most > max(least, 1)
            repeated = repeated or most > 1
        if isinstance(part, _parser.SubPattern | list | tuple):
            waiting += [(inner, repeated) for inner in part]
    return repeats > _MOST_REPEATS


def _layers(path: Path, value: object) -> tuple[int, ...] | None:
    numbers = value if isinstance(value, list) else [value]
    if value is None or value == []:
        return None
    if not all(_is_number(number, int) for number in numbers):
        raise _wrong(path, "layers_to_transform", value, "a number, or a list of numbers")
    return tuple(sorted(numbers))


def matches(name: str, names: tuple[str, ...] | str) -> bool:
    """Tells whether a layer is meant, by PEFT's rules.

    Args:
      name: the layer's whole name, "model.layers.0.self_attn.q_proj".
      names: whole names or their ends ("q_proj"); or a regular expression for the whole name.
    """
    if isinstance(names, str):
        return re.fullmatch(names, name) is not None
    return any(name == end or name.endswith("." + end) for end in names)
