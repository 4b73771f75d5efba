"""Edges of a graph of programs."""

load("//rules:defs.bzl", "et_program", "et_program_test", "et_recipe", "et_release", "et_runner_app", "et_shared_data")
load("//tests/analysis:tables.bzl", "declare")
load(":graph.bzl", "graph_test")

def cases():
    """Declares the targets of this package."""

    et_recipe(name = "recipe", base = "//backends/xnnpack:fp32")

    et_shared_data(name = "foundation", model = "//tests/analysis:net", recipe = ":recipe", tags = ["manual"])

    declare(et_program, {
        "one": {},
        "two": {},
    }, model = "//tests/analysis:net", recipe = ":recipe", shared_data = [":foundation"], tags = ["manual"])

    et_program_test(name = "one_test", program = ":one", tags = ["manual"])

    et_runner_app(name = "app", programs = [":one", ":two"], tags = ["manual"])

    et_release(name = "release", apps = [":app"], programs = [":one"], tags = ["manual"])

    declare(graph_test, {
        "program_needs": dict(
            edges = ["//rules:lowering", "//tests/analysis/graph:foundation", "//tests/analysis/graph:one.lowering"],
            expression = "deps(//tests/analysis/graph:one, 1) - //tests/analysis/graph:one",
            scope = [":one"],
        ),
        "lowering_needs": dict(
            edges = ["//rules:lowering", "//tests/analysis:net", "//tests/analysis/graph:recipe"],
            expression = "deps(//tests/analysis/graph:one.lowering, 1) - //tests/analysis/graph:one.lowering",
            scope = [":one.lowering"],
        ),
        "foundation_needs": dict(
            edges = ["//tests/analysis/graph:foundation.lowering"],
            expression = "deps(//tests/analysis/graph:foundation, 1) - //tests/analysis/graph:foundation",
            scope = [":foundation"],
        ),
        "recipe_needs": dict(
            edges = ["//backends/xnnpack:fp32"],
            expression = "deps(//tests/analysis/graph:recipe, 1) - //tests/analysis/graph:recipe",
            scope = [":recipe"],
        ),
        "model_needs": dict(
            edges = ["//tests/analysis:library", "//tests/analysis:net.py", "//tests/analysis:weights.txt"],
            expression = "deps(//tests/analysis:net, 1) - //tests/analysis:net",
            scope = ["//tests/analysis:net"],
        ),
        # What a change of the foundation is felt by.
        "foundation_is_needed_by": dict(
            edges = ["//tests/analysis/graph:one", "//tests/analysis/graph:two"],
            expression = "rdeps(//tests/analysis/graph:release, //tests/analysis/graph:foundation, 1) " +
                         "- //tests/analysis/graph:foundation",
            scope = [":release"],
        ),
        "program_is_needed_by": dict(
            edges = ["//tests/analysis/graph:app", "//tests/analysis/graph:release"],
            expression = "rdeps(//tests/analysis/graph:release, //tests/analysis/graph:one, 1) " +
                         "- //tests/analysis/graph:one",
            scope = [":release"],
        ),
        "tests_of_a_model": dict(
            edges = ["//tests/analysis/graph:one_test"],
            expression = "tests(rdeps(//tests/analysis/graph:one_test, //tests/analysis:net))",
            scope = [":one_test"],
        ),
        # Programs of a recipe, however many steps away.
        "programs_of_a_recipe": dict(
            edges = ["//tests/analysis/graph:one", "//tests/analysis/graph:two"],
            expression = "kind(\"^et_program_rule rule\", rdeps(//tests/analysis/graph:release, " +
                         "//backends/xnnpack:fp32))",
            scope = [":release"],
        ),
    })
