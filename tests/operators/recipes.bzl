"""The recipes whose operators are recorded."""

# What a run of all tests tries of a recipe; the suite `release` tries all that is recorded.
_SAMPLE = ["--per_operator=1", "--unequal=12"]

def _recipe(backend, name, per_operator = 0, sample = None, words = []):
    """A recipe.

    Args:
      backend: folder in //backends.
      name: of the target.
      per_operator: how many nets of an operator are recorded; 0: all.
      sample: arguments of tests.operators.main for what a run of all tests tries; None: it tries nothing.
      words: more arguments for any run.

    Returns:
      A struct.
    """
    limits = ["--per_operator=%d" % per_operator] if per_operator else []
    return struct(
        backend = backend,
        name = name,
        sample = sample,
        words = limits + words,
    )

# Quantizers of 8 bits take layers and arithmetic in 32-bit floats.
_FLOATS = ["--dtype=float32"]

_HALF = _FLOATS + ["--precision=float16"]

RECIPES = [
    _recipe("arm", "tosa_fp", per_operator = 1, words = _FLOATS),
    _recipe("arm", "tosa_int8", per_operator = 4, words = _FLOATS),
    _recipe("arm", "vgf_fp", per_operator = 1, words = _FLOATS),
    _recipe("cadence", "fp32", per_operator = 2, words = _FLOATS),
    _recipe("mlx", "fp32", per_operator = 2, words = _FLOATS),
    _recipe("openvino", "fp32", per_operator = 2, words = ["--precision=bfloat16"]),
    _recipe("portable", "fp32", sample = _SAMPLE + ["--core", "--operators=200"]),
    # What it leaves to portable kernels is tried with them.
    _recipe("qualcomm", "fp16", per_operator = 4, words = _HALF),
    _recipe("qualcomm", "int8", per_operator = 4, words = _FLOATS),
    _recipe("vulkan", "fp16", per_operator = 4, words = _HALF),
    _recipe("vulkan", "fp32", per_operator = 4, words = _FLOATS),
    _recipe("xnnpack", "fp32", sample = _SAMPLE + ["--operators=100"]),
    _recipe("xnnpack", "int8_dynamic_act_int4_weight", per_operator = 2, words = _FLOATS),
    _recipe("xnnpack", "int8_dynamic_per_channel", per_operator = 2, words = _FLOATS),
    _recipe("xnnpack", "int8_static_per_channel", per_operator = 2, words = _FLOATS),
]

BACKENDS = sorted({recipe.backend: None for recipe in RECIPES}.keys())
