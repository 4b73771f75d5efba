"""Builders of recipes that take a vendor's SDK: options, and SDKs that lack parts."""

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
    "mlx.fp32": "has no executorch/backends/mlx/serialization/mlx_graph_schema.py",
    "mlx.int4_weight_only": "executorch's wheel for macOS has no executorch/backends/mlx",
    "nxp.int8": "the Python package eiq_neutron_sdk of NXP's eIQ Neutron SDK is missing",
    "qualcomm.fp16": "has no lib/x86_64-linux-clang/libQnnHtp.so; the folder has: README",
    "qualcomm.int8": "Engine Direct SDK (QNN) has no lib/x86_64-linux-clang/libQnnHtp.so",
    "samsung.fp16": "executorch/backends/samsung/python/PyEnnWrapperAdaptor.*.so is missing",
    "samsung.int8": "of Samsung's Exynos AI LiteCore SDK; ExecuTorch's wheels lack it",
}

_WRONG = [
    ("cuda.fp32", "platform", "macos", "expected one of linux, windows"),
    ("cuda.fp32", "low_memory", "maybe", "expected true or false"),
    ("mediatek.int8", "platform", "mt6990", "expected one of mt6989, mt6991, mt6993"),
    ("mlx.int4_weight_only", "group_size", "33", "expected one of 32, 64, 128"),
    ("nxp.int8", "quantized_io", "maybe", "expected true or false"),
    ("qualcomm.fp16", "soc_model", "SM1", "expected one of QCM6490, QCS9100, "),
    ("qualcomm.a16w8", "skip_mutable_buffer", "maybe", "expected true or false"),
    ("samsung.int8", "chipset", "E1", "expected one of E9955, E9965"),
    ("samsung.int8", "per_channel", "maybe", "expected true or false"),
]


def _made(recipe: str, **options: str) -> object:
    backend, _, name = recipe.partition(".")
    builder = getattr(importlib.import_module(f"{backend}_recipes"), name)
    return builder(RecipeContext(Options(options, "//:r"), "//:r"))


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


@pytest.mark.parametrize(("recipe", "option", "value", "message"), _WRONG)
def test_wrong_value(recipe: str, option: str, value: str, message: str) -> None:
    """A wrong value is an error that lists the right ones, with or without an SDK."""
    with pytest.raises(BuildError) as caught:
        _made(recipe, **{option: value})
    assert f'option "{option}": got "{value}", {message}' in str(caught.value)


@pytest.mark.parametrize("recipe", sorted(_LACKING))
def test_unknown_option(recipe: str) -> None:
    """An option that a recipe doesn't take is an error."""
    with pytest.raises(BuildError, match='//:r: unknown option "speed"'):
        _made(recipe, speed="high")


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
    with pytest.raises(BuildError, match=r"libQnnHtp\.so of .* can't be loaded: "):
        _made("qualcomm.fp16")


def test_soc_models() -> None:
    """The chips are those of the exporter's ExecuTorch."""
    recipes = importlib.import_module("qualcomm_recipes")
    from executorch.backends.qualcomm.utils.utils import get_soc_to_chipset_map

    assert sorted(recipes._SOC_MODELS) == sorted(get_soc_to_chipset_map())


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
