"""Inputs of methods from files: arrays, images, sound, and folders of these.

Each file has one sample, or several: arrays with one dimension more than the input have a sample in
each element of the first one. What is no array becomes one of the shape and type of the method's
example input.
"""

from __future__ import annotations

import dataclasses
import wave
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from etbuild import BuildError, Method, ModelSpec
from safetensors import SafetensorError
from safetensors.torch import load_file

from etlower.flags import Request
from etlower.given_images import CONFIG, IMAGES, Images

_ARRAYS = (".npy", ".npz", ".safetensors")
_KINDS = (*_ARRAYS, ".wav", *IMAGES)
_NAMES = (
    'Name arrays by the position of an input ("0"), or by method and position ("prefill/0"), as in '
    'numpy.savez(file, **{"0": image, "1": mask}).'
)


def samples(
    files: Sequence[Path],
    methods: Mapping[str, Method],
    label: str,
    preprocessing: Mapping[str, str] | None = None,
) -> dict[str, list[tuple[Any, ...]]]:
    """Inputs by method.

    Args:
      files: files or folders; empty: the example and test inputs of all methods.
      methods: the model's.
      label: of the target, for messages.
      preprocessing: how images become inputs; a preprocessor_config.json among the files says it,
        too.

    Returns:
      For each method that the files have inputs of, these.

    Raises:
      BuildError: a file is damaged, of another kind, or fits no method.
    """
    if not files:
        return {n: [m.example_inputs, *m.test_inputs] for n, m in methods.items()}
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in methods}
    images = Images(files, preprocessing or {}, label)
    for file in _all(files, label):
        where = f"{label}: {file.name}"
        of_file = list(_of_file(file, methods, images, where))
        if not of_file:
            raise BuildError(f"{where} has no sample.", f"Put one into it, or remove it. {_NAMES}")
        for name, inputs in of_file:
            found[name].append(inputs)
    return {name: inputs for name, inputs in found.items() if inputs}


def with_files(spec: ModelSpec, request: Request) -> ModelSpec:
    """The model's specification with the inputs of a request's files.

    Args:
      spec: the model.
      request: with `test_inputs`; `only_test_inputs`: methods that these have no input of go.

    Raises:
      BuildError: as `samples`.
    """
    if not request.test_inputs:
        return spec
    found = samples(request.test_inputs, spec.methods, request.label, request.preprocessing)
    methods = {}
    for name, method in spec.methods.items():
        given = found.get(name, [])
        if not request.only_test_inputs:
            tests = (*method.test_inputs, *given)
            methods[name] = dataclasses.replace(method, test_inputs=tests)
        elif given:
            methods[name] = dataclasses.replace(
                method, example_inputs=given[0], test_inputs=tuple(given[1:])
            )
    return dataclasses.replace(spec, methods=methods)


def _all(files: Sequence[Path], label: str) -> Iterator[Path]:
    """Files, and those of folders, sorted."""
    for file in files:
        if not file.is_dir():
            if file.name != CONFIG:
                yield file
            continue
        inside = sorted(f for f in file.rglob("*") if f.suffix.lower() in _KINDS)
        if not inside:
            raise BuildError(
                f"{label}: the folder {file.name} has no inputs.",
                f"Put files of these kinds into it: {', '.join(_KINDS)}.",
            )
        yield from inside


def _of_file(
    file: Path, methods: Mapping[str, Method], images: Images, where: str
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    kind = file.suffix.lower()
    if kind in (".npz", ".safetensors"):
        yield from _of_named(_named(file, where), methods, where)
        return
    if kind not in _KINDS:
        raise BuildError(
            f"{where}: got a {kind or 'nameless'} file, expected one of {', '.join(_KINDS)}."
        )
    fitting = {n: m for n, m in methods.items() if _single(m) is not None}
    if not fitting:
        takes = ", ".join(f"{n} takes {len(m.example_inputs)}" for n, m in sorted(methods.items()))
        raise BuildError(
            f"{where}: the file has one input, and no method takes just one tensor ({takes}).",
            f"Give a .npz or .safetensors file. {_NAMES}",
        )
    for name, method in fitting.items():
        example = _single(method)
        assert example is not None
        for array in _arrays(file, kind, example, images, where):
            yield name, (_tensor(array, example, method, f'{where}: method "{name}"'),)


def _single(method: Method) -> torch.Tensor | None:
    """The example input of a method that takes one tensor; None: it takes something else."""
    inputs = method.example_inputs
    one = inputs[0] if len(inputs) == 1 else None
    return one if isinstance(one, torch.Tensor) else None


def _named(file: Path, where: str) -> dict[str, np.ndarray]:
    try:
        if file.suffix.lower() == ".safetensors":
            return {name: _as_numpy(tensor) for name, tensor in load_file(file).items()}
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, SafetensorError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(where, error) from error


def _as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The array of a tensor; NumPy lacks bfloat16, whose values fit into float32."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _unreadable(where: str, error: Exception) -> BuildError:
    return BuildError(f"{where} cannot be read: {' '.join(str(error).split())}.")


def _of_named(
    arrays: Mapping[str, np.ndarray], methods: Mapping[str, Method], where: str
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Samples of a file whose arrays have names."""
    used: set[str] = set()
    for name, method in methods.items():
        keys = [_key(arrays, name, i) for i in range(len(method.example_inputs))]
        if not any(keys):
            continue
        missing = [str(i) for i, key in enumerate(keys) if not key]
        if missing:
            raise BuildError(
                f'{where}: method "{name}": the input {", ".join(missing)} is missing.', _NAMES
            )
        used |= {key for key in keys if key}
        yield from ((name, s) for s in _together(arrays, keys, method, f'{where}: method "{name}"'))
    unknown = sorted(set(arrays) - used)
    if unknown:
        raise BuildError(f'{where} has the array "{unknown[0]}", which no input is called.', _NAMES)


def _key(arrays: Mapping[str, np.ndarray], method: str, position: int) -> str | None:
    names = (f"{method}/{position}", str(position), f"arr_{position}")
    return next((name for name in names if name in arrays), None)


def _together(
    arrays: Mapping[str, np.ndarray], keys: Sequence[str | None], method: Method, where: str
) -> list[tuple[Any, ...]]:
    """The samples of a method: arrays with one dimension more have one in each element."""
    columns = []
    for position, (key, example) in enumerate(zip(keys, method.example_inputs, strict=True)):
        assert key is not None
        if not isinstance(example, torch.Tensor):
            raise BuildError(
                f"{where}: input {position} is a {type(example).__name__}, which no array can "
                "stand for."
            )
        at = f"{where}: input {position}"
        columns.append([_tensor(a, example, method, at) for a in _each(arrays[key], example)])
    counts = {len(column) for column in columns}
    if len(counts) != 1:
        sizes = ", ".join(str(len(column)) for column in columns)
        raise BuildError(f"{where}: the inputs have different numbers of samples: {sizes}.")
    return list(zip(*columns, strict=True))


def _each(array: np.ndarray, example: torch.Tensor) -> Sequence[np.ndarray]:
    return list(array) if array.ndim == example.dim() + 1 else [array]


def _arrays(
    file: Path, kind: str, example: torch.Tensor, images: Images, where: str
) -> Sequence[np.ndarray]:
    """The samples of a file with one input."""
    try:
        if kind == ".npy":
            return _each(np.load(file, allow_pickle=False), example)
        if kind == ".wav":
            return [_sound(file, example, where)]
    except (OSError, ValueError, EOFError, wave.Error) as error:
        raise _unreadable(where, error) from error
    return [images.read(file, example, where)]


def _sound(file: Path, example: torch.Tensor, where: str) -> np.ndarray:
    """Samples from -1 to 1 in the example's shape, cut or with silence behind them."""
    with wave.open(str(file), "rb") as opened:
        width, channels = opened.getsampwidth(), opened.getnchannels()
        raw = opened.readframes(opened.getnframes())
    if width not in (1, 2, 4):
        raise BuildError(
            f"{where}: got samples of {8 * width} bits, expected 8, 16 or 32.",
            "Convert it: ffmpeg -i in.wav -c:a pcm_s16le out.wav.",
        )
    values = np.frombuffer(raw, {1: "u1", 2: "<i2", 4: "<i4"}[width]).astype("float32")
    values = (values - 128) / 128 if width == 1 else values / float(2 ** (8 * width - 1))
    mono = values.reshape(-1, channels).mean(axis=1)
    length = example.shape[-1]
    if example.numel() != length:
        raise BuildError(
            f"{where}: sound has one row of samples, and the input has {tuple(example.shape)}.",
            "Give the features that the model takes as a .npy file.",
        )
    return np.pad(mono, (0, max(0, length - len(mono))))[:length].reshape(tuple(example.shape))


def _tensor(array: np.ndarray, example: torch.Tensor, method: Method, where: str) -> torch.Tensor:
    """An input of a method.

    Raises:
      BuildError: the shape or the type is another one than the example's, or there is NaN in it.
    """
    expected = tuple(example.shape)
    if array.ndim == example.dim() - 1 and expected[:1] == (1,):
        array = array[None]
    fits = (
        array.ndim == len(expected)
        if method.dynamic_shapes is not None
        else array.shape == expected
    )
    dtype = str(example.dtype).removeprefix("torch.")
    if not fits:
        raise BuildError(f"{where}: got an array of {array.shape}, expected {expected} {dtype}.")
    if array.dtype.kind not in "biuf":
        raise BuildError(f"{where}: got elements of {array.dtype}, expected {dtype}.")
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if bool(tensor.isnan().any()):
        at = tuple(int(i) for i in tensor.isnan().nonzero()[0])
        raise BuildError(
            f"{where}: the element at {at} is NaN, so both sides would be NaN and agree.",
            "Correct the file.",
        )
    if tensor.is_floating_point() and example.is_floating_point():
        return tensor.to(example.dtype)
    if tensor.dtype != example.dtype:
        raise BuildError(f"{where}: got {array.dtype}, expected {dtype}.")
    return tensor
