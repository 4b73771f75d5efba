"""Targets that are lowered once, whatever the configuration."""

load("//rules:defs.bzl", "et_exporter", "et_lowering", "et_model", "et_packages", "et_program", "et_recipe", "et_shared_data")
load("//tests/analysis:tables.bzl", "declare")
load(":configurations.bzl", "CONFIGURATION_TESTS", "exec_deps_test", "wheel")

FP32 = "//backends/xnnpack:fp32"

def cases():
    """Declares the targets of this package."""

    # Generated, so that its path has a configuration in it.
    native.genrule(name = "weights", outs = ["weights.txt"], cmd = "echo 1 > $@", tags = ["manual"])

    declare(et_model, {
        "net": dict(
            srcs = ["//tests/analysis:net.py"],
            data = ["weights.txt"],
            entry_point = "tests.analysis.net:build",
        ),
        "changing": dict(
            srcs = ["//tests/analysis:net.py"],
            adapter = ["//tests/analysis/sharing:adapter.safetensors"],
            adapter_entry_point = "tests.analysis.net:adapter",
            entry_point = "tests.analysis.net:build",
        ),
        "model_of_wheel": dict(entry_point = "net:build", deps = [":wheel"]),
    }, tags = ["manual"])

    et_lowering(name = "lowering", model = ":net", recipe = FP32, tags = ["manual"])

    declare(et_shared_data, {
        "foundation": dict(model = ":net", recipe = FP32),
        "foundation_of_lowering": dict(lowerings = [":lowering"]),
    }, tags = ["manual"])

    declare(et_program, {
        "program": dict(model = ":net", recipe = FP32),
        "program_of_lowering": dict(lowering = ":lowering"),
        "program_of_foundation": dict(model = ":net", recipe = FP32, shared_data = [":foundation"]),
        "program_by_name": dict(adapter_data = "by_name", model = ":changing", recipe = FP32, weights = "separate"),
    }, tags = ["manual"])

    [
        one_lowering_test(name = "%s_%s_test" % (target, setting), plain = target, target_under_test = target)
        for setting, one_lowering_test in CONFIGURATION_TESTS.items()
        for target in [
            "foundation",
            "foundation_of_lowering",
            "lowering",
            "program",
            "program_by_name",
            "program_of_foundation",
            "program_of_lowering",
        ]
    ]

    wheel(
        name = "wheel",
        srcs = select(
            {
                "@platforms//os:android": ["//tests/analysis:imported/library.py"],
                "//conditions:default": ["//tests/analysis:net.py"],
            },
        ),
        tags = ["manual"],
    )

    et_recipe(name = "recipe_of_wheel", builder = "net:recipe", tags = ["manual"], deps = [":wheel"])

    et_packages(
        name = "packages_of_wheel",
        stamp = "//tests/analysis:weights.txt",
        tags = ["manual"],
        deps = [":wheel"],
    )

    et_exporter(
        name = "exporter_of_wheel",
        executorch_version = "1.5.1",
        interpreter = "//tests/analysis:net.py",
        stamp = "//tests/analysis:weights.txt",
        tags = ["manual"],
        torch_version = "2.13.0",
        deps = [":wheel"],
    )

    declare(exec_deps_test, {
        "exporter_deps_test": dict(target_under_test = "exporter_of_wheel"),
        "model_deps_test": dict(target_under_test = "model_of_wheel"),
        "packages_deps_test": dict(target_under_test = "packages_of_wheel"),
        "recipe_deps_test": dict(target_under_test = "recipe_of_wheel"),
    })
