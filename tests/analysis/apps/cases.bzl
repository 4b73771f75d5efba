"""Programs, runtimes and apps of this package, their tests, and what apps reject."""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//rules:defs.bzl", "et_backend", "et_program", "et_recipe", "et_runner_app", "et_runtime_library", "et_runtime_toolchain", "et_shared_data")
load("//rules/mobile:defs.bzl", "et_app_benchmark")
load("//tests/analysis:tables.bzl", "declare", "failure_tests")
load(":apps.bzl", "app_actions_test", "app_test", "benchmark_test", "license_paths_test")

_RUNTIMES = ["no_data_files", "old", "old_verified", "same_names"]

_INPUTS = ["net.pte", "net_shared_one.pte", "net_shared_two.pte", "weights.ptd"]

def cases():
    """Declares the targets of this package."""

    declare(et_program, {
        "net": {},
        "net_coreml": dict(recipe = ":coreml_recipe"),
        "net_npu": dict(recipe = ":npu_recipe"),
        "net_shared_one": dict(shared_data = [":weights"]),
        "net_shared_two": dict(shared_data = [":weights"]),
    }, model = "//tests/analysis:net", recipe = "//backends/xnnpack:fp32", tags = ["manual"])

    declare(et_backend, {
        "coreml": dict(id = "CoreMLBackend"),
        "npu": dict(id = "OurNpuBackend"),
    })

    declare(et_recipe, {
        "coreml_recipe": dict(backends = [":coreml"]),
        "npu_recipe": dict(backends = [":npu"]),
    }, srcs = ["//tests/analysis:net.py"], builder = "net:recipe", tags = ["manual"])

    et_shared_data(
        name = "weights",
        model = "//tests/analysis:net",
        recipe = "//backends/xnnpack:fp32",
        tags = ["manual"],
    )

    native.constraint_setting(name = "runtime_kind")

    [native.constraint_value(name = kind, constraint_setting = ":runtime_kind") for kind in _RUNTIMES]

    [
        native.platform(name = kind + "_platform", constraint_values = [":" + kind], parents = ["@platforms//host"])
        for kind in _RUNTIMES
    ]

    declare(cc_library, {
        "headers": {},
        "registering": dict(srcs = ["main.cc"], tags = ["manual"], alwayslink = True),
        "dropped": dict(srcs = ["main.cc"], tags = ["manual"]),
        # An aggregate of what registers operators.
        "kernels": dict(tags = ["manual"], deps = [":registering"]),
    })

    declare(et_runtime_library, {
        "core": dict(backends = ["XnnpackBackend"], library = "libcore.so"),
        "static": dict(library = "libstatic.a"),
    })

    declare(et_runtime_toolchain, {
        "no_data_files_runtime": dict(data_files = False, platform = "no_data_files"),
        "old_runtime": dict(executorch_version = "1.4.10", platform = "old"),
        "old_verified_runtime": dict(
            executorch_version = "1.4.10",
            platform = "old_verified",
            verified_exporters = ["1.5.1"],
        ),
        # Libraries and licenses of two packages, with one name.
        "same_names_runtime": dict(
            libraries = ["//tests/analysis/apps/a:lib", "//tests/analysis/apps/a/b:lib"],
            license_files = ["//tests/analysis/apps/a:LICENSE", "//tests/analysis/apps/a/b:LICENSE"],
            platform = "same_names",
        ),
    }, core = ":core", executorch_version = "1.5.1", headers = ":headers", tags = ["manual"], visibility = ["//visibility:public"])

    [
        native.toolchain(
            name = kind + "_toolchain",
            target_compatible_with = [":" + kind],
            toolchain = ":%s_runtime" % kind,
            toolchain_type = "//toolchains/runtime:toolchain_type",
        )
        for kind in _RUNTIMES
    ]

    declare(et_runner_app, {
        "app_linux_arm64": dict(platform = "//toolchains/platforms:linux_arm64"),
        "app_macos_arm64": dict(platform = "//toolchains/platforms:macos_arm64"),
        "app_old_verified": dict(platform = ":old_verified_platform", programs = [":net"]),
        "app_host": dict(data = ["labels/de.txt"]),
        "app_of_kernels": dict(
            # Two labels whose words are the same.
            kernels = [":kernels", "//tests/analysis/apps/a:b_c", "//tests/analysis/apps/a/b:c"],
            platform = ":same_names_platform",
            programs = [":net"],
        ),
    }, programs = [":net", ":net_shared_one", ":net_shared_two"], tags = ["manual"])

    declare(app_test, {
        "app_linux_arm64_test": dict(
            archive = "app_linux_arm64.tar.zst",
            inputs = _INPUTS,
            platform = "linux_arm64",
            same_program = ":app_host",
            target_under_test = ":app_linux_arm64",
        ),
        "app_macos_arm64_test": dict(
            archive = "app_macos_arm64.zip",
            inputs = _INPUTS,
            platform = "macos_arm64",
            same_program = ":app_host",
            target_under_test = ":app_macos_arm64",
        ),
        # A newer exporter whose programs were run on the runtime.
        "app_old_verified_test": dict(
            archive = "app_old_verified.tar.zst",
            inputs = ["net.pte"],
            platform = "old_verified",
            same_program = ":app_old_verified",
            target_under_test = ":app_old_verified",
        ),
    })

    et_app_benchmark(name = "app_host.benchmark", app = ":app_host", tags = ["manual"])

    declare(benchmark_test, {
        "app_benchmark_test": dict(
            files = ["app_host", "app_host.run.sh", "net.report.json", "net_shared_one.report.json"],
            target_under_test = ":app_host.benchmark",
            words = [
                "etcli benchmark --target_app tests/analysis/apps/app_host.run.sh",
                "--target_app_folder tests/analysis/apps/app_host",
            ],
        ),
        "program_benchmark_test": dict(
            files = ["net.pte", "net.report.json"],
            target_under_test = ":net.benchmark",
            words = [
                "etcli benchmark --target_flags tests/analysis/apps/net.benchmark.flags",
                "--target_report tests/analysis/apps/net.report.json",
            ],
        ),
    })

    # Libraries are read where they are declared, not once for each app.
    app_actions_test(
        name = "app_of_kernels_test",
        inputs_of_fit = [
            "a/b/c.registered",
            "a/b_c.registered",
            "a/b/lib.registered",
            "a/lib.registered",
            "core.registered",
            "kernels.registered",
        ],
        license_paths = ["app/tests/analysis/apps/a/LICENSE", "app/tests/analysis/apps/a/b/LICENSE"],
        target_under_test = ":app_of_kernels",
    )

    license_paths_test(name = "license_paths_test")

    failure_tests(et_runner_app, {
        "backend_of_another_platform_test": (
            "//tests/analysis/apps:net_coreml delegates to CoreMLBackend (@@//tests/analysis/apps:coreml): " +
            "backend not found in the runtime",
            dict(platform = "//toolchains/platforms:linux_arm64", programs = [":net_coreml"]),
        ),
        "backend_elsewhere_test": (
            "Ready-made runtimes that have it: ios_arm64, ios_sim_arm64, macos_arm64.",
            dict(platform = "//toolchains/platforms:linux_arm64", programs = [":net_coreml"]),
        ),
        "backend_nowhere_test": (
            "No ready-made runtime has it: import one that does with et_runtime_import.",
            dict(programs = [":net_npu"]),
        ),
        "older_runtime_test": (
            "(old): got ExecuTorch 1.4.10, expected the exporter's, 1.5.1, or newer. Use such a runtime; or run " +
            "your programs on this one, and add \"1.5.1\" to its verified_exporters",
            dict(platform = ":old_platform", programs = [":net"]),
        ),
        "no_data_files_test": (
            "net_shared_one loads .ptd files, and the runtime @@//tests/analysis/apps:no_data_files_runtime " +
            "(no_data_files) cannot",
            dict(platform = ":no_data_files_platform", programs = [":net_shared_one"]),
        ),
        "kernels_without_alwayslink_test": (
            "kernels: @@//tests/analysis/apps:dropped: got alwayslink = False, expected alwayslink = True.",
            dict(kernels = [":dropped"]),
        ),
        "two_mains_test": (
            "main and srcs both have a main(). Keep one of them",
            dict(srcs = ["main.cc"], main = ":headers"),
        ),
        "deps_without_main_test": ("deps have no effect without main or srcs", dict(deps = [":headers"])),
        "no_etdump_test": (
            "etdump: the runtime @@//tests/analysis/apps:old_verified_runtime (old_verified) has no library that " +
            "records events",
            dict(etdump = True, platform = ":old_verified_platform", programs = [":net"]),
        ),
    })

    failure_tests(et_runtime_toolchain, {
        "two_backends_test": (
            "two libraries register the backend \"XnnpackBackend\"",
            dict(
                core = ":core",
                executorch_version = "1.5.1",
                headers = ":headers",
                libraries = [":core"],
                platform = "linux_x86_64",
            ),
        ),
    })

    failure_tests(et_runtime_library, {
        "static_with_a_place_test": (
            "libstatic.a is static and becomes part of the binary. Remove folder = \"lib\"",
            dict(folder = "lib", library = "libstatic.a"),
        ),
    })
