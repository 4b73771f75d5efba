"""Programs that share data, their tests, and what they reject."""

load("//rules:defs.bzl", "et_lowering", "et_model", "et_program", "et_program_test", "et_shared_data", "et_size_test")
load("//tests/analysis:tables.bzl", "declare", "failure_tests")
load(":sharing.bzl", "lowering_actions_test", "shared_data_test", "shared_program_test", "size_test_files_test")

FP32 = "//backends/xnnpack:fp32"

def cases():
    """Declares the targets of this package."""

    declare(et_model, {
        "base": {},
        "task": {},
        # A task whose values may change: it is lowered with placeholders.
        "changing_model": dict(adapter = ["adapter.safetensors"], adapter_entry_point = "tests.analysis.net:adapter"),
    }, srcs = ["//tests/analysis:net.py"], entry_point = "tests.analysis.net:build", tags = ["manual"])

    et_lowering(name = "base_lowering", model = ":base", recipe = FP32, tags = ["manual"])

    declare(et_shared_data, {
        "foundation": dict(lowerings = [":base_lowering"]),
        "own_foundation": dict(model = ":base", recipe = FP32),
        "released": dict(srcs = ["released.json", "released.ptd"]),
    }, tags = ["manual"])

    declare(shared_data_test, {
        "shared_data_of_a_lowering_test": dict(
            inputs = ["base_lowering.lowered"],
            lowered = ["base_lowering"],
            target_under_test = ":foundation",
        ),
        "shared_data_of_a_model_test": dict(
            inputs = ["own_foundation.lowered"],
            lowered = ["own_foundation"],
            target_under_test = ":own_foundation",
        ),
        "shared_data_of_a_file_test": dict(
            inputs = ["released.json", "released.ptd"],
            target_under_test = ":released",
        ),
    }, actions = ["EtShare"])

    declare(et_program, {
        "program": dict(
            lowering = ":base_lowering",
            min_delegated = "90%",
            min_shared = "95%",
            shared_data = [":foundation"],
        ),
        "same": dict(model = ":base", recipe = FP32, shared_data = [":own_foundation"]),
        "adapter": dict(
            adapter_data = "by_name",
            allow_unshared = True,
            model = ":task",
            own_data = ["mask"],
            recipe = FP32,
            shared_data = [":foundation", ":released"],
            weights = "separate",
        ),
        "changing": dict(
            adapter_data = "by_name",
            model = ":changing_model",
            recipe = FP32,
            shared_data = [":foundation"],
            weights = "separate",
        ),
    }, tags = ["manual"])

    declare(shared_program_test, {
        "program_of_a_lowering_test": dict(
            data = ["foundation.ptd"],
            flags = [
                "--label //tests/analysis/sharing:program",
                "--min_delegated 90%",
                "--min_shared 95%",
                "foundation.manifest.json",
            ],
            link_inputs = ["base_lowering.lowered", "foundation.manifest.json"],
            target_under_test = ":program",
        ),
        # Model and recipe are those of its shared data: lowered once.
        "program_of_the_same_model_test": dict(
            data = ["own_foundation.ptd"],
            link_inputs = ["own_foundation.manifest.json", "own_foundation.lowered"],
            target_under_test = ":same",
        ),
        "adapter_test": dict(
            data = ["adapter.ptd", "foundation.ptd", "released.ptd"],
            flags = ["--adapter_data by_name", "--allow_unshared", "--own_data mask"],
            link_inputs = ["adapter.lowered", "foundation.manifest.json", "released.manifest.json"],
            target_under_test = ":adapter",
        ),
        "changing_test": dict(
            data = ["changing.ptd", "foundation.ptd"],
            flags = ["--adapter_data by_name"],
            link_inputs = ["changing.adapter", "changing.lowered", "foundation.manifest.json"],
            target_under_test = ":changing",
        ),
    })

    declare(lowering_actions_test, {
        # The second, of a bundle with its own values, runs when that is requested.
        "changing_lowering_test": dict(
            actions = {"EtAdapt": "1", "EtLower": "2", "EtPlaceholder": "1"},
            target_under_test = ":changing.lowering",
        ),
        "adapter_lowering_test": dict(actions = {"EtLower": "1"}, target_under_test = ":adapter.lowering"),
        # A given lowering is handed on.
        "given_lowering_test": dict(target_under_test = ":program.lowering"),
    })

    et_size_test(name = "size", max_bytes = "1 MB", program = ":program", tags = ["manual"])

    size_test_files_test(name = "size_test_files_test", target_under_test = ":size")

    failure_tests(et_shared_data, {
        "shared_stand_ins_test": (
            "sharing:changing was lowered for any values of its adapter, so it cannot be shared.",
            dict(lowerings = [":changing"]),
        ),
        "no_source_test": (
            "got no source, expected one source of weights. Give a model and a recipe, lowerings, or a .ptd that " +
            "was built before",
            {},
        ),
        "two_sources_test": (
            "got both a .ptd and a lowering, expected one source of weights.",
            dict(srcs = ["released.ptd"], lowerings = [":base_lowering"]),
        ),
        "shared_recipe_missing_test": (
            "recipe is missing. Give a model and a recipe, or a lowering.",
            dict(model = ":base", part = ".lowering"),
        ),
        "two_files_test": (
            "srcs: got other.ptd, released.ptd, expected one .ptd and its manifest (.json).",
            dict(srcs = ["other.ptd", "released.ptd"]),
        ),
        "exclude_of_a_file_test": (
            "exclude and shared_data do not apply to a .ptd that was built before.",
            dict(srcs = ["released.ptd"], exclude = ["mask"]),
        ),
    })

    failure_tests(et_program, {
        "lowering_and_model_test": (
            "a lowering has its own model, recipe and methods: got model and methods.",
            dict(lowering = ":base_lowering", methods = ["forward"], model = ":base", part = ".lowering"),
        ),
        "recipe_missing_test": (
            "recipe_missing_test.subject: recipe is missing. Give a model and a recipe, or a lowering.",
            dict(model = ":base", part = ".lowering"),
        ),
        "min_shared_of_nothing_test": (
            "min_shared has no effect without shared_data.",
            dict(lowering = ":base_lowering", min_shared = "95%"),
        ),
        "by_name_embedded_test": (
            "adapter_data = \"by_name\" needs a .ptd of the program's own. Set weights = \"separate\".",
            dict(adapter_data = "by_name", lowering = ":base_lowering"),
        ),
    })

    failure_tests(et_size_test, {
        "no_limit_test": (
            "no limit is given. Give one or more of max_bytes, max_cycles, max_sram, max_unshared_bytes.",
            dict(program = ":program"),
        ),
        "cycles_without_number_test": (
            "max_cycles: got \"1.2 M\", expected a number above 0 such as \"1200000\" or \"1.2e6\".",
            dict(max_cycles = "1.2 M", program = ":program"),
        ),
        "no_cycles_test": (
            "max_cycles: got \"0\", expected a number above 0",
            dict(max_cycles = "0", program = ":program"),
        ),
        "sram_without_number_test": (
            "max_sram: got \"50%\", expected a number of bytes above 0",
            dict(max_sram = "50%", program = ":program"),
        ),
    })

    failure_tests(et_program_test, {
        "adapter_without_data_test": (
            "adapter: @@//tests/analysis/sharing:same has no .ptd of its own",
            dict(adapter = ":same", program = ":adapter"),
        ),
    })
