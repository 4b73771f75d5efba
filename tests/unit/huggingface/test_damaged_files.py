"""Damaged checkpoints: each is refused with its file, and where one is wrong with its tensor."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError
from etllm import entry
from safetensors import safe_open
from safetensors.torch import save_file
from test_modeling_code import YAML, target, written
from test_stored_weights import DYNAMIC_4, quantized

_FIRST = "model-00001-of-00002.safetensors"
_INDEX = "model.safetensors.index.json"
# Tensors of all architectures here.
_DOWN = "model.layers.0.mlp.down_proj.weight"

Damage = Callable[[Path], Any]


def _read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    with safe_open(path, framework="pt") as file:
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}, file.metadata() or {}


def _split(folder: Path) -> None:
    """Makes two files of one; the parts of quantized tensors come apart."""
    tensors, metadata = _read(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    placed = {}
    for number in (0, 1):
        name = f"model-0000{number + 1}-of-00002.safetensors"
        part = dict(sorted(tensors.items())[number::2])
        placed |= dict.fromkeys(part, name)
        save_file(part, folder / name, metadata)
    (folder / _INDEX).write_text(json.dumps({"metadata": {}, "weight_map": placed}))


def _file_of(folder: Path, tensor: str) -> Path:
    weights = json.loads((folder / _INDEX).read_text())["weight_map"]
    return folder / weights[tensor]


def _cut(share: float) -> Damage:
    def cut(folder: Path) -> None:
        data = (folder / _FIRST).read_bytes()
        (folder / _FIRST).write_bytes(data[: int(len(data) * share)])

    return cut


def _begin(data: bytes) -> Damage:
    def begin(folder: Path) -> None:
        (folder / _FIRST).write_bytes(data + (folder / _FIRST).read_bytes()[len(data) :])

    return begin


def _index(**values: Any) -> Damage:
    """Adds entries to the index: files of a layer's parts."""

    def change(folder: Path) -> None:
        index = json.loads((folder / _INDEX).read_text())
        weights = {
            **index["weight_map"],
            **{_DOWN.replace("down_proj", n): v for n, v in values.items()},
        }
        (folder / _INDEX).write_text(json.dumps({**index, "weight_map": weights}))

    return change


def _with(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Damage:
    """Changes the tensors of the first file, and the index with them."""

    def rewrite(folder: Path) -> None:
        tensors, metadata = _read(folder / _FIRST)
        changed = change(tensors)
        save_file(changed, folder / _FIRST, metadata)
        index = json.loads((folder / _INDEX).read_text())
        weights = {n: f for n, f in index["weight_map"].items() if f != _FIRST or n in changed}
        weights |= dict.fromkeys(changed, _FIRST)
        (folder / _INDEX).write_text(json.dumps({**index, "weight_map": weights}))

    return rewrite


def _a_weight(tensors: dict[str, torch.Tensor]) -> str:
    """A matrix of a layer, or the integers of one."""
    return next(n for n, t in sorted(tensors.items()) if ".layers.0." in n and t.dim() == 2)


def _changed(make: Callable[[torch.Tensor], torch.Tensor]) -> Damage:
    return _with(lambda tensors: {**tensors, _a_weight(tensors): make(tensors[_a_weight(tensors)])})


# The damage, and words of the message; {tensor} is the one that is changed.
DAMAGES: dict[str, tuple[Damage, list[str]]] = {
    "empty": (_cut(0), [_FIRST, "found 0 bytes"]),
    "header cut": (_cut(0.05), [_FIRST, "expected a complete safetensors file"]),
    "half": (_cut(0.5), [_FIRST, "expected a complete safetensors file"]),
    "a byte short": (_cut(0.9999), [_FIRST, "expected a complete safetensors file"]),
    "huge header": (_begin(b"\xff" * 8), [_FIRST, "expected a complete safetensors file"]),
    "no JSON": (_begin(b"\x40\0\0\0\0\0\0\0]]"), [_FIRST, "expected a complete safetensors file"]),
    "no shard": (lambda f: (f / _FIRST).unlink(), [_INDEX, "missing", _FIRST]),
    "index is text": (lambda f: (f / _INDEX).write_text("{"), [_INDEX, "not JSON"]),
    "index is a list": (lambda f: (f / _INDEX).write_text("[]"), [_INDEX, "got a list"]),
    "index without map": (
        lambda f: (f / _INDEX).write_text('{"metadata": {}, "weight_map": [1]}'),
        [_INDEX, '"weight_map"', "expected an object"],
    ),
    "index outside": (_index(up="../../secret.safetensors"), [_INDEX, "../../secret"]),
    "index with numbers": (_index(up=7), [_INDEX, "missing: 7"]),
    "index with more": (_index(no=_FIRST), [_INDEX, "mlp.no.weight", "found in no file"]),
    "other shape": (
        _changed(lambda t: t[:-1].contiguous()),
        [_FIRST, "{tensor}", "got"],
    ),
    "other type": (_changed(lambda t: t.to(torch.int32)), [_FIRST, "{tensor}"]),
    "missing": (
        _with(lambda tensors: {n: t for n, t in tensors.items() if n != _a_weight(tensors)}),
        ["{tensor}", "expected"],
    ),
    "more": (
        _with(lambda tensors: {**tensors, "model.layers.0.mlp.down_proj.bias": torch.ones(64)}),
        ["down_proj.bias"],
    ),
    "twice": (
        lambda f: save_file(
            {**_read(f / _FIRST)[0], **_read(f / _FIRST.replace("1-", "2-"))[0]}, f / _FIRST
        ),
        ["safetensors: tensor", "too."],
    ),
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Whole checkpoints in two files: with layers of et_llm, of transformers, and quantized."""
    folder = tmp_path_factory.mktemp("whole")
    made = {}
    for architecture in ("qwen3", "olmo2"):
        made[architecture] = folder / architecture
        written(architecture, made[architecture])
    made["torchao"], _ = quantized("qwen3", folder, DYNAMIC_4)
    for place in made.values():
        _split(place)
    return made


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("checkpoint", ["qwen3", "olmo2", "torchao"])
def test_damages_are_named(
    checkpoint: str, damage: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    for file in checkpoints[checkpoint].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    do, words = DAMAGES[damage]
    tensor = _a_weight(_read(tmp_path / _FIRST)[0])
    do(tmp_path)
    with pytest.raises(BuildError) as caught:
        entry.build(target(tmp_path, YAML))
    message = str(caught.value)
    for word in words:
        # A part of a quantized tensor, or its name.
        wanted = word.format(tensor=tensor)
        assert wanted in message or re.sub(r"\._weight_\w+$", ".weight", wanted) in message, message
    assert str(tmp_path) not in message and "Traceback" not in message


def test_parts_of_a_quantized_tensor_may_be_in_several_files(
    checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    """As a limit of a file's size divides them."""
    whole, _ = quantized("qwen3", tmp_path, DYNAMIC_4)

    def state(folder: Path) -> dict[str, torch.Tensor]:
        yaml = YAML + "quantization:\n  qmode: 8da4w\n  group_size: 32\n"
        return entry.build(target(folder, yaml)).methods["forward"].module.state_dict()

    one, several = state(whole), state(checkpoints["torchao"])
    assert one.keys() == several.keys()
    assert all(torch.equal(one[name], several[name]) for name in one)
