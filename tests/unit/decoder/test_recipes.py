"""Which recipes a YAML file chooses, and what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from etbuild import BuildError, Options, RecipeContext
from etllm import recipes
from etllm.settings import Settings

BACKENDS = Path(__file__).absolute().parents[3] / "backends"
for _backend in ("coreml", "openvino", "portable", "vulkan", "xnnpack"):
    sys.path.append(str(BACKENDS / _backend))

MODEL = "model:\n  use_kv_cache: true\n"


@pytest.fixture
def chosen(tmp_path: Path):
    """A function from a backend and a file's text to the recipe's name and options."""
    import importlib

    def make(backend: str, text: str):
        path = tmp_path / "llm.yaml"
        path.write_text(MODEL + text, encoding="utf-8")
        settings = Settings.read(path, "llm.yaml")
        return importlib.import_module(f"{backend}_llm").choose(settings)

    return make


def quantized(**values: object) -> str:
    return "quantization:\n" + "".join(f"  {k}: {v}\n" for k, v in values.items())


def openvino(**values: object) -> str:
    return "backend:\n  openvino:\n" + "".join(f"    {k}: {v}\n" for k, v in values.items())


FIXED = "  enable_dynamic_shape: false\n"
DYNAMIC = {"require_dynamic_shapes": "true"}
IOS = {"compute_unit": "CPU_ONLY", "minimum_deployment_target": "iOS15"}


@pytest.mark.parametrize(
    ("backend", "text", "recipe"),
    [
        ("xnnpack", "", ("fp32", {})),
        (
            "xnnpack",
            quantized(qmode="8da4w"),
            ("int8_dynamic_act_int4_weight", {"group_size": "128"}),
        ),
        (
            "xnnpack",
            quantized(qmode="8da4w", group_size=64),
            ("int8_dynamic_act_int4_weight", {"group_size": "64"}),
        ),
        (
            "xnnpack",
            quantized(qmode="8da4w", group_size=0),
            ("int8_dynamic_act_int4_weight_per_channel", {}),
        ),
        (
            "xnnpack",
            quantized(pt2e_quantize="xnnpack_dynamic"),
            ("int8_dynamic_per_channel", {}),
        ),
        ("portable", "", ("fp32", {})),
        ("vulkan", "", ("fp32", DYNAMIC)),
        ("vulkan", "backend:\n  vulkan:\n    force_fp16: true\n", ("fp16", DYNAMIC)),
        ("vulkan", quantized(pt2e_quantize="vulkan_8w"), ("int8_weight_only", DYNAMIC)),
        ("openvino", FIXED, ("fp32", {"device": "CPU"})),
        (
            "openvino",
            FIXED + quantized(pt2e_quantize="openvino_8wo") + openvino(device="GPU"),
            ("int8_weight_only", {"device": "GPU", "symmetric": "false"}),
        ),
        (
            "openvino",
            FIXED
            + quantized(pt2e_quantize="openvino_4wo")
            + openvino(nncf_compression_group_size=64),
            ("int4_weight_only", {"device": "CPU", "group_size": "64"}),
        ),
        ("coreml", "", ("fp16", IOS)),
        (
            "coreml",
            "backend:\n  coreml:\n    quantize: b4w\n    ios: 18\n    compute_units: cpu_and_ne\n",
            (
                "int4_weight_only_per_group",
                {
                    "compute_unit": "CPU_AND_NE",
                    "group_size": "32",
                    "minimum_deployment_target": "iOS18",
                },
            ),
        ),
    ],
)
def test_chosen_recipes(chosen, backend, text, recipe):
    assert chosen(backend, text) == recipe


@pytest.mark.parametrize(
    ("backend", "text", "expected"),
    [
        (
            "xnnpack",
            quantized(qmode="int8"),
            'llm.yaml:4: quantization.qmode: got "int8", expected',
        ),
        ("xnnpack", quantized(qmode="8da4w", group_size=48), "llm.yaml:5: quantization.group_size"),
        ("xnnpack", quantized(group_size=32), "nothing without qmode"),
        ("xnnpack", quantized(pt2e_quantize="qnn_8a8w"), "llm.yaml:4: quantization.pt2e_quantize"),
        (
            "xnnpack",
            quantized(qmode="8da4w", pt2e_quantize="xnnpack_dynamic"),
            "expected nothing beside qmode",
        ),
        (
            "xnnpack",
            "backend:\n  xnnpack:\n    extended_ops: false\n",
            "llm.yaml:5: backend.xnnpack.extended_ops: got false, expected true",
        ),
        ("portable", quantized(qmode="8da4w"), "llm.yaml:4: quantization.qmode: got"),
        ("vulkan", quantized(qmode="8da4w"), '"vulkan_8w" is Vulkan\'s'),
        (
            "coreml",
            "backend:\n  coreml:\n    quantize: c4w\n",
            "backend.coreml.ios: got 15 (upstream's default), expected 18",
        ),
        ("coreml", quantized(qmode="8da4w"), "backend.coreml.quantize is Core ML's"),
        (
            "openvino",
            "",
            "model.enable_dynamic_shape: got true (upstream's default), expected false",
        ),
        ("openvino", FIXED + quantized(qmode="8da4w"), '"openvino_8wo" are OpenVINO\'s'),
        (
            "openvino",
            FIXED + quantized(pt2e_quantize="vulkan_8w"),
            '"openvino_4wo" or "openvino_8wo"',
        ),
        (
            "openvino",
            FIXED + openvino(device="TPU"),
            'backend.openvino.device: got "TPU", expected CPU',
        ),
        (
            "openvino",
            FIXED + openvino(nncf_compression_group_size=32),
            "expected nothing without pt2e_quantize",
        ),
        (
            "openvino",
            FIXED
            + quantized(pt2e_quantize="openvino_4wo")
            + openvino(nncf_compression_group_size=0),
            "got 0, expected a number from 1 on",
        ),
        (
            "openvino",
            FIXED + openvino(openvino_awq="true"),
            "openvino_awq: got true, which is not supported: these methods of NNCF need data",
        ),
    ],
)
def test_refused_quantization(chosen, backend, text, expected):
    with pytest.raises(BuildError) as caught:
        chosen(backend, text)
    assert expected in str(caught.value)


def context(tmp_path: Path, text: str, backend: str = "xnnpack") -> RecipeContext:
    path = tmp_path / "llm.yaml"
    path.write_text(MODEL + text, encoding="utf-8")
    return RecipeContext(Options({"backend": backend}), "//m:recipe", {"m/llm.yaml": path})


@pytest.mark.parametrize(("value", "algorithm"), [("true", "hqq_scale_only"), ("false", "affine")])
def test_hqq_is_as_the_file_says(tmp_path, value, algorithm):
    recipe = recipes.build(context(tmp_path, quantized(qmode="8da4w", use_hqq=value)))
    (config,) = recipe.quantization_recipe.ao_quantization_configs
    found = config.ao_base_config.intx_choose_qparams_algorithm
    assert getattr(found, "value", found) == algorithm
    assert config.ao_base_config.weight_granularity.group_size == 128


def test_several_methods_share_their_cache(tmp_path):
    text = "multimethod:\n  share_mutable_buffers: true\n  methods:\n    - method_name: forward\n"
    recipe = recipes.build(context(tmp_path, text))
    assert recipe.executorch_backend_config.memory_planning_pass.share_mutable_buffers


def test_a_backend_without_a_choice_is_named(tmp_path):
    with pytest.raises(BuildError, match='"npu", for which a YAML file cannot choose recipes'):
        recipes.build(context(tmp_path, "", backend="npu"))
