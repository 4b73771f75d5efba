"""Recipes that a YAML file chooses, and what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from etbuild import BuildError, Options, RecipeContext
from etllm import recipes
from etllm.settings import Settings

BACKENDS = Path(__file__).absolute().parents[3] / "backends"
# Names of sections to the folders of their backends, where they differ.
FOLDERS = {"ethosu": "arm", "qnn": "qualcomm", "tosa": "arm", "vgf": "arm"}
for _folder in (
    *("arm", "coreml", "mlx", "mps", "openvino", "portable", "qualcomm", "vulkan", "xnnpack"),
):
    sys.path.append(str(BACKENDS / _folder))

MODEL = "model:\n  use_kv_cache: true\n"


@pytest.fixture
def chosen(tmp_path: Path):
    """A function from a backend and a file's text to the recipe's name and options."""
    import importlib

    def make(backend: str, text: str):
        path = tmp_path / "llm.yaml"
        path.write_text(MODEL + text, encoding="utf-8")
        settings = Settings.read(path, "llm.yaml")
        chooser = importlib.import_module(f"{FOLDERS.get(backend, backend)}_llm")
        return getattr(chooser, backend if backend in FOLDERS else "choose")(settings)

    return make


def quantized(**values: object) -> str:
    return "quantization:\n" + "".join(f"  {k}: {v}\n" for k, v in values.items())


def section(name: str, **values: object) -> str:
    return f"backend:\n  {name}:\n" + "".join(f"    {k}: {v}\n" for k, v in values.items())


def openvino(**values: object) -> str:
    return section("openvino", **values)


FIXED = "  enable_dynamic_shape: false\n"
DYNAMIC = {"require_dynamic_shapes": "true"}
QNN = {"skip_mutable_buffer": "true", "soc_model": "SM8650"}
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
        ("xnnpack", quantized(qmode="int8"), ("int8_weight_only", {})),
        (
            "xnnpack",
            "  dtype_override: bf16\n"
            + quantized(qmode="8da4w", group_size=0)
            + section("xnnpack", enable_bf16="true"),
            ("int8_dynamic_act_int4_weight_per_channel", {"enable_bf16": "true"}),
        ),
        ("xnnpack", quantized(qmode="4w"), ("int4_weight_only", {"group_size": "256"})),
        ("portable", "", ("fp32", {})),
        ("portable", quantized(qmode="int8"), ("int8_weight_only", {})),
        (
            "portable",
            quantized(qmode="4w", group_size=32),
            ("int4_weight_only", {"group_size": "32"}),
        ),
        ("vulkan", "", ("fp32", DYNAMIC)),
        ("vulkan", quantized(qmode="4w"), ("int4_weight_only", DYNAMIC | {"group_size": "256"})),
        (
            "vulkan",
            quantized(qmode="8da4w", group_size=32),
            ("int8_dynamic_act_int4_weight", DYNAMIC | {"group_size": "32"}),
        ),
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
        ("tosa", FIXED + section("tosa", version="TOSA-1.0+FP"), ("tosa_fp", {})),
        (
            "tosa",
            FIXED + quantized(pt2e_quantize="tosa_8a8w", quantize_scope="linear"),
            ("tosa_int8", {"quantize_scope": "linear"}),
        ),
        (
            "vgf",
            FIXED
            + quantized(pt2e_quantize="vgf_8a8w")
            + section("vgf", enabled="true", quantize_scope="linear"),
            ("vgf_int8", {"quantize_scope": "linear"}),
        ),
        ("vgf", FIXED + section("vgf", compile_spec="TOSA-1.0+FP"), ("vgf_fp", {})),
        (
            "ethosu",
            FIXED + quantized(pt2e_quantize="ethosu_8a8w", quantize_scope="linear"),
            ("ethos_u85_int8", {"macs": "128", "quantize_scope": "linear"}),
        ),
        (
            "ethosu",
            FIXED
            + quantized(pt2e_quantize="ethosu_8a8w", quantize_scope="linear")
            + section(
                "ethosu",
                target="ethos-u55-256",
                memory_mode="Shared_Sram",
                system_config="Ethos_U55_High_End_Embedded",
                extra_flags="[--optimise, Size]",
            ),
            (
                "ethos_u55_int8",
                {
                    "extra_flags": "--optimise Size",
                    "macs": "256",
                    "memory_mode": "Shared_Sram",
                    "quantize_scope": "linear",
                    "system_config": "Ethos_U55_High_End_Embedded",
                },
            ),
        ),
        ("qnn", FIXED, ("fp16", QNN)),
        (
            "qnn",
            FIXED + quantized(pt2e_quantize="qnn_16a4w") + section("qnn", soc_model="SM8750"),
            ("a16w4", QNN | {"soc_model": "SM8750"}),
        ),
        ("qnn", FIXED + quantized(pt2e_quantize="qnn_8a8w"), ("int8", QNN)),
        ("mlx", "", ("fp32", {})),
        ("mlx", quantized(qmode="4w", group_size=64), ("int4_weight_only", {"group_size": "64"})),
        ("mlx", quantized(qmode="int8", group_size=32), ("int8_weight_only", {"group_size": "32"})),
        ("mps", FIXED, ("fp16", {})),
        ("coreml", "", ("fp16", IOS)),
        (
            "coreml",
            quantized(qmode="int8") + "backend:\n  coreml:\n    ios: 16\n",
            ("int8_weight_only_per_channel", IOS | {"minimum_deployment_target": "iOS16"}),
        ),
        (
            "coreml",
            quantized(qmode="4w", group_size=64) + "backend:\n  coreml:\n    ios: 18\n",
            (
                "int4_weight_only_per_group",
                IOS | {"group_size": "64", "minimum_deployment_target": "iOS18"},
            ),
        ),
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
            quantized(qmode="8da4w-gptq"),
            'llm.yaml:4: quantization.qmode: got "8da4w-gptq", which is not supported: upstream\'s',
        ),
        (
            "portable",
            quantized(qmode='"torchao:8da4w"'),
            'got "torchao:8da4w", which is not supported: it needs torchao\'s own kernels',
        ),
        (
            "portable",
            quantized(qmode='"torchao:fpa4w"'),
            'got "torchao:fpa4w", which is not supported: it needs torchao\'s own operators',
        ),
        ("xnnpack", quantized(qmode="8da4w", group_size=48), "llm.yaml:5: quantization.group_size"),
        (
            "xnnpack",
            quantized(qmode="4w", group_size=3),
            "got 3, expected a positive multiple of 2.",
        ),
        ("xnnpack", quantized(qmode="int8", group_size=32), "nothing without qmode"),
        (
            "xnnpack",
            "  dtype_override: bf16\n" + quantized(qmode="8da4w"),
            "backend.xnnpack.enable_bf16: got false (upstream's default), expected true: only",
        ),
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
        ("portable", quantized(qmode="8da4w"), 'expected "int8" or "4w"'),
        ("vulkan", quantized(qmode="int8"), 'expected "4w" or "8da4w"'),
        ("vulkan", quantized(qmode="8da4w", group_size=12), "a positive multiple of 8"),
        (
            "coreml",
            "backend:\n  coreml:\n    quantize: c4w\n",
            "backend.coreml.ios: got 15 (upstream's default), expected at least 18",
        ),
        ("coreml", quantized(qmode="8da4w"), '"4w" or "int8" for Core ML'),
        ("coreml", quantized(qmode="int8"), "got 15 (upstream's default), expected at least 16"),
        ("tosa", "", "model.enable_dynamic_shape: got true (upstream's default), expected false"),
        (
            "tosa",
            FIXED,
            'tosa.version: got "TOSA-1.0+INT" (upstream\'s default), expected "TOSA-1.0+FP"',
        ),
        (
            "tosa",
            FIXED + quantized(pt2e_quantize="vgf_8a8w"),
            'quantization.pt2e_quantize: got "vgf_8a8w", expected "tosa_8a8w"',
        ),
        ("tosa", FIXED + quantized(qmode="8da4w"), "expected nothing; pt2e_quantize is for TOSA"),
        (
            "vgf",
            FIXED
            + quantized(pt2e_quantize="vgf_8a8w")
            + section("vgf", compile_spec="TOSA-1.0+FP"),
            'llm.yaml:8: backend.vgf.compile_spec: got "TOSA-1.0+FP", expected "TOSA-1.0+INT" with',
        ),
        (
            "vgf",
            FIXED + section("vgf", compiler_flags="[-v]"),
            "backend.vgf.compiler_flags: got ['-v'], which is not supported: the recipe of the",
        ),
        (
            "ethosu",
            FIXED + quantized(pt2e_quantize="ethosu_8a8w"),
            'quantization.quantize_scope: got "full" (upstream\'s default), expected "linear": Arm',
        ),
        ("ethosu", FIXED, 'got nothing (upstream\'s default), expected "ethosu_8a8w"'),
        (
            "ethosu",
            FIXED
            + quantized(pt2e_quantize="ethosu_8a8w")
            + section("ethosu", target="ethos-u99-128"),
            'backend.ethosu.target: got "ethos-u99-128", expected "ethos-", u55, u65 or u85',
        ),
        ("qnn", "", "model.enable_dynamic_shape: got true (upstream's default), expected false"),
        ("qnn", FIXED + quantized(qmode="4w"), "expected nothing; pt2e_quantize is for QNN"),
        (
            "qnn",
            FIXED + quantized(pt2e_quantize="qnn_16a16w"),
            'expected "qnn_8a8w" or "qnn_16a4w"',
        ),
        (
            "qnn",
            FIXED + section("qnn", num_sharding=2),
            "backend.qnn.num_sharding: got 2, which is not supported: it changes upstream's own",
        ),
        ("mlx", quantized(qmode="8da4w"), 'expected "4w" or "int8" for MLX'),
        ("mlx", quantized(qmode="4w"), "got nothing (upstream's default), expected one of 32, 64"),
        ("mlx", quantized(pt2e_quantize="vulkan_8w"), "expected nothing; qmode is for MLX"),
        ("mps", "", "model.enable_dynamic_shape: got true (upstream's default), expected false"),
        ("mps", FIXED + quantized(qmode="4w"), "expected nothing: MPS computes with floats"),
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


@pytest.mark.parametrize(
    ("qmode", "value", "algorithm"),
    [
        ("8da4w", "true", "hqq_scale_only"),
        ("8da4w", "false", "affine"),
        ("4w", "true", "hqq_scale_only"),
        ("int8", "true", "affine"),
    ],
)
def test_hqq_is_as_the_file_says(tmp_path, qmode, value, algorithm):
    recipe = recipes.build(context(tmp_path, quantized(qmode=qmode, use_hqq=value)))
    (config,) = recipe.quantization_recipe.ao_quantization_configs
    found = config.ao_base_config.intx_choose_qparams_algorithm
    assert getattr(found, "value", found) == algorithm


def test_types_of_others_are_their_recipes(tmp_path):
    text = "  dtype_override: fp16\n"
    assert recipes.build(context(tmp_path, text, backend="portable")).name == "portable_fp32"
    with pytest.raises(BuildError, match='dtype_override: got "fp16", expected fp32: the recipes'):
        recipes.build(context(tmp_path, text, backend="vulkan"))


def test_linear_layers_in_bfloat16_are_xnnpacks(tmp_path):
    for value, expected in (("true", True), ("false", False)):
        text = "  dtype_override: bf16\n" + section("xnnpack", enable_bf16=value)
        recipe = recipes.build(context(tmp_path, text))
        (partitioner,) = recipe.lowering_recipe.partitioners
        configs = partitioner.target_partitioner_configs
        assert configs["linear.default"].enable_bf16 is expected
        assert not configs["bmm.default"].enable_bf16


def test_several_methods_share_their_cache(tmp_path):
    text = "multimethod:\n  share_mutable_buffers: true\n  methods:\n    - method_name: forward\n"
    recipe = recipes.build(context(tmp_path, text))
    assert recipe.executorch_backend_config.memory_planning_pass.share_mutable_buffers


def test_a_backend_without_a_choice_is_named(tmp_path):
    with pytest.raises(BuildError, match='"npu", for which a YAML file cannot choose recipes'):
        recipes.build(context(tmp_path, "", backend="npu"))
