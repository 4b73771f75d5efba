"""The small programs that benchmarks build."""

load("//rules:defs.bzl", "et_model", "et_program")

# Kind of network, width, XNNPACK recipe.
EIGHT = [
    ("mlp", 64, "fp32"),
    ("mlp", 96, "int8_dynamic_act_int4_weight"),
    ("mlp", 128, "int8_dynamic_per_channel"),
    ("conv", 32, "fp32"),
    ("conv", 64, "int8_static_per_channel"),
    ("conv", 96, "fp32"),
    ("attention", 64, "fp32"),
    ("attention", 128, "fp32"),
]

def small_programs(name):
    """Eight programs and a filegroup of them.

    Args:
      name: of the filegroup; the programs are called name_0 to name_7.
    """
    for number, (kind, width, recipe) in enumerate(EIGHT):
        et_model(
            name = "%s_%d_model" % (name, number),
            srcs = ["nets.py"],
            args = {
                "kind": kind,
                "width": str(width),
            },
            entry_point = "tests.bench.nets:build",
            tags = ["manual"],
        )
        et_program(
            name = "%s_%d" % (name, number),
            model = "%s_%d_model" % (name, number),
            recipe = "//backends/xnnpack:" + recipe,
            tags = ["manual"],
        )
    native.filegroup(
        name = name,
        srcs = ["%s_%d" % (name, n) for n in range(len(EIGHT))],
        tags = ["manual"],
    )
