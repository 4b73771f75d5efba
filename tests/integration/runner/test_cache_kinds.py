"""XNNPACK's weight cache changes no number, for each kind of layer and each recipe.

Two layers with a weight of equal bytes differ in one thing. They are in one program, and in two
programs of this process. The cache is on or off as manifests and runner decide, and the outputs
must have the bits that they have without it.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xnnpack_recipes
from etbuild import ModelSpec, Options, RecipeContext
from etlink import manifest
from etlink.weight_cache import WeightCache
from executorch_app import App, AppError

from tests.integration.runner.cache_nets import KINDS, Beside, Layer, differences, of_layers, spec
from tests.unit.linker.lora import of_recipe
from tests.unit.linker.synthetic import link_with

LABEL = "//m:p"
LINEAR_ALONE = (
    "int4_weight_only",
    "int8_dynamic_act_int4_weight",
    "int8_dynamic_act_int4_weight_per_channel",
    "int8_weight_only",
)
ANY = ("fp32", "int8_dynamic_per_channel", "int8_static_per_channel", "int8_static_per_tensor")
# What packs in another way by the recipe alone: these pairs must go without the cache.
UNSAFE = {
    ("int8_dynamic_per_channel", "linear"): {"bias", "no_bias", "scale"},
    ("int8_dynamic_per_channel", "conv2d"): {"bias", "no_bias", "scale", "groups", "kernel"},
    ("int8_dynamic_per_channel", "transposed"): {
        *("bias", "no_bias", "scale", "stride", "dilation", "kernel"),
    },
    ("int8_dynamic_act_int4_weight", "linear"): {"scale"},
    ("int8_dynamic_act_int4_weight_per_channel", "linear"): {"scale"},
    ("fp32", "linear"): set(),
    ("fp32", "conv2d"): {"groups", "kernel"},
    ("fp32", "depthwise"): {"kernel"},
    ("fp32", "depthwise_1x1"): {"padding", "stride"},
    ("fp32", "transposed"): {"stride", "dilation", "kernel"},
}
# The differences of each test beside others' release: the failures that people had.
SAMPLE = {
    ("int8_dynamic_per_channel", "linear"): ("nothing", "bias", "no_bias", "scale", "clamp"),
    ("int8_dynamic_per_channel", "conv2d"): ("bias", "padding"),
    ("int8_dynamic_per_channel", "transposed"): ("nothing", "bias"),
    ("int8_dynamic_act_int4_weight", "linear"): ("bias", "scale"),
    ("int8_static_per_channel", "conv2d"): ("bias", "relu"),
    ("fp32", "linear"): ("bias", "no_bias"),
    ("fp32", "transposed"): ("nothing", "stride"),
}


@dataclass(frozen=True)
class Built:
    """A program: its file, its manifest beside it, and its inputs."""

    path: Path
    cache: WeightCache
    inputs: tuple[np.ndarray, ...]


@pytest.fixture(scope="module", autouse=True)
def _built_once() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        Builder.folder = Path(folder)
        yield
        Builder.build.cache_clear()


class Builder:
    """Builds each program once."""

    folder = Path()

    @classmethod
    def of(cls, model: ModelSpec, recipe: str, **options: str) -> Built:
        """A program of a model."""
        context = RecipeContext(Options(options, LABEL), LABEL)
        folder = Path(tempfile.mkdtemp(dir=cls.folder))
        made = getattr(xnnpack_recipes, recipe)(context)
        linked, path, _ = link_with(of_recipe(model, (), folder, LABEL, made), folder)
        manifest.write(manifest.beside(path), linked.manifest)
        inputs = tuple(x.numpy() for x in model.methods["forward"].example_inputs)
        return Built(path, linked.manifest.programs["p"].weight_cache, inputs)

    @staticmethod
    @functools.cache
    def build(
        recipe: str,
        kind: str,
        *given: str,
        bias: bool = True,
        dtype: torch.dtype = torch.float32,
        **options: str,
    ) -> Built:
        """A program of layers of a kind; `given`: the difference of each."""
        layers = [Layer(kind, difference, bias=bias) for difference in given]
        return Builder.of(of_layers(*layers, dtype=dtype), recipe, **options)


build = Builder.build


def outputs(*programs: Built, cache: bool | None = None) -> tuple[list[np.ndarray], bool]:
    """Outputs of programs of one process, and whether the last one has the cache."""
    values: list[np.ndarray] = []
    with ExitStack() as stack:
        apps = [stack.enter_context(App(p.path, weight_cache=cache)) for p in programs]
        sessions = [stack.enter_context(app.session()) for app in apps]
        for session, program in zip(sessions, programs, strict=True):
            values += session.run(program.inputs)
        return values, apps[-1].has_weight_cache


def check(*programs: Built) -> bool:
    """The same numbers with and without the cache; returns whether all programs have it."""
    expected, _ = outputs(*programs, cache=False)
    values, is_on = outputs(*programs)
    for value, other in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value.view(np.uint8), other.view(np.uint8))
    return is_on


def check_pair(recipe: str, kind: str, difference: str, **options: Any) -> None:
    """Two layers in one program, and in two."""
    beside = build(recipe, kind, "nothing", difference, **options)
    alone = [build(recipe, kind, d, **options) for d in ("nothing", difference)]
    on = check(beside)
    assert on == (not beside.cache.reasons)
    assert not any(program.cache.reasons for program in alone)
    assert check(*alone) == check(*reversed(alone)) == on
    unsafe = UNSAFE.get((recipe, kind))
    if difference == "nothing":
        assert on and len(beside.cache.packed) <= 1
    elif unsafe is not None and not options:
        assert on == (difference not in unsafe), beside.cache.reasons


@pytest.mark.parametrize(("recipe", "kind"), SAMPLE)
@pytest.mark.few(1)
def test_a_sample(recipe: str, kind: str) -> None:
    for difference in SAMPLE[recipe, kind]:
        check_pair(recipe, kind, difference)


@pytest.mark.release
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recipe", ANY)
def test_each_difference(recipe: str, kind: str) -> None:
    for difference in differences(kind):
        check_pair(recipe, kind, difference)


@pytest.mark.release
@pytest.mark.parametrize("recipe", LINEAR_ALONE)
def test_linear_layers_alone(recipe: str) -> None:
    for difference in differences("linear"):
        check_pair(recipe, "linear", difference)


@pytest.mark.release
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recipe", ANY)
def test_layers_without_bias(recipe: str, kind: str) -> None:
    for difference in ("nothing", "scale", "range", "offset", "relu"):
        check_pair(recipe, kind, difference, bias=False)


@pytest.mark.release
@pytest.mark.parametrize("kind", ["linear", "conv2d", "depthwise", "transposed"])
def test_half_precision(kind: str) -> None:
    for difference in ("nothing", "bias", "no_bias", "relu"):
        check_pair("fp32", kind, difference, dtype=torch.float16)


@pytest.mark.release
@pytest.mark.parametrize("recipe", ["fp32", "int8_dynamic_per_channel"])
def test_layers_that_read_one_input(recipe: str) -> None:
    """XNNPACK chooses how a convolution reads its input by all that read it."""

    def made(*given: tuple[str, str]) -> Built:
        layers = [Layer(*names) for names in given]
        return Builder.of(spec(Beside(*layers), (layers[0].input,)), recipe)

    conv, transposed = ("conv2d", "nothing"), ("transposed", "nothing")
    for others in ([transposed], [("conv2d", "padding")], [transposed, conv]):
        programs = made(conv), made(conv, *others)
        check(*programs)
        check(*reversed(programs))


def test_the_cache_itself_gives_wrong_numbers() -> None:
    """The problem of these tests is real: it shows where a manifest says nothing of it."""
    program = build("int8_dynamic_per_channel", "linear", "nothing", "bias")
    value = json.loads(manifest.beside(program.path).read_text())
    expected, _ = outputs(program)
    value["programs"]["p"]["weight_cache"] = {}
    blind = program.path.with_name("blind.json")
    blind.write_text(json.dumps(value))
    with App(program.path, manifest=blind) as app, app.session() as session:
        first, second = session.run(program.inputs)
        assert app.has_weight_cache
    np.testing.assert_array_equal(first, expected[0])
    assert not np.array_equal(second, expected[1])


def test_the_cache_is_for_programs_of_other_apps_again() -> None:
    """An app's lease ends with its last session and itself."""
    one, other = (build("int8_dynamic_per_channel", "linear", d) for d in ("nothing", "bias"))
    with App(one.path) as app, app.session():
        assert app.has_weight_cache
        with App(other.path) as second:
            assert not second.has_weight_cache
    with App(other.path) as second:
        assert second.has_weight_cache


def test_the_runner_refuses_a_pair(capfd: pytest.CaptureFixture[str]) -> None:
    one, other = (build("int8_dynamic_per_channel", "linear", d) for d in ("nothing", "bias"))
    with App(one.path), pytest.raises(AppError) as caught:
        App(other.path, weight_cache=True)
    assert f"unsafe for {one.path} and {other.path} together: they pack" in str(caught.value)
    assert capfd.readouterr().err == ""
