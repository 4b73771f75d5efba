"""The recipes whose operators are recorded."""

def _recipe(backend, name, per_operator = 0, recorded = True, words = []):
    """A recipe.

    Args:
      backend: folder in //backends.
      name: of the target.
      per_operator: how many nets of an operator are recorded; 0: all.
      recorded: whether its record is there, with which tests compare.
      words: more arguments of tests.operators.main.

    Returns:
      A struct.
    """
    limits = ["--per_operator=%d" % per_operator] if per_operator else []
    return struct(backend = backend, name = name, recorded = recorded, words = limits + words)

# Quantizers of 8 bits take layers and arithmetic in 32-bit floats.
_FLOATS = ["--dtype=float32"]

RECIPES = [
    _recipe("openvino", "fp32", per_operator = 2, recorded = False),
    _recipe("portable", "fp32", per_operator = 1),
    _recipe("xnnpack", "fp32"),
    _recipe("xnnpack", "int8_dynamic_per_channel", per_operator = 2, recorded = False, words = _FLOATS),
    _recipe("xnnpack", "int8_static_per_channel", per_operator = 2, recorded = False, words = _FLOATS),
]

BACKENDS = sorted({recipe.backend: None for recipe in RECIPES}.keys())
