"""Runtimes, their tests, and what imports reject."""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//rules:defs.bzl", "et_runtime_import")
load("//tests/analysis:tables.bzl", "declare", "failure_tests")
load("//toolchains/runtime:runtimes.bzl", "READY_MADE")
load(":runtimes.bzl", "names_test", "resources_test", "runtime_test", "verified_test")

def cases():
    """Declares the targets of this package."""

    # What errors say of other platforms' runtimes is true.
    [
        runtime_test(
            name = platform + "_test",
            backends = known.backends,
            executorch_version = "1.3.1" if platform.startswith(("android", "ios")) else "1.5.1",
            platform = platform,
            target_under_test = "@executorch_runtime_%s//:runtime" % platform,
        )
        for platform, known in READY_MADE.items()
    ]

    names_test(name = "names_test")

    resources_test(name = "resources_test")

    verified_test(name = "verified_test", target_under_test = "@executorch_exporter//:exporter")

    cc_library(name = "headers")

    declare(et_runtime_import, {
        "static": dict(
            backends = {"libnpu.a": ["OurNpuBackend"]},
            platform = "linux_arm64",
            prefix = native.glob(["prefix/**"]),
        ),
        "framework": dict(
            headers = ":headers",
            platform = "ios_sim_arm64",
            xcframeworks = native.glob(["xcframeworks/**"]),
        ),
        "aar": dict(
            aar_libraries = ["libc++_shared.so"],
            aars = ["one.aar"],
            headers = ":headers",
            platform = "android_arm64",
        ),
    }, executorch_version = "1.5.1", tags = ["manual"])

    declare(runtime_test, {
        "static_test": dict(
            backends = ["OurNpuBackend", "XnnpackBackend"],
            core = "static.executorch",
            libraries = ["static.portable_ops_lib", "static.npu", "static.xnnpack_backend"],
            platform = "linux_arm64",
            target_under_test = ":static",
        ),
        "framework_test": dict(
            backends = ["CoreMLBackend"],
            core = "framework.executorch",
            folder = "Frameworks/executorch.framework",
            libraries = ["framework.backend_coreml"],
            platform = "ios_sim_arm64",
            target_under_test = ":framework",
        ),
        "aar_test": dict(
            always = ["aar.c++_shared"],
            core = "aar.executorch",
            folder = "lib",
            platform = "android_arm64",
            target_under_test = ":aar",
        ),
    }, executorch_version = "1.5.1")

    failure_tests(et_runtime_import, {
        "nothing_given_test": ("got no library, expected one of prefix, aars and xcframeworks", {}),
        "two_given_test": (
            "got prefix and aars, expected one of prefix, aars and xcframeworks",
            dict(aars = ["one.aar"], prefix = native.glob(["prefix/**"])),
        ),
        "prefix_without_libraries_test": (
            "prefix: no lib/*.a, lib/*.so or lib/*.dylib found",
            dict(prefix = ["one.aar"]),
        ),
        "prefix_without_core_test": (
            "no library that runs programs (libexecutorch, ExecutorchLib) found. Available: libxnnpack_backend.a",
            dict(prefix = ["prefix/lib/libxnnpack_backend.a"]),
        ),
        "prefix_without_headers_test": (
            "include/executorch/runtime/executor/program.h not found. Give the headers of the same version",
            dict(prefix = ["prefix/lib/libexecutorch.a"]),
        ),
        "unknown_backend_library_test": (
            "backends: libnone.a not found. Available: libexecutorch.a, libnpu.a",
            dict(backends = {"libnone.a": ["None"]}, prefix = native.glob(["prefix/**"])),
        ),
        "aar_for_linux_test": (
            "platform of an AAR: got \"linux_arm64\", expected one of android_arm64, android_x86_64",
            dict(aars = ["one.aar"]),
        ),
        "slice_missing_test": (
            "xcframeworks: no library for macos_arm64 (folder \"macos-arm64\") found. Available: ios-arm64-simulator",
            dict(platform = "macos_arm64", xcframeworks = native.glob(["xcframeworks/**"])),
        ),
    }, executorch_version = "1.5.1", platform = "linux_arm64")
