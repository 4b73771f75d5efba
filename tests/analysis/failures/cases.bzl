"""Attributes that rules reject, and their messages."""

load("//rules:defs.bzl", "et_exporter", "et_model", "et_program", "et_program_test", "et_recipe", "et_shared_data", "et_size_test", "et_variants")
load("//rules/tuning:defs.bzl", "et_sensitivity", "et_tuned_recipe")
load("//tests/analysis:tables.bzl", "failure_tests")

_CHOICES = ["//backends/xnnpack:fp32", "//backends/xnnpack:int8_dynamic_act_int4_weight"]

def cases():
    """Declares the targets of this package."""

    et_shared_data(
        name = "shared",
        model = "//tests/analysis:net",
        recipe = "//backends/portable:fp32",
        tags = ["manual"],
    )

    et_program(
        name = "program",
        model = "//tests/analysis:net",
        recipe = "//backends/portable:fp32",
        tags = ["manual"],
    )

    # Numbers in strings: before anything is lowered.
    failure_tests(et_program, {
        "min_shared_%d_test" % number: (
            "min_shared: got \"%s\", expected a percentage or a number of bytes such as" % value,
            dict(min_shared = value),
        )
        for number, value in enumerate(["101%", "-1", "1 TB", "1.MB", "95 percent"])
    }, model = "//tests/analysis:net", recipe = "//backends/portable:fp32", shared_data = [":shared"])

    failure_tests(et_size_test, {
        "%s_%d_test" % (limit, number): (
            "%s: got \"%s\", expected a number of bytes above 0 such as" % (limit, value),
            {limit: value},
        )
        for limit in ["max_bytes", "max_unshared_bytes"]
        for number, value in enumerate(["90%", "-5", "0", "ten MB"])
    }, program = ":program")

    failure_tests(et_program_test, {
        "%s_%d_test" % (attribute, number): (
            "%s: got \"%s\", expected a number" % (attribute, value),
            {attribute: value},
        )
        for attribute, values in {
            "atol": ["-1e-3", "1e", "nan"],
            "max_instructions": ["0", "-5", "nan", "1M"],
            "max_rss_mb": ["0", "0.0", "-1", "nan", "inf", "512 MB"],
            "max_seconds_per_call": ["0", "-1e-3", "nan", "20 ms"],
            "min_sqnr_db": ["30 dB", "inf"],
            "rtol": ["1e-4.5", "1%"],
        }.items()
        for number, value in enumerate(values)
    }, program = ":program")

    failure_tests(et_variants, {
        "condition_%d_test" % number: (message, dict(programs = {":program": [condition]}))
        for number, (condition, message) in enumerate([
            ("ram_gb", "condition \"ram_gb\": expected a fact, one of = >= <, and a value"),
            ("ram_gb > 8", "condition \"ram_gb > 8\": expected a fact, one of = >= <, and a value"),
            ("ram >= 8", "got the fact \"ram\", expected one of: cpu, features, os"),
            ("ram_gb >= 8 GB", "got \"8 GB\", expected a version, such as 8 or 1.3"),
            ("os_level >= x", "got \"x\", expected a version"),
            ("@platforms//os:windows", "got \"windows\", expected one of: android, ios, linux, macos, osx"),
            ("soc >= SM8650", "soc has no order. Name its values: \"soc = SM8650\""),
        ])
    } | {
        "budget_%d_test" % number: (message, dict(budgets = budgets, programs = {":program": []}))
        for number, (budgets, message) in enumerate([
            ({"ram_gb = 4": ["max_mb 5"]}, "got \"max_mb 5\", expected a bound, once each, such as \"max_rss_mb 1500\""),
            ({"ram_gb = 4": ["max_rss_mb 5", "max_rss_mb 6"]}, "got \"max_rss_mb 6\", expected a bound, once each"),
            ({"ram_gb = 4": ["max_rss_mb"]}, "budgets: \"ram_gb = 4\": max_rss_mb: got \"\", expected a number above 0"),
            ({"ram_gb = 4": ["max_rss_mb -5"]}, "max_rss_mb: got \"-5\", expected a number above 0"),
            ({"ram_gb = 4": ["max_instructions nan"]}, "max_instructions: got \"nan\", expected a number above 0"),
            ({"ram_gb = 4": []}, "budgets: \"ram_gb = 4\": got no bound, expected some such as"),
            ({"ram > 4": ["max_rss_mb 5"]}, "condition \"ram > 4\": expected a fact, one of = >= <, and a value"),
        ])
    } | {
        "variants_none_test": ("programs: got none, expected at least one", dict(programs = {})),
        "variants_order_test": (
            "order: got none, expected each of programs once",
            dict(programs = {":program": []}, order = []),
        ),
    })

    failure_tests(et_model, {
        "entry_point_malformed_test": (
            "entry_point: got \"net.build\", expected \"module:function\" such as",
            dict(entry_point = "net.build"),
        ),
        "imports_outside_test": (
            "imports: got \"../../../../elsewhere\", expected a folder of the repository",
            dict(imports = ["../../../../elsewhere"]),
        ),
        "adapter_without_entry_point_test": (
            "adapter and adapter_entry_point go together: adapter_entry_point is missing",
            dict(adapter = ["adapter.safetensors"]),
        ),
        "adapter_without_values_test": (
            "adapter: got weights.txt, expected a .safetensors file with its values",
            dict(adapter = ["//tests/analysis:weights.txt"], adapter_entry_point = "net:adapter"),
        ),
        "adapter_entry_point_malformed_test": (
            "adapter_entry_point: got \"net.adapter\", expected \"module:function\" such as",
            dict(adapter = ["adapter.safetensors"], adapter_entry_point = "net.adapter"),
        ),
    }, srcs = ["//tests/analysis:net.py"], entry_point = "net:build")

    failure_tests(et_program, {
        "methods_twice_test": (
            "methods lists \"forward\" twice",
            dict(methods = ["forward", "forward"]),
        ),
        # Attributes of a lowering that need or exclude each other.
        "quantize_none_with_calibration_test": (
            "calibration has no effect with quantize = \"none\". Remove one of them.",
            dict(calibration = "adapter.safetensors", quantize = "none"),
        ),
        "quantize_none_with_checkpoint_test": (
            "trained_checkpoint has no effect with quantize = \"none\". Set quantize = \"qat\", or remove it.",
            dict(quantize = "none", trained_checkpoint = "adapter.safetensors"),
        ),
        "quantize_qat_alone_test": (
            "trained_checkpoint: got none, expected one with quantize = \"qat\". Give the state_dict of",
            dict(quantize = "qat"),
        ),
        "quantize_qat_with_calibration_test": (
            "calibration has no effect with quantize = \"qat\". Remove one of them.",
            dict(
                calibration = "adapter.safetensors",
                quantize = "qat",
                trained_checkpoint = "adapter.safetensors",
            ),
        ),
    }, model = "//tests/analysis:net", part = ".lowering", recipe = "//backends/portable:fp32")

    failure_tests(et_program, {
        "calibration_npy_test": (
            "calibration_npy_test.subject: calibration: got samples.npy, expected the label of one .safetensors " +
            "file. Write it with safetensors.torch.save_file({\"0\": torch.stack(samples)}",
            dict(calibration = "samples.npy"),
        ),
        "calibration_glob_test": (
            "calibration_glob_test.subject: calibration: got a list of 2, expected the label of one .safetensors " +
            "file.",
            dict(calibration = native.glob(["*.safetensors"]) + ["samples.npy"]),
        ),
        "calibration_empty_glob_test": (
            "calibration: got a list of 0, expected the label of one .safetensors file.",
            dict(calibration = native.glob(["*.none"], allow_empty = True)),
        ),
        "calibration_one_in_a_list_test": (
            "calibration: got a list of 1, expected the label of one .safetensors file.",
            dict(calibration = ["samples.npy"]),
        ),
    }, model = "//tests/analysis:net", part = ".lowering", recipe = "//backends/xnnpack:int8_static_per_channel")

    failure_tests(et_program, {
        "min_delegated_without_unit_test": (
            "min_delegated: got \"90\", expected a percentage such as \"90%\".",
            dict(min_delegated = "90"),
        ),
        "min_delegated_too_much_test": (
            "min_delegated: got \"101%\", expected a percentage such as \"90%\".",
            dict(min_delegated = "101%"),
        ),
        "min_delegated_of_words_test": (
            "min_delegated: got \"most%\", expected a percentage such as \"90%\".",
            dict(min_delegated = "most%"),
        ),
    }, model = "//tests/analysis:net", recipe = "//backends/portable:fp32")

    failure_tests(et_shared_data, {
        "calibration_shared_npy_test": (
            "calibration: got samples.npy, expected the label of one .safetensors file.",
            dict(calibration = "samples.npy", recipe = "//backends/xnnpack:int8_static_per_channel"),
        ),
        "shared_data_qat_alone_test": (
            "trained_checkpoint: got none, expected one with quantize = \"qat\". Give the state_dict of",
            dict(quantize = "qat", recipe = "//backends/portable:fp32"),
        ),
    }, model = "//tests/analysis:net", part = ".lowering")

    failure_tests(et_program_test, {
        "metric_unknown_test": (
            "metric: got \"top5\", expected one of boxes, cosine, tokens, top1, word_accuracy, or \"module:function\"",
            dict(metric = "top5", min = "1"),
        ),
        "metric_without_min_test": (
            "min is missing. Give the least score",
            dict(metric = "top1"),
        ),
        "metric_without_decode_test": (
            "metric = \"boxes\" compares what outputs are decoded to: decode is missing",
            dict(metric = "boxes", min = "0.9"),
        ),
        "decode_unused_test": (
            "decode has no effect with metric = \"cosine\"",
            dict(metric = "cosine", min = "0.9", decode = "a:b"),
        ),
        "min_without_metric_test": (
            "min has no effect without metric",
            dict(min = "0.9"),
        ),
        "preprocessing_without_inputs_test": (
            "preprocessing has no effect without inputs",
            dict(preprocessing = {"size": "224"}),
        ),
        "runtimes_unknown_test": (
            "//tests/analysis/failures:runtimes_unknown_test.subject: runtimes: got \"1.2.0\", expected one of " +
            "1.3.1, 1.4.0, 1.4.1, 1.5.0, 1.5.1. Or declare a version from 1.3.0 on in MODULE.bazel: " +
            "executorch.older_runtime(executorch_version = \"1.2.0\", sha256 = \"…\").",
            dict(runtimes = ["1.4.1", "1.2.0"]),
        ),
        "runtimes_twice_test": (
            "//tests/analysis/failures:runtimes_twice_test.subject: runtimes: got \"1.4.1\" twice, expected it " +
            "once. Remove one of them.",
            dict(runtimes = ["1.4.1", "1.4.1"]),
        ),
    }, program = ":program")

    failure_tests(et_recipe, {
        "recipe_of_no_kind_test": ("got none of them, expected one of recipes", {}),
        "recipe_of_two_kinds_test": (
            "got recipes and base, expected one of recipes",
            dict(base = "//backends/portable:fp32", recipes = ["//backends/portable:fp32"]),
        ),
        "override_of_another_backend_test": (
            "overrides: \"head\": got //backends/portable:fp32 of the backends none, expected a recipe of " +
            "XnnpackBackend. Layers of one program can have other precisions, but not other backends",
            dict(
                base = "//backends/xnnpack:int8_dynamic_act_int4_weight",
                overrides = {"head": "//backends/portable:fp32"},
            ),
        ),
        "override_of_nothing_test": (
            "overrides: \"\": got an empty pattern, expected one of layers such as",
            dict(
                base = "//backends/xnnpack:int8_dynamic_act_int4_weight",
                overrides = {"": "//backends/xnnpack:fp32"},
            ),
        ),
        "builder_malformed_test": (
            "builder: got \"recipes.build\", expected \"module:function\" such as",
            dict(builder = "recipes.build"),
        ),
        "unknown_inexact_test": (
            "allow_inexact: got \"gelu_tanh\", expected one of addmm, bilinear, gelu, reflection_pad. Did you mean \"gelu\"?",
            dict(base = "//backends/xnnpack:fp32", allow_inexact = ["gelu_tanh"]),
        ),
        "repeated_inexact_test": (
            "allow_inexact lists \"gelu\" twice",
            dict(base = "//backends/xnnpack:fp32", allow_inexact = ["gelu", "gelu"]),
        ),
        "combined_inexact_test": (
            "allow_inexact: a recipe that combines others takes none",
            dict(recipes = ["//backends/xnnpack:fp32"], allow_inexact = ["gelu"]),
        ),
        "unknown_option_test": (
            "unknown option \"groupsize\". It takes: enable_bf16 (bool), group_size (int*32), " +
            "share_mutable_buffers (bool).",
            dict(base = "//backends/xnnpack:int8_dynamic_act_int4_weight", options = {"groupsize": "32"}),
        ),
        "unknown_of_several_test": (
            "unknown option \"size\". It takes: bits (int>=2), unit (cpu|npu).",
            dict(
                builder = "recipes:build",
                option_types = {"bits": "int>=2", "unit": "cpu|npu"},
                options = {"size": "1"},
            ),
        ),
        "option_of_none_test": (
            "unknown option \"group_size\". This recipe takes none.",
            dict(builder = "recipes:build", options = {"group_size": "32"}, strict_options = True),
        ),
        "option_multiple_test": (
            "option \"group_size\": got \"33\", expected a positive multiple of 32",
            dict(base = "//backends/xnnpack:int8_dynamic_act_int4_weight", options = {"group_size": "33"}),
        ),
        "option_zero_multiple_test": (
            "option \"group_size\": got \"0\", expected a positive multiple of 32",
            dict(base = "//backends/xnnpack:int8_dynamic_act_int4_weight", options = {"group_size": "0"}),
        ),
        "option_at_least_test": (
            "option \"bits\": got \"1\", expected a whole number of at least 2",
            dict(builder = "recipes:build", option_types = {"bits": "int>=2"}, options = {"bits": "1"}),
        ),
        "option_int_test": (
            "option \"n\": got \"two\", expected a whole number",
            dict(builder = "recipes:build", option_types = {"n": "int"}, options = {"n": "two"}),
        ),
        "option_float_test": (
            "option \"x\": got \"1.5.2\", expected a number",
            dict(builder = "recipes:build", option_types = {"x": "float"}, options = {"x": "1.5.2"}),
        ),
        "option_bool_test": (
            "option \"on\": got \"perhaps\", expected true or false",
            dict(builder = "recipes:build", option_types = {"on": "bool"}, options = {"on": "perhaps"}),
        ),
        "option_choice_test": (
            "option \"unit\": got \"gpu\", expected one of cpu, npu",
            dict(builder = "recipes:build", option_types = {"unit": "cpu|npu"}, options = {"unit": "gpu"}),
        ),
        "option_type_test": (
            "type of \"n\": got \"integer\", expected int, int>=N",
            dict(builder = "recipes:build", option_types = {"n": "integer"}),
        ),
        "options_of_combined_test": (
            "a combined recipe takes no options",
            dict(options = {"group_size": "32"}, recipes = ["//backends/portable:fp32"]),
        ),
        "options_over_combined_test": (
            "its base //tests/analysis:combined combines recipes, and takes no options",
            dict(base = "//tests/analysis:combined", options = {"group_size": "32"}),
        ),
    })

    failure_tests(et_tuned_recipe, {
        "tuned_without_bound_test": (
            "got no bound, expected one of max_bytes, min_sqnr_db and max_perplexity",
            {},
        ),
        "tuned_two_bounds_test": (
            "got max_bytes and min_sqnr_db, expected one of max_bytes, min_sqnr_db and max_perplexity",
            dict(max_bytes = "1 MB", min_sqnr_db = "20"),
        ),
        "tuned_bytes_test": (
            "max_bytes: got \"50%\", expected a number of bytes above 0 such as",
            dict(max_bytes = "50%"),
        ),
        "tuned_sqnr_test": (
            "min_sqnr_db: got \"good\", expected a number such as \"30\"",
            dict(min_sqnr_db = "good"),
        ),
        "tuned_perplexity_test": (
            "max_perplexity: got \"2%\", expected a number such as \"12.5\", or \"1.02x\"",
            dict(max_perplexity = "2%"),
        ),
        "tuned_perplexity_without_text_test": (
            "max_perplexity: got no text to predict, expected a .txt file",
            dict(max_perplexity = "1.02x"),
        ),
        "tuned_one_choice_test": (
            "choices: got 1 recipes, expected at least two",
            dict(choices = _CHOICES[:1], max_bytes = "1 MB"),
        ),
    }, choices = _CHOICES, model = "//tests/analysis:net")

    failure_tests(et_sensitivity, {
        "sensitivity_of_two_backends_test": (
            "recipes: got //backends/xnnpack:fp32 of the backends XnnpackBackend and //backends/portable:fp32 of " +
            "none, expected recipes of the same backends",
            dict(model = "//tests/analysis:net", recipes = _CHOICES + ["//backends/portable:fp32"]),
        ),
    })

    failure_tests(
        et_exporter,
        {
            "exporter_without_packages_test": (
                "no packages are given. Give torch and executorch",
                dict(part = ".linking_tool"),
            ),
            "exporter_without_imports_test": (
                "packages and package_imports go together",
                dict(packages = ["//tests/analysis:net.py"], part = ".lowering_tool"),
            ),
        },
        executorch_version = "1.5.1",
        interpreter = "//tests/analysis:net.py",
        stamp = "//tests/analysis:net.py",
        torch_version = "2.13.0",
    )
