"""Programs on other processors and on Android's runtime compute what the eager model computes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from etbuild import ModelContext

from models.silero_vad import build as build_silero
from tests.integration.bionic.nets import NETS, example
from tests.integration.noise import decibels
from tests.integration.program_starters import STARTERS

_HERE = Path("tests/integration/bionic").absolute()

# Those whose outputs are compared with linux_x86_64's.
_OTHERS = [platform for platform in STARTERS if platform != "linux_x86_64"]

# Precision to the least signal-to-noise ratio against the eager model, in dB.
_PRECISIONS = {"fp32": 100, "int4": 12, "int8_dynamic": 25, "int8_static": 20, "portable": 100}
# Between two processors and two versions of the runtime only roundings differ; where activations
# are integers, one of them may be the next one.
_SAME_PROGRAM = {"fp32": 100, "int4": 60, "int8_dynamic": 60, "int8_static": 30, "portable": 100}


def programs() -> dict[str, dict]:
    """The entry of each program in the app's manifest."""
    return json.loads((_HERE / "app_linux_x86_64/manifest.json").read_text())["programs"]


_PROGRAMS = programs()


def net_of(program: str) -> str:
    return program.split("_")[0]


def precision_of(program: str) -> str:
    return next((p for p in _PRECISIONS if p in program), "fp32")


def inputs_of(program: str) -> tuple[torch.Tensor, ...]:
    if net_of(program) in NETS:
        return (example(net_of(program), 7),)
    chirp = torch.sin(torch.arange(576) ** 2 * 1e-3).view(1, -1)
    return chirp, torch.full((2, 1, 128), 0.1)


def eager(program: str) -> list[np.ndarray]:
    if net_of(program) in NETS:
        module = NETS[net_of(program)]().eval()
    else:
        (weights,) = Path("..").glob("*silero_vad/silero_vad.jit")
        context = ModelContext(files={"silero_vad.jit": weights})
        module = build_silero(context).methods["forward"].module
    with torch.no_grad():
        outputs = module(*inputs_of(program))
    return [o.numpy() for o in (outputs if isinstance(outputs, tuple) else (outputs,))]


def run(platform: str, names: list[str], folder: Path) -> list[list[np.ndarray]]:
    """Outputs of programs that an app runs in one process."""
    app = _HERE / f"app_{platform}"
    command: list[str | Path] = [*STARTERS[platform], app / "runner"]
    for name in names:
        program = _PROGRAMS[name]
        command += ["--program", app / program["file"]]
        for data in program.get("data", ()):
            command += ["--data", app / data]
        for number, tensor in enumerate(inputs_of(name)):
            file = folder / f"{name}_{number}.npy"
            np.save(file, tensor.numpy())
            command += ["--input", file]
        command += ["--output", folder / platform / name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [
        [np.load(file) for file in sorted((folder / platform / name).glob("output_*.npy"))]
        for name in names
    ]


@pytest.mark.parametrize("platform", _OTHERS)
@pytest.mark.parametrize("name", _PROGRAMS)
@pytest.mark.few(24)
def test_outputs(name: str, platform: str, tmp_path: Path) -> None:
    (linux,) = run("linux_x86_64", [name], tmp_path)
    (other,) = run(platform, [name], tmp_path)
    expected = eager(name)
    for of_other, of_linux, of_eager in zip(other, linux, expected, strict=True):
        assert decibels(of_eager, of_other) >= _PRECISIONS[precision_of(name)]
        assert decibels(of_linux, of_other) >= _SAME_PROGRAM[precision_of(name)]


@pytest.mark.parametrize("platform", _OTHERS)
@pytest.mark.parametrize("precision", _PRECISIONS)
@pytest.mark.few(5)
def test_two_programs_of_one_process_share_a_file(
    precision: str, platform: str, tmp_path: Path
) -> None:
    names = [f"base_{precision}_shared", f"task_{precision}_shared"]
    shared, all_data = (set(_PROGRAMS[name]["data"]) for name in names)
    assert len(shared) == 1 and shared < all_data
    for name, outputs in zip(names, run(platform, names, tmp_path), strict=True):
        assert decibels(eager(name)[0], outputs[0]) >= _PRECISIONS[precision]


@pytest.mark.parametrize("platform", _OTHERS)
@pytest.mark.parametrize("precision", ["fp32", "portable"])
def test_missing_weights_are_an_error_and_no_crash(
    precision: str, platform: str, tmp_path: Path
) -> None:
    app = _HERE / f"app_{platform}"
    program = tmp_path / f"base_{precision}_separate.pte"
    shutil.copyfile(app / "programs" / program.name, program)
    command = [*STARTERS[platform], app / "runner", "--program", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "constant data is missing from the data files" in done.stderr.splitlines()[-1]
