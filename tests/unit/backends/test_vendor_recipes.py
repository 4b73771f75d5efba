"""Builders of recipes that take a vendor's SDK: SDKs that lack parts."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
from etbuild import BuildError, Options, RecipeContext

# Recipe, and what the folder that stands for an SDK lacks.
_LACKING = {
    "cuda.fp32": "NVIDIA's CUDA toolkit has no bin/ptxas",
    "mediatek.fp16": "the Python package mtk_converter of MediaTek's NeuroPilot Express SDK",
    "mediatek.int8": "the Python package mtk_converter of MediaTek's NeuroPilot Express SDK",
    "nxp.int8": "the Python package eiq_neutron_sdk of NXP's eIQ Neutron SDK is missing",
    "qualcomm.fp16": "has no lib/x86_64-linux-clang/libQnnHtp.so; the folder has: README",
    "qualcomm.int8": "Engine Direct SDK (QNN) has no lib/x86_64-linux-clang/libQnnHtp.so",
    "samsung.fp16": "executorch/backends/samsung/python/PyEnnWrapperAdaptor.*.so is missing",
    "samsung.int8": "of Samsung's Exynos AI LiteCore SDK; ExecuTorch's wheels lack it",
}


def _made(recipe: str) -> object:
    backend, _, name = recipe.partition(".")
    builder = getattr(importlib.import_module(f"{backend}_recipes"), name)
    return builder(RecipeContext(Options({}, "//:r"), "//:r"))


@pytest.mark.parametrize("recipe", sorted(_LACKING))
def test_lacking(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without the SDK's parts: the message names recipe, part and SDK."""
    (tmp_path / "README").touch()
    backend = recipe.split(".")[0]
    monkeypatch.setenv("EXECUTORCH_SDK_" + backend.upper(), str(tmp_path))
    monkeypatch.setenv("QNN_SDK_ROOT", "")
    with pytest.raises(BuildError) as caught:
        _made(recipe)
    assert str(caught.value).startswith("//:r: ")
    assert _LACKING[recipe] in str(caught.value)


@pytest.mark.parametrize("recipe", sorted(_LACKING))
def test_not_given(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an SDK: what to add to MODULE.bazel."""
    backend = recipe.split(".")[0]
    monkeypatch.delenv("EXECUTORCH_SDK_" + backend.upper(), raising=False)
    with pytest.raises(BuildError, match=rf'executorch\.sdk\(backend = "{backend}"'):
        _made(recipe)


def test_cpu_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU build of torch can't lower for CUDA: its version and the remedy are named."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ptxas").touch()
    monkeypatch.setenv("EXECUTORCH_SDK_CUDA", str(tmp_path))
    wanted = rf"the exporter's torch {torch.__version__} is a CPU build".replace("+", r"\+")
    with pytest.raises(BuildError, match=wanted) as caught:
        _made("cuda.fp32")
    assert "executorch.exporter(locks = …)" in str(caught.value)


def test_broken_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no library is named with the loader's reason."""
    libraries = tmp_path / "lib/x86_64-linux-clang"
    libraries.mkdir(parents=True)
    (libraries / "libQnnHtp.so").write_text("no library")
    monkeypatch.setenv("EXECUTORCH_SDK_QUALCOMM", str(tmp_path))
    monkeypatch.setenv("QNN_SDK_ROOT", "")
    with pytest.raises(BuildError, match=r"libQnnHtp\.so of .* cannot be loaded: "):
        _made("qualcomm.fp16")


def test_quantizers() -> None:
    """Upstream's quantizers that need no SDK are made as they are meant to be."""
    qualcomm = importlib.import_module("qualcomm_recipes")
    samsung = importlib.import_module("samsung_recipes")
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset

    was = torch.backends.mkldnn.set_flags(True)
    try:
        made = qualcomm.quantizer(QcomChipset.SM8650, "use_16a8w")
        assert made.default_quant_config.quant_dtype.name == "use_16a8w"
    finally:
        torch.backends.mkldnn.set_flags(*was)
    quantization = samsung.quantization(per_channel=False)
    assert not quantization.fold_quantize
    assert not quantization.quantizers[0]._is_per_channel
