"""Calibration inputs from a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from etbuild import BuildError, Method, ModelSpec
from etlower import calibration
from executorch.export import ExportRecipe
from request_files import request
from safetensors.torch import save_file

_NET = torch.nn.Linear(4, 2)
_METHODS = {
    "forward": Method(_NET, (torch.zeros(1, 4),)),
    "pair": Method(_NET, (torch.zeros(2, 4), torch.zeros(3, dtype=torch.int64))),
}


def saved(folder: Path, **tensors: torch.Tensor) -> Path:
    file = folder / "samples.safetensors"
    save_file({name.replace("__", "/").lstrip("_"): t for name, t in tensors.items()}, file)
    return file


def failure(file: Path) -> str:
    with pytest.raises(BuildError) as caught:
        calibration.read(file, _METHODS, "//m:program")
    return str(caught.value)


def test_samples_of_a_method(tmp_path: Path) -> None:
    values = torch.arange(12, dtype=torch.float32).reshape(3, 1, 4)
    result = calibration.read(saved(tmp_path, forward__0=values), _METHODS, "//m:program")
    assert list(result) == ["forward"]
    assert [inputs[0].tolist() for inputs in result["forward"]] == values.tolist()


def test_samples_of_all_methods(tmp_path: Path) -> None:
    one = {"forward": _METHODS["forward"], "again": _METHODS["forward"]}
    result = calibration.read(saved(tmp_path, _0=torch.ones(2, 1, 4)), one, "//m:program")
    assert {name: len(inputs) for name, inputs in result.items()} == {"forward": 2, "again": 2}


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"other__0": torch.ones(1, 1, 4)}, 'has the tensor "other/0", which no input is called'),
        ({"forward__1": torch.ones(1, 1, 4)}, "forward takes 1, pair takes 2"),
        ({"image": torch.ones(1, 1, 4)}, 'has the tensor "image"'),
        ({"pair__0": torch.ones(1, 2, 4)}, 'method "pair": the input 1 is missing'),
        (
            {"forward__0": torch.ones(3, 1, 5)},
            "got samples of (1, 5) float32, expected (1, 4) float32",
        ),
        ({"forward__0": torch.ones(3, 1, 4).double()}, "(1, 4) float64, expected (1, 4) float32"),
        (
            {"pair__0": torch.ones(1, 2, 4), "pair__1": torch.ones(2, 3, dtype=torch.int64)},
            "its tensors have different numbers of samples (0: (1, 2, 4), 1: (2, 3))",
        ),
        ({"forward__0": torch.ones(0, 1, 4)}, "its tensors have different numbers of samples"),
    ],
)
def test_files_that_do_not_fit(
    tensors: dict[str, torch.Tensor], words: str, tmp_path: Path
) -> None:
    assert words in failure(saved(tmp_path, **tensors))


def test_a_damaged_file(tmp_path: Path) -> None:
    file = saved(tmp_path, forward__0=torch.ones(1, 1, 4))
    file.write_bytes(file.read_bytes()[:20])
    assert "samples.safetensors cannot be read" in failure(file)


def test_a_recipe_that_calibrates_nothing(tmp_path: Path) -> None:
    asked = request(
        calibration=saved(tmp_path, forward__0=torch.ones(1, 1, 4)), recipe={"label": "//r:fp32"}
    )
    with pytest.raises(BuildError, match="the recipe //r:fp32 calibrates nothing"):
        calibration.with_file(ModelSpec(_METHODS), ExportRecipe(name="fp32"), asked)
