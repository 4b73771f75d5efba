"""Each recipe that ships, the nets that it was tried on, and the results."""

def _row(backend, recipe, conv = "lowered", mlp = "lowered", llama = "lowered", options = {}, often = ["conv"]):
    """A recipe and what became of three nets with it.

    Args:
      backend: folder in //backends.
      recipe: name of the target.
      conv: "ran": in a runtime, with eager's numbers; "lowered": its payloads were opened;
        otherwise why not.
      mlp: the same.
      llama: the same, of two layers of SmolLM2, for a single token.
      options: of the recipe, without which it can't take the Llama.
      often: nets that `bazel test //...` lowers; `bazel test //tests:release` lowers all.

    Returns:
      A struct.
    """
    return struct(
        backend = backend,
        recipe = recipe,
        nets = {"conv": conv, "mlp": mlp, "llama": llama},
        options = options,
        often = often,
    )

def _device(recipe, conv = "lowered", often = []):
    """A recipe by device, which is tried on the convolutions only: its parts have rows of their own."""
    return struct(backend = "targets", recipe = recipe, nets = {"conv": conv}, options = {}, often = often)

_STATE = {"minimum_deployment_target": "iOS18"}

_NO_SDK = "it is compiled by the vendor's SDK, which is in no package index but on the vendor's site: the recipe was " + \
          "checked up to there"

_NXP = "it is compiled by eiq-neutron-sdk, which is on NXP's own public package index and not on PyPI: the recipe was " + \
       "checked up to there"

_CUDA = "it is compiled by a CUDA build of PyTorch on a machine with a GPU, where the compiler measures kernels: the " + \
        "recipe was checked up to there"

def _without(backend, recipes, reason):
    """Rows of a backend that lowers nothing here."""
    return [_row(backend, recipe, conv = reason, mlp = reason, llama = reason) for recipe in recipes]

_CPUS = ["android-arm64", "ios-arm64", "linux-arm64", "linux-x86_64", "macos-arm64"]

ROWS = [
    _row("arm", "ethos_u55_int8", often = []),
    _row("arm", "ethos_u65_int8", often = []),
    _row("arm", "ethos_u85_int8"),
    _row("arm", "tosa_a16w8", conv = "ran", mlp = "ran", llama = "ran"),
    _row("arm", "tosa_fp", conv = "ran", mlp = "ran", llama = "ran"),
    _row("arm", "tosa_int8", conv = "ran", mlp = "ran", llama = "ran"),
    _row("arm", "vgf_fp", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("arm", "vgf_int8", conv = "ran", mlp = "ran", llama = "ran"),
    _row("cadence", "fp32", conv = "ran", mlp = "ran", llama = "ran"),
    _row("cadence", "int8", conv = "ran", mlp = "ran", llama = "ran"),
    _row("coreai", "fp16"),
    _row("coreai", "fp32", often = []),
    _row("coreml", "codebook_weight_only", often = []),
    _row("coreml", "fp16", options = _STATE),
    _row("coreml", "fp32", options = _STATE, often = []),
    _row("coreml", "int4_weight_only_per_channel", often = []),
    _row("coreml", "int4_weight_only_per_group"),
    _row("coreml", "int8_static", often = []),
    _row("coreml", "int8_weight_only", often = []),
    _row("coreml", "int8_weight_only_per_channel", options = _STATE, often = []),
    _row("coreml", "int8_weight_only_per_group", often = []),
    _row("cortex_m", "int8", conv = "ran", mlp = "ran", llama = "the pass ReplaceScalarWithTensorArgPass (ExecuTorch 1.5.1) fails on the embedding, whose table has 8 bits"),
    _row("mlx", "fp32", conv = "ran", mlp = "ran", llama = "ran"),
    _row("mlx", "int4_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = ["mlp"]),
    _row("mlx", "int8_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("mps", "fp16", often = []),
    _row("mps", "fp32"),
    _row("openvino", "fp32", conv = "ran", mlp = "ran", llama = "ran"),
    _row("openvino", "int4_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("openvino", "int8", conv = "ran", mlp = "ran", llama = "ran"),
    _row("openvino", "int8_mixed", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("openvino", "int8_transformer", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("openvino", "int8_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("portable", "fp32", conv = "ran", mlp = "ran", llama = "ran"),
    _row("portable", "int4_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("portable", "int8_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("qualcomm", "a16w4", conv = "ran", mlp = "ran", llama = "ran"),
    _row("qualcomm", "a16w8", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("qualcomm", "fp16", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("qualcomm", "int8", conv = "ran", mlp = "ran", llama = "ran"),
    _row("vulkan", "fp16", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("vulkan", "fp32", conv = "ran", mlp = "ran", llama = "ran"),
    _row("vulkan", "int4_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("vulkan", "int8_dynamic", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("vulkan", "int8_dynamic_act_int4_weight", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("vulkan", "int8_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("xnnpack", "fp32", conv = "ran", mlp = "ran", llama = "ran"),
    _row("xnnpack", "int4_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("xnnpack", "int8_dynamic_act_int4_weight", conv = "ran", mlp = "ran", llama = "ran"),
    _row("xnnpack", "int8_dynamic_act_int4_weight_per_channel", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("xnnpack", "int8_dynamic_per_channel", conv = "ran", mlp = "ran", llama = "ran"),
    _row("xnnpack", "int8_static_per_channel", conv = "ran", mlp = "ran", llama = "ran"),
    _row("xnnpack", "int8_static_per_tensor", conv = "ran", mlp = "ran", llama = "ran", often = []),
    _row("xnnpack", "int8_weight_only", conv = "ran", mlp = "ran", llama = "ran", often = []),
] + (
    _without("cuda", ["fp32"], _CUDA) +
    _without("mediatek", ["a16w16", "a16w4", "a16w8", "a8w4", "fp16", "int8"], _NO_SDK) +
    _without("nxp", ["int8"], _NXP) +
    _without("samsung", ["fp16", "int8"], _NO_SDK)
) + [
    _device("android-arm64-snapdragon-fp16", conv = "ran"),
    _device("android-arm64-vulkan-fp16", conv = "ran"),
    _device("android-arm64-vulkan-fp32", conv = "ran"),
    _device("cortex-a-ethos-u65-int8"),
    _device("cortex-a-ethos-u85-int8"),
    _device("cortex-m33-int8", conv = "ran"),
    _device("cortex-m4-int8", conv = "ran"),
    _device("cortex-m55-ethos-u55-int8", often = ["conv"]),
    _device("cortex-m55-int8", conv = "ran"),
    _device("cortex-m7-int8", conv = "ran"),
    _device("cortex-m85-ethos-u55-int8"),
    _device("cortex-m85-ethos-u85-int8"),
    _device("cortex-m85-int8", conv = "ran"),
    _device("ios-arm64-coreml-fp16", often = ["conv"]),
    _device("ios-arm64-coreml-fp32"),
    _device("ios-arm64-coreml-int8"),
    _device("linux-x86_64-openvino-fp32", conv = "ran"),
    _device("linux-x86_64-openvino-int8", conv = "ran", often = ["conv"]),
    _device("macos-arm64-coreml-fp16"),
    _device("macos-arm64-coreml-fp32"),
] + [
    _device("%s-xnnpack-%s" % (cpu, precision), conv = "ran")
    for cpu in _CPUS
    for precision in ["fp32", "int4", "int8"]
]

def model(net, row):
    """The model of a net: what et_llm makes for XNNPACK reads a part of the KV cache, whose size varies.

    Args:
      net: name of the net.
      row: a struct of ROWS.

    Returns:
      A label.
    """
    if net == "llama" and row.backend in ["portable", "xnnpack"]:
        return "//models:llama_tiny_methods_model"
    return ":" + net

# Every recipe's name in the tests, and whether it belongs to the tests that run always.
LOWERED = [
    struct(
        name = "%s_%s_%s" % (net, row.backend, row.recipe),
        net = net,
        row = row,
        recipe = ":llama_%s_%s_recipe" % (row.backend, row.recipe) if net == "llama" and row.options else "//backends/%s:%s" % (row.backend, row.recipe),
        often = net in row.often,
        ran = row.nets[net] == "ran",
    )
    for row in ROWS
    for net in row.nets
    if row.nets[net] in ("lowered", "ran")
]

# Those that run on older runtimes, too: each recipe of the backends that the runtimes' wheels have in all versions.
OLDER = [program for program in LOWERED if program.ran and program.row.backend in ("portable", "xnnpack")]

# Lowest signal-to-noise ratio in dB where it is not that of the precision; see sqnr.
_NOISE = {
    # One scale for activations of different ranges.
    "curves_arm_tosa_int8": 13,
    # Two places of nearly equal values, which 8 bits turn round.
    "sorted_openvino_int8_mixed": 13,
    "sorted_openvino_int8_transformer": 13,
    # 4 bits with one scale a channel, without groups.
    "llama_qualcomm_a16w4": 9,
    # Activations of SmolLM2 reach beyond what 11 bits of a 16-bit float tell apart.
    "llama_vulkan_fp16": 20,
    "conv_openvino_int4_weight_only": 12,
    # Processors without dot products of 8 bits (VNNI) saturate sums of two of them in OpenVINO's kernels: 18 dB there.
    "conv_openvino_int8": 15,
    "conv_targets_linux-x86_64-openvino-int8": 15,
    # Static 8-bit activations, one scale a tensor, cost that much on two layers; the runtime gives
    # what the quantized graph gives in eager mode.
    "llama_openvino_int8": 10,
    "llama_openvino_int8_mixed": 10,
}

def sqnr(net, row):
    """The lowest signal-to-noise ratio in dB that a recipe's program of a net may have.

    Args:
      net: name of the net.
      row: a struct of ROWS.

    Returns:
      An int.
    """
    known = _NOISE.get("%s_%s_%s" % (net, row.backend, row.recipe))
    if known:
        return known
    if "int4" in row.recipe or "w4" in row.recipe:
        return 12
    if "w8" in row.recipe:
        return 30
    return 20 if "int8" in row.recipe else 40

# Their kernels are ExecuTorch's, or take the place of these.
_WITHOUT_DELEGATES = ["cadence", "cortex_m", "portable", "targets"]

def delegated(net, row):
    """The least part of a net's FLOPs that a recipe's program may leave to its backend.

    Args:
      net: name of the net.
      row: a struct of ROWS.

    Returns:
      A percentage as a string; empty: any.
    """
    if net == "llama" or row.backend in _WITHOUT_DELEGATES:
        return ""
    return "90%"

# Nets of more kinds, which all recipes that run get, to their entry points and arguments.
MORE_NETS = {
    net: struct(entry_point = "tests.backends.nets:" + net, args = {})
    for net in ["attention", "lstm", "mlp_methods", "small", "upscale"]
} | {
    net: struct(entry_point = "tests.backends.more_nets:build", args = {"net": net})
    for net in [
        "averages",
        "batched",
        "beside",
        "bounded",
        "cached",
        "causal",
        "cells",
        "cross",
        "curves",
        "edges",
        "gated",
        "grouped",
        "gru",
        "hidden",
        "layers",
        "lengths",
        "masked",
        "mobile",
        "modulated",
        "norms",
        "peaks",
        "pooled",
        "relative",
        "rows",
        "several",
        "shuffled",
        "single",
        "signals",
        "sizes",
        "smoothed",
        "sorted",
        "sound",
        "steps",
        "styled",
        "tied",
        "total",
        "transposed",
        "turned",
        "twice",
        "volumes",
        "windows",
        "words",
    ]
}

# Nets that a recipe refuses, by the sentence that the build fails with: test_refused.py.
REFUSED = [
    struct(
        net = "rows",
        backend = "cadence",
        recipe = "int8",
        reason = "a method has dynamic shapes, and Cadence's quantizers take static ones only",
    ),
    struct(
        net = "lengths",
        backend = "arm",
        recipe = "tosa_int8",
        reason = "a method has dynamic shapes, and TOSA takes static ones only",
    ),
    struct(
        net = "rows",
        backend = "openvino",
        recipe = "fp32",
        reason = "has dynamic shapes (s6 in 1 to 8), and OpenVINO takes static ones only",
    ),
]

# What refuses nets with dynamic shapes, a recipe or all of a backend: one recipe each is in REFUSED, or in
# //tests/backends/qualcomm.
_STATIC = ["arm", "cadence:int8", "openvino", "qualcomm"]

_DYNAMIC = ["lengths", "rows", "signals"]

# Nets that only recipes of these backends get: where they were wrong or failed, and ExecuTorch's own.
_ONLY = {
    "batched": ["portable", "vulkan"],
    "beside": ["arm", "cadence", "openvino", "portable", "qualcomm", "xnnpack"],
    "bounded": ["arm", "cadence", "openvino", "portable", "qualcomm", "vulkan"],
    "cached": ["arm", "cadence", "mlx", "portable", "qualcomm"],
    "cells": ["arm", "openvino", "portable", "qualcomm"],
    "edges": ["arm", "cadence", "mlx", "portable", "qualcomm"],
    "gated": ["portable", "qualcomm"],
    "hidden": ["arm", "cortex_m", "openvino", "qualcomm", "xnnpack"],
    "layers": ["portable", "vulkan"],
    "modulated": ["arm", "cortex_m", "openvino", "qualcomm", "vulkan", "xnnpack"],
    "peaks": ["arm", "cortex_m", "openvino", "portable", "qualcomm"],
    "relative": ["arm", "mlx", "portable", "qualcomm", "xnnpack"],
    "several": ["arm", "mlx", "portable", "vulkan"],
    "signals": ["cadence", "portable", "vulkan", "xnnpack"],
    "smoothed": ["arm", "cadence", "mlx", "portable", "qualcomm"],
    "steps": ["portable", "qualcomm"],
    "tied": ["mlx", "portable"],
    "turned": ["portable", "vulkan"],
    "volumes": ["cortex_m", "portable", "xnnpack"],
}

# Without: a row that reaches hardly above zero, of which 4 bits of three weights leave 3 dB.
_ROUNDED = ["beside_openvino_int4_weight_only"]

MORE = [
    struct(
        name = "%s_%s_%s" % (net, row.backend, row.recipe),
        net = net,
        recipe = "//backends/%s:%s" % (row.backend, row.recipe),
        sqnr = sqnr(net, row),
    )
    for row in ROWS
    if row.backend != "targets" and row.nets["conv"] == "ran"
    for net in MORE_NETS
    if (net, row.backend, row.recipe) not in [(r.net, r.backend, r.recipe) for r in REFUSED] and not (
        net in _DYNAMIC and (row.backend in _STATIC or "%s:%s" % (row.backend, row.recipe) in _STATIC)
    ) and row.backend in _ONLY.get(net, [row.backend])
    if "%s_%s_%s" % (net, row.backend, row.recipe) not in _ROUNDED
]

# Lowered again by upstream's own functions in `bazel test //...`; `bazel test //tests:release` does it with all.
TWICE_OFTEN = [
    "conv_coreml_fp16",
    "conv_mlx_fp32",
    "conv_portable_fp32",
    "conv_xnnpack_int8_static_per_channel",
]
