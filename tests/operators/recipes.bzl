"""The recipes whose operators are recorded."""

def _recipe(backend, name, per_operator = 0, often = False, words = []):
    """A recipe.

    Args:
      backend: folder in //backends.
      name: of the target.
      per_operator: how many nets of an operator are recorded; 0: all.
      often: whether `bazel test //...` tries nets of each operator.
      words: more arguments of tests.operators.main.

    Returns:
      A struct.
    """
    limits = ["--per_operator=%d" % per_operator] if per_operator else []
    return struct(backend = backend, name = name, often = often, words = limits + words)

# Quantizers of 8 bits take layers and arithmetic in 32-bit floats.
_FLOATS = ["--dtype=float32"]

RECIPES = [
    _recipe("openvino", "fp32", per_operator = 2),
    _recipe("portable", "fp32"),
    _recipe("xnnpack", "fp32"),
    _recipe("xnnpack", "int8_dynamic_per_channel", words = _FLOATS, per_operator = 2),
    _recipe("xnnpack", "int8_static_per_channel", words = _FLOATS, per_operator = 2),
]

BACKENDS = sorted({recipe.backend: None for recipe in RECIPES}.keys())
