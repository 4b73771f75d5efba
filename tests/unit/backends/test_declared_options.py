"""BUILD files declare the recipes' options; builders read exactly these, and know every choice."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError, Options, RecipeContext

_ROWS = json.loads(Path("tests/backends/matrix.json").read_text(encoding="utf-8"))["rows"]

# Backends whose builders read their options with the packages of this test.
_BACKENDS = (
    "cadence",
    "coreml",
    "cuda",
    "mediatek",
    "mlx",
    "mps",
    "nxp",
    "portable",
    "qualcomm",
    "samsung",
    "vulkan",
    "xnnpack",
)

_RECIPES = {
    row["builder"]: row["options"] for row in _ROWS if row["builder"].split("_")[0] in _BACKENDS
}


class _Recording(Options):
    """Options that remember the names that a builder asks for."""

    def __init__(self, label: str) -> None:
        super().__init__({}, label)
        self.names: set[str] = set()

    def text(self, name: str, default: str, choices: Collection[str] = ()) -> str:
        self.names.add(name)
        assert not choices, f"the choices of {name} are declared in BUILD.bazel"
        return default

    def integer(self, name: str, default: int, minimum: int | None = None) -> int:
        self.names.add(name)
        assert minimum is None, f"the type of {name} is declared in BUILD.bazel"
        return default

    def boolean(self, name: str, default: bool) -> bool:
        self.names.add(name)
        return default


@pytest.mark.parametrize("builder", sorted(_RECIPES))
def test_builders_read_what_is_declared(builder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it and nothing else; builders that need an SDK fail after they have read them."""
    monkeypatch.setenv("QNN_SDK_ROOT", "")
    module, _, function = builder.partition(":")
    options = _Recording("//:recipe")
    with contextlib.suppress(BuildError, ImportError):
        getattr(importlib.import_module(module), function)(RecipeContext(options, "//:recipe"))
    assert sorted(options.names) == sorted(_RECIPES[builder])


def test_all_backends_are_checked() -> None:
    assert {builder.split("_")[0] for builder in _RECIPES} == set(_BACKENDS)


def _choices(builder: str, option: str) -> list[str]:
    return _RECIPES[builder][option].split("|")


def test_chips_are_those_of_the_exporter() -> None:
    from executorch.backends.qualcomm.utils.utils import get_soc_to_chipset_map

    assert sorted(_choices("qualcomm_recipes:fp16", "soc_model")) == sorted(
        get_soc_to_chipset_map()
    )


def test_choices_of_core_ml() -> None:
    ct: Any = importlib.import_module("coremltools")
    units = _choices("coreml_recipes:fp16", "compute_unit")
    assert sorted(units) == sorted(unit.name for unit in ct.ComputeUnit)
    for target in _choices("coreml_recipes:fp16", "minimum_deployment_target"):
        assert ct.target[target].name == target


def test_choices_of_cadence() -> None:
    recipes: Any = importlib.import_module("cadence_recipes")
    quantizers = _choices("cadence_recipes:int8", "quantizer")
    assert sorted(quantizers) == sorted(recipes._QUANTIZERS)
    modes = _choices("cadence_recipes:int8", "mode")
    assert sorted(modes) == sorted(mode.name.lower() for mode in recipes.CompileMode)
