"""Inputs from files of all kinds, and files that do not fit."""

from __future__ import annotations

import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from etbuild import BuildError, Method
from etlower import given_inputs
from safetensors.numpy import save_file
from safetensors.torch import save_file as torch_save

NET = torch.nn.Identity()
Write = Callable[[Path], object]


def method(*shapes: tuple[int, ...], **more: object) -> Method:
    return Method(NET, tuple(torch.zeros(shape) for shape in shapes), **more)  # type: ignore[arg-type]


ONE = {"forward": method((1, 2, 4))}
TWO = {"encode": method((1, 4), (1, 2)), "decode": method((1, 3))}


def test_without_files_the_models_own() -> None:
    example, test = (torch.zeros(1, 2, 4),), (torch.ones(1, 2, 4),)
    own = {"forward": Method(NET, example, test_inputs=(test,))}
    assert given_inputs.samples([], own, "//m:net") == {"forward": [example, test]}


@pytest.mark.parametrize(("shape", "count"), [((1, 2, 4), 1), ((2, 4), 1), ((3, 1, 2, 4), 3)])
def test_npy(tmp_path: Path, shape: tuple[int, ...], count: int) -> None:
    values = np.random.default_rng(0).random(shape)
    np.save(tmp_path / "x.npy", values)
    [name] = found = given_inputs.samples([tmp_path / "x.npy"], ONE, "//m:net")
    assert name == "forward"
    assert len(found[name]) == count
    for number, (tensor,) in enumerate(found[name]):
        assert tensor.dtype == torch.float32
        expected = values.reshape(count, 1, 2, 4)[number].astype("float32")
        assert np.array_equal(tensor.numpy(), expected)


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_named_arrays(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"x.{kind}"
    arrays = {
        "encode/0": np.ones((5, 1, 4), "float32"),
        "encode/1": np.zeros((5, 1, 2), "float32"),
        "decode/0": np.ones((1, 3), "float32"),
    }
    np.savez(file, **arrays) if kind == "npz" else save_file(arrays, file)
    found = given_inputs.samples([file], TWO, "//m:net")
    assert {name: len(inputs) for name, inputs in found.items()} == {"encode": 5, "decode": 1}
    assert [tuple(t.shape) for t in found["encode"][0]] == [(1, 4), (1, 2)]


def test_bfloat16_and_masks(tmp_path: Path) -> None:
    values = torch.tensor([[[1.5, -torch.inf, 0, 2], [0, 0, 0, 1]]], dtype=torch.bfloat16)
    torch_save({"0": values}, tmp_path / "x.safetensors")
    [(tensor,)] = given_inputs.samples([tmp_path / "x.safetensors"], ONE, "//m:net")["forward"]
    assert torch.equal(tensor, values.float())


def test_folder_is_a_set(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        np.save(tmp_path / f"{number}.npy", np.full((1, 2, 4), number))
    (tmp_path / "notes.txt").write_text("not an input")
    with pytest.raises(BuildError, match="got int64, expected float32"):
        given_inputs.samples([tmp_path], ONE, "//m:net")
    for number in (2, 0, 1):
        np.save(tmp_path / f"{number}.npy", np.full((1, 2, 4), number, "float32"))
    found = given_inputs.samples([tmp_path], ONE, "//m:net")["forward"]
    assert [tensor.unique().tolist() for (tensor,) in found] == [[0.0], [1.0], [2.0]]


@pytest.mark.parametrize(("channels", "width"), [(1, 2), (2, 2), (1, 1), (1, 4)])
def test_sound(tmp_path: Path, channels: int, width: int) -> None:
    half = {1: 192, 2: 2**14, 4: 2**30}[width]
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(16000)
        dtype = {1: "u1", 2: "<i2", 4: "<i4"}[width]
        file.writeframes(np.full(3 * channels, half, dtype).tobytes())
    net = {"forward": method((1, 4))}
    [(tensor,)] = given_inputs.samples([tmp_path / "x.wav"], net, "//m:net")["forward"]
    assert tensor.tolist() == [[0.5, 0.5, 0.5, 0.0]]


def test_dynamic_shapes_take_other_sizes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 7), "float32"))
    net = {"forward": method((1, 4), dynamic_shapes=({1: torch.export.Dim("n")},))}
    [(tensor,)] = given_inputs.samples([tmp_path / "x.npy"], net, "//m:net")["forward"]
    assert tensor.shape == (1, 7)


def _array(name: str, values: object) -> Write:
    return lambda folder: np.save(folder / name, np.asarray(values))


def _text(name: str, content: bytes) -> Write:
    return lambda folder: (folder / name).write_bytes(content)


def _archive(name: str, **arrays: object) -> Write:
    return lambda folder: np.savez(folder / name, **{k: np.asarray(v) for k, v in arrays.items()})


def _truncated_archive(folder: Path) -> None:
    _archive("cut.npz", **{"0": ROW})(folder)
    content = (folder / "cut.npz").read_bytes()
    (folder / "cut.npz").write_bytes(content[: len(content) // 2])


ROW = np.zeros((1, 2, 4), "float32")
PAIRS = {"encode": method((1, 4), (1, 2))}


@pytest.mark.parametrize(
    ("write", "methods", "message"),
    [
        (
            _array("large.npy", np.zeros((1, 2, 5), "float32")),
            ONE,
            r"large.npy: .*got an array of \(1, 2, 5\), expected \(1, 2, 4\) float32",
        ),
        (_array("deep.npy", np.zeros((1, 1, 1, 2, 4), "float32")), ONE, r"\(1, 1, 1, 2, 4\)"),
        (_array("whole.npy", ROW.astype("int64")), ONE, "got int64, expected float32"),
        (_array("text.npy", np.full((1, 2, 4), "a")), ONE, "got elements of <U1, expected float32"),
        (_array("objects.npy", np.array([None])), ONE, "objects.npy cannot be read"),
        (_array("nan.npy", ROW * np.nan), ONE, r"nan.npy: .*element at \(0, 0, 0\) is NaN"),
        (_array("none.npy", np.zeros((0, 1, 2, 4), "float32")), ONE, "none.npy has no sample"),
        (_array("two.npy", ROW), PAIRS, "no method takes just one tensor"),
        (
            _archive("one.npz", **{"encode/0": np.zeros((1, 4), "float32")}),
            TWO,
            'one.npz: method "encode": the input 1 is missing',
        ),
        (
            _archive("other.npz", **{"0": ROW, "mask": np.zeros(1)}),
            ONE,
            'other.npz has the array "mask", which no input is called',
        ),
        (
            _archive(
                "counts.npz", **{"0": np.zeros((2, 1, 4), "f"), "1": np.zeros((3, 1, 2), "f")}
            ),
            PAIRS,
            "the inputs have different numbers of samples: 2, 3",
        ),
        (_archive("empty.npz"), ONE, "empty.npz has no sample"),
        (_truncated_archive, ONE, "cut.npz cannot be read"),
        (_text("cut.safetensors", b"\xff" * 40), ONE, "cut.safetensors cannot be read"),
        (_text("cut.npy", b"\x93NUMPY"), ONE, "cut.npy cannot be read"),
        (_text("empty.npy", b""), ONE, "empty.npy cannot be read"),
        (_text("cut.wav", b"RIFF"), ONE, "cut.wav cannot be read"),
        (_text("empty.wav", b""), ONE, "empty.wav cannot be read"),
        (_text("net.txt", b"x"), ONE, "got a .txt file, expected one of .npy"),
        (lambda folder: (folder / "folder").mkdir(), ONE, "the folder folder has no inputs"),
    ],
)
def test_files_that_do_not_fit(
    write: Write, methods: dict[str, Method], message: str, tmp_path: Path
) -> None:
    write(tmp_path)
    [file] = tmp_path.iterdir()
    with pytest.raises(BuildError, match=message) as caught:
        given_inputs.samples([file], methods, "//m:net")
    assert str(caught.value).startswith("//m:net: ")
