"""Models, programs and recipes of this package, and tests of their actions and providers."""

load("@rules_python//python:defs.bzl", "py_library")
load("//rules:defs.bzl", "et_model", "et_program", "et_program_test", "et_recipe")
load("//rules/tuning:defs.bzl", "et_tuned_recipe")
load("//tests/analysis:tables.bzl", "declare")
load("//toolchains/runtime:older.bzl", "OLDER_RUNTIMES")
load(":actions.bzl", "compared_test", "launcher_test", "lower_action_test", "model_actions_test", "program_actions_test", "stock_lower_action_test")
load(":grammar.bzl", "grammar_test")
load(":older.bzl", "older_test")
load(":providers.bzl", "model_test", "program_outputs_test")
load(":recipes.bzl", "choose_action_test", "combined_recipe_test", "extended_recipe_test", "own_recipe_test", "rebuilt_recipe_test", "sensitivity_action_test", "tuned_recipe_test")

def cases():
    """Declares the targets of this package."""

    py_library(name = "library", srcs = ["imported/library.py"], imports = ["imported"])

    et_model(
        name = "net",
        srcs = ["net.py"],
        args = {"width": "8"},
        data = ["weights.txt"],
        entry_point = "tests.analysis.net:build",
        imports = ["more"],
        memory_mb = 3000,
        tags = ["manual"],
        deps = [":library"],
    )

    grammar_test(name = "grammar_test")

    model_test(name = "model_test", target_under_test = ":net")

    declare(et_program, {
        "chosen": dict(methods = ["forward"], recipe = "//backends/xnnpack:fp32"),
        "separate": dict(recipe = ":combined", weights = "separate"),
        "stock_program": dict(recipe = "stock"),
        "stock_extended_program": dict(recipe = "stock_extended"),
        "stock_listed_program": dict(recipe = "stock_listed"),
    }, model = ":net", tags = ["manual"])

    declare(et_program_test, {
        "chosen_program_test": {},
        "chosen_program_ratio_test": dict(allow_weak_slices = True, min_sqnr_db = "12"),
        "chosen_program_both_test": dict(atol = "0.5", min_sqnr_db = "12"),
        "separate_program_test": dict(program = ":separate"),
        "older_program_test": dict(runtimes = ["1.3.1"]),
    }, program = ":chosen", tags = ["manual"])

    declare(older_test, {
        "no_older_runtime_test": dict(runtimes = [], target_under_test = ":chosen_program_test"),
        "older_runtime_test": dict(runtimes = ["1.3.1"], target_under_test = ":older_program_test"),
    }, bundled = sorted(OLDER_RUNTIMES))

    model_actions_test(
        name = "model_actions_test",
        flags = ["--entry_point=tests.analysis.net:build", "--label=//tests/analysis:net"],
        inputs = ["library.py", "net.py", "weights.txt"],
        target_under_test = ":net",
    )

    declare(compared_test, {
        "compared_test": dict(
            absent = ["--min_sqnr_db", "--allow_weak_slices"],
            target_under_test = ":chosen_program_test",
            words = ["--atol", "--rtol", "1e-4", "--method", "forward"],
        ),
        # A ratio replaces the tolerances of elements.
        "compared_ratio_test": dict(
            absent = ["--atol", "--rtol"],
            target_under_test = ":chosen_program_ratio_test",
            words = ["--min_sqnr_db", "12", "--allow_weak_slices"],
        ),
        "compared_both_test": dict(
            target_under_test = ":chosen_program_both_test",
            words = ["--atol", "0.5", "--rtol", "1e-4", "--min_sqnr_db", "12"],
        ),
    }, expected = "net.expected.safetensors", others = [":chosen_program_test", ":separate_program_test"])

    launcher_test(name = "launcher_test", target_under_test = ":chosen_program_test")

    declare(lower_action_test, {
        "lower_test": dict(
            flags = [
                "--args={\"width\":\"8\"}",
                "--data=_main/tests/analysis/weights.txt=tests/analysis/weights.txt",
                "--entry_point=tests.analysis.net:build",
                "--label=//tests/analysis:chosen",
                "--lowering=fast",
                "--method=forward",
                "--model_label=//tests/analysis:net",
                "--root=_main",
                "--root=_main/tests/analysis/imported",
                "--root=_main/tests/analysis/more",
                "--source=_main/tests/analysis/imported/library.py=tests/analysis/imported/library.py",
                "--source=_main/tests/analysis/net.py=tests/analysis/net.py",
            ],
            inputs = ["library.py", "net.py", "weights.txt", "xnnpack_recipes.py"],
            target_under_test = ":chosen.lowering",
        ),
        # Where weights go is no matter of lowering; without methods there is no flag for them.
        "lower_all_methods_test": dict(
            absent = ["--method", "--program", "--weights"],
            target_under_test = ":separate.lowering",
        ),
        "lower_stock_recipe_test": dict(
            absent = ["--lowering=fast"],
            flags = ["--lowering=stock"],
            target_under_test = "stock_program.lowering",
        ),
        "lower_stock_extended_recipe_test": dict(
            absent = ["--lowering=fast"],
            flags = ["--lowering=stock"],
            target_under_test = "stock_extended_program.lowering",
        ),
        "lower_stock_listed_recipe_test": dict(
            absent = ["--lowering=fast"],
            flags = ["--lowering=stock"],
            target_under_test = "stock_listed_program.lowering",
        ),
    })

    # By a flag, or by a recipe: of its own, of what it extends, or of one that it lists.
    stock_lower_action_test(
        name = "lower_stock_test",
        absent = ["--lowering=fast"],
        flags = ["--lowering=stock"],
        target_under_test = ":separate.lowering",
    )

    declare(et_recipe, {
        "stock": dict(base = "//backends/xnnpack:fp32", lowering = "stock"),
        "stock_extended": dict(base = ":stock"),
        "stock_listed": dict(recipes = ["//backends/portable:fp32", ":stock_extended"]),
        "extended": dict(base = "//backends/xnnpack:int8_dynamic_act_int4_weight", options = {"group_size": "64"}),
        "extended_again": dict(base = ":extended", options = {"group_size": "96"}),
        "renamed": dict(base = ":extended"),
        "rebuilt": dict(
            srcs = ["net.py"],
            backends = ["//backends/portable"],
            base = ":extended",
            builder = "tests.analysis.net:recipe",
            data = ["weights.txt"],
            option_types = {"bits": "int>=2"},
            options = {"bits": "4", "group_size": "128"},
        ),
        "combined": dict(recipes = ["//backends/xnnpack:fp32", "//backends/portable:fp32"]),
        "combined_again": dict(base = ":combined"),
        "own": dict(srcs = ["net.py"], builder = "tests.analysis.net:recipe", options = {"anything": "goes"}),
        "tuned_again": dict(base = ":tuned", tags = ["manual"]),
    })

    declare(program_actions_test, {
        "embedded_actions_test": dict(
            bundled = "chosen.pte",
            linked = ["chosen.link.json", "chosen.manifest.json", "chosen.pte"],
            links = 1,
            target_under_test = ":chosen",
        ),
        "separate_actions_test": dict(
            bundled = "separate.embedded.pte",
            linked = [
                "separate.link.json",
                "separate.manifest.json",
                "separate.ptd",
                "separate.pte",
            ],
            links = 2,
            target_under_test = ":separate",
        ),
    })

    declare(program_outputs_test, {
        "embedded_outputs_test": dict(
            backends = ["XnnpackBackend"],
            default = ["chosen.pte"],
            methods = ["forward"],
            target_under_test = ":chosen",
        ),
        "separate_outputs_test": dict(
            backends = ["XnnpackBackend", ""],
            default = ["separate.ptd", "separate.pte"],
            target_under_test = ":separate",
        ),
    }, model = "net")

    declare(extended_recipe_test, {
        "extended_test": dict(options = {"group_size": "64"}, target_under_test = ":extended"),
        "extended_again_test": dict(options = {"group_size": "96"}, target_under_test = ":extended_again"),
        "renamed_test": dict(options = {"group_size": "64"}, target_under_test = ":renamed"),
    })

    rebuilt_recipe_test(name = "rebuilt_test", target_under_test = ":rebuilt")

    declare(combined_recipe_test, {
        "combined_test": dict(target_under_test = ":combined"),
        "combined_again_test": dict(target_under_test = ":combined_again"),
    })

    own_recipe_test(name = "own_recipe_test", target_under_test = ":own")

    et_tuned_recipe(
        name = "tuned",
        choices = ["//backends/xnnpack:fp32", "//backends/xnnpack:int8_dynamic_act_int4_weight"],
        max_bytes = "20 kB",
        model = ":net",
        tags = ["manual"],
    )

    declare(tuned_recipe_test, {
        "tuned_test": dict(target_under_test = "tuned"),
        "tuned_again_test": dict(target_under_test = "tuned_again"),
    }, choice = "tuned")

    choose_action_test(name = "choose_action_test", target_under_test = ":tuned")

    sensitivity_action_test(name = "sensitivity_action_test", target_under_test = ":tuned.sensitivity")
