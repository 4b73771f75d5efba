"""The YAML file of a language model: upstream's LlmConfig, with errors that name line and key.

What upstream's `export_llm` reads from a file, this reads from the same file. What these rules do
in another way, or can't do, is an error and never left out in silence.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError
from executorch.extension.llm.export.config.llm_config import LlmConfig, LoraConfig
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from etllm.unsupported import HONORED, OF_REPLACEMENTS, REASONS, VALUES
from etllm.yaml_lines import YamlFile

_BENCHMARK = "benchmark"
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


@functools.cache
def _schema() -> Any:
    """All keys with their types and defaults; a merge copies it."""
    return OmegaConf.structured(LlmConfig)


class Settings:
    """A language model's configuration file.

    Args:
      file: the YAML file's values.

    Attributes:
      llm: upstream's LlmConfig.
      file: the values as they stand there, with their lines.

    Raises:
      BuildError: a key or value is unknown, of the wrong type, or not supported; with its line.

    Example:

        settings = Settings.read(ctx.file("llm.yaml"), "models/llm.yaml")
        settings.llm.export.max_context_length
    """

    def __init__(self, file: YamlFile) -> None:
        _check_benchmark(file)
        self.file = file
        self.llm = self._parsed()
        self._check_supported()
        self._check_related()

    @classmethod
    def read(cls, path: Path, name: str) -> Settings:
        """Reads a file; `name` is what messages call it."""
        return cls(YamlFile.read(path, name))

    def error(self, key: str, expected: str, hint: str = "") -> BuildError:
        """An error about a key's value.

        Args:
          key: "model.use_kv_cache"; one that the file leaves out has upstream's default.
          expected: what it should be instead.
          hint: what to do.
        """
        value = _shown(self.value(key))
        default = "" if self.file.has(key) else " (upstream's default)"
        return BuildError(
            f"{self.file.position(key)}: {key}: got {value}{default}, expected {expected}.", hint
        )

    def value(self, key: str) -> Any:
        """The value of a key, upstream's default where the file leaves it out."""
        value: Any = self.llm
        for part in key.split("."):
            value = value[int(part)] if part.isdigit() else getattr(value, part)
        return value

    def dtype(self) -> torch.dtype:
        """The type that the model computes in."""
        return _DTYPES[self.llm.model.dtype_override.value]

    def enabled_backends(self) -> list[str]:
        """Names of the backends that the file enables, sorted."""
        backends = self.llm.backend
        return sorted(
            field.name
            for field in dataclasses.fields(backends)
            if getattr(getattr(backends, field.name), "enabled", False)
        )

    def group_size(self, default: int, step: int, rows: bool = False) -> int:
        """Columns that share a scale, by `quantization.group_size`.

        Args:
          default: what it is where the file does not say.
          step: what the number must be a multiple of.
          rows: whether 0, one scale a row, is possible.
        """
        given = self.llm.quantization.group_size
        group = default if given is None else given
        if group % step or group < (0 if rows else 1):
            also = ", or 0 for one scale a row" if rows else ""
            raise self.error("quantization.group_size", f"a positive multiple of {step}{also}")
        return group

    def no_group_size(self) -> None:
        """Fails for a number of columns that no quantization uses."""
        if self.llm.quantization.group_size is not None:
            raise self.error("quantization.group_size", 'nothing without qmode: "8da4w" or "4w"')

    def metadata(self) -> dict[str, Any]:
        """Metadata methods of `base.metadata`: numbers, texts, truth values and lists of them."""
        text = self.llm.base.metadata
        if not text:
            return {}
        expected = "a JSON object in quotes: '{\"get_bos_id\": 1}'"
        try:
            values = json.loads(text)
        except (RecursionError, ValueError):
            raise self.error("base.metadata", expected) from None
        if not isinstance(values, dict):
            raise self.error("base.metadata", expected)
        for name, value in values.items():
            items = value if isinstance(value, list) else [value]
            if not items or not all(isinstance(item, bool | int | float | str) for item in items):
                raise self.error(
                    "base.metadata", f'a number, text or list of them for "{name}", not {value!r}'
                )
        return values

    def check_without_replacements(self, feature: str) -> None:
        """Fails for the first key that changes layers of et_llm.

        Args:
          feature: what the checkpoint needs and these layers lack, for the message.
        """
        for key in sorted(self.file.lines, key=lambda key: self.file.lines[key]):
            if re.sub(r"\.\d+\.", ".*.", key) in OF_REPLACEMENTS and self.value(key):
                raise self.error(
                    key,
                    "nothing: it changes layers of et_llm, and this model has those of "
                    f"transformers ({feature})",
                    "Remove the key.",
                )

    def check_end(self, metadata: Mapping[str, Any]) -> None:
        """Fails for metadata that do not say which tokens end an answer."""
        if not metadata.get("get_eos_ids"):
            raise self.error(
                "base.metadata",
                "'{\"get_eos_ids\": […]}': the checkpoint does not say which tokens end an answer",
                "Add it, with the numbers of these tokens.",
            )

    def _parsed(self) -> LlmConfig:
        self._check_keys(self.file.values, LlmConfig)
        try:
            merged = OmegaConf.merge(_schema(), OmegaConf.create(dict(self.file.values)))
            result = OmegaConf.to_object(merged)
        except OmegaConfBaseException as error:
            raise self._wrong(error) from None
        except ValueError as error:
            raise self._contradiction(error) from None
        assert isinstance(result, LlmConfig)
        return result

    def _check_keys(self, values: Mapping[str, Any], section: type, path: str = "") -> None:
        """Fails for a key that a section of LlmConfig lacks, and for a value where keys belong."""
        hints = typing.get_type_hints(section)
        known = [field.name for field in dataclasses.fields(section)]
        for name, value in values.items():
            key = f"{path}.{name}" if path else name
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
                raise BuildError(
                    f"{self.file.position(key)}: unknown key {key}. {path or 'The file'} takes: "
                    f"{', '.join(sorted(known))}.",
                    f'Do you mean "{close[0]}"?' if close else "Remove it.",
                )
            inner, is_list = _section_of(hints[name])
            if inner is None:
                continue
            items = list(enumerate(value)) if is_list and isinstance(value, list) else [("", value)]
            for number, item in items:
                item_key = f"{key}.{number}" if number != "" else key
                if not isinstance(item, dict) or (is_list and number == ""):
                    expected = "a list of sections" if is_list else "a section with keys"
                    raise BuildError(
                        f"{self.file.position(item_key)}: {item_key}: got {_shown(item)}, "
                        f"expected {expected}.",
                        "Write its keys in lines of their own, each with two spaces more.",
                    )
                self._check_keys(item, inner, item_key)

    def _wrong(self, error: OmegaConfBaseException) -> BuildError:
        """For a value of another type than LlmConfig has."""
        key = re.sub(r"\[(\d+)\]", r".\1", error.full_key or "")
        text = str(error).splitlines()[0].rstrip(".")
        return BuildError(f"{self.file.position(key)}: {key}: {text}.", "Correct the value.")

    def _contradiction(self, error: ValueError) -> BuildError:
        """For values that LlmConfig refuses; its messages name keys without their section."""
        keys = [k for k in self.file.lines if re.search(rf"\b{k.rpartition('.')[2]}\b", str(error))]
        # The longest names a key; its section's name may be a word of the sentence, too.
        key = max(keys, key=lambda k: (k.count("."), len(k)), default="")
        named = f"{key}: " if key else ""
        return BuildError(f"{self.file.position(key)}: {named}{str(error).rstrip('.')}.")

    def _check_supported(self) -> None:
        """Fails for the first key whose value differs from the default and has no effect here."""
        default = LlmConfig()
        for key, value in _leaves(self.llm):
            self._check_value(key, value)
            if re.sub(r"\.\d+\.", ".*.", key) in HONORED or value == _default(default, key):
                continue
            reason, hint = _reason(key)
            raise BuildError(
                f"{self.file.position(key)}: {key}: got {_shown(value)}, which is not supported: "
                f"{reason}.",
                hint,
            )

    def _check_value(self, key: str, value: Any) -> None:
        """Fails for a value that has no effect here, of a key that has one."""
        for named, (reason, hint) in VALUES.items():
            prefix = named.removesuffix("…")
            shown = f"{key}: {getattr(value, 'value', value)}"
            if shown == named or (prefix != named and shown.startswith(prefix)):
                raise BuildError(
                    f"{self.file.position(key)}: {key}: got {_shown(value)}, which is not "
                    f"supported: {reason}.",
                    hint,
                )

    def _check_related(self) -> None:
        model, export = self.llm.model, self.llm.export
        if not model.use_kv_cache:
            raise self.error(
                "model.use_kv_cache",
                "true: programs hold a conversation in a KV cache of their own",
                'Add "use_kv_cache: true" to the section "model".',
            )
        if self.llm.quantization.qmode and self.llm.quantization.pt2e_quantize:
            raise self.error("quantization.pt2e_quantize", "nothing beside qmode", "Remove one.")
        for key in ("export.max_seq_length", "export.max_context_length"):
            if self.value(key) < 2:
                raise self.error(key, "at least 2 tokens")
        if export.max_context_length > 1 << 24:
            raise self.error("export.max_context_length", "at most 16777216 tokens")


def _check_benchmark(file: YamlFile) -> None:
    """Refuses the key of what an attribute decides: rules cannot read the file."""
    if _BENCHMARK in file.values:
        raise BuildError(
            f"{file.position(_BENCHMARK)}: {_BENCHMARK}: got "
            f"{_shown(file.values[_BENCHMARK])}, expected no such key.",
            "Set it as an attribute: et_llm(benchmark = True).",
        )


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All keys of a LlmConfig with their values; a list of plain values is one."""
    for field in dataclasses.fields(value):
        key = f"{path}.{field.name}" if path else field.name
        inner = getattr(value, field.name)
        if dataclasses.is_dataclass(inner):
            yield from _leaves(inner, key)
        elif isinstance(inner, list) and inner and dataclasses.is_dataclass(inner[0]):
            for i, item in enumerate(inner):
                yield from ((k, v) for k, v in _leaves(item, f"{key}.{i}"))
        else:
            yield key, inner


def _default(config: LlmConfig, key: str) -> Any:
    """The default of a key; of an item of a list or of a section that may lack, its class's."""
    if ".lora_config." in key:
        return getattr(LoraConfig(adapter_checkpoint=""), key.rpartition(".")[2])
    value: Any = config
    for part in key.split("."):
        if part.isdigit() or value is None:
            return None
        value = getattr(value, part)
    return value


def _reason(key: str) -> tuple[str, str]:
    """Says why a key is not supported, and what to do: that of the key or of its section."""
    parts = re.sub(r"\.\d+\.", ".*.", key).split(".")
    while parts:
        if ".".join(parts) in REASONS:
            return REASONS[".".join(parts)]
        parts.pop()
    return "these rules have nothing like it", "Remove the key."


def _section_of(hint: Any) -> tuple[type | None, bool]:
    """The dataclass that a field holds, and whether it holds a list of them; None: plain values."""
    if dataclasses.is_dataclass(hint):
        return hint, False
    inner = [a for a in typing.get_args(hint) if dataclasses.is_dataclass(a)]
    return (inner[0], typing.get_origin(hint) is list) if inner else (None, False)


def _shown(value: Any) -> str:
    value = getattr(value, "value", value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if dataclasses.is_dataclass(value) or isinstance(value, Mapping):
        return "a section"
    return "nothing" if value is None else str(value)
