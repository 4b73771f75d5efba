"""Packages for iOS, and what they reject."""

load("//rules:defs.bzl", "et_program", "et_runner_app")
load("//rules/mobile:defs.bzl", "et_ios_xcframework")
load("//tests/analysis:tables.bzl", "declare", "failure_tests")
load("//tests/integration/ios:as_ios.bzl", "as_ios")

def cases():
    """Declares the targets of this package."""

    et_program(name = "net", model = "//tests/analysis:net", recipe = "//backends/xnnpack:fp32", tags = ["manual"])

    declare(et_runner_app, {
        "host_app": dict(data = [], programs = [":net"]),
        "with_data": dict(data = ["BUILD.bazel"], programs = [":net"]),
        "no_programs": dict(data = [], programs = []),
    }, tags = ["manual"])

    [
        as_ios(
            name = "%s_%s" % (platform, name),
            app = name,
            runtime = "@executorch_runtime_%s//:runtime" % platform,
            tags = ["manual"],
        )
        for name in ("host_app", "with_data", "no_programs")
        for platform in ("ios_arm64", "ios_sim_arm64")
    ]

    as_ios(
        name = "with_api",
        api_library = "BUILD.bazel",
        app = ":host_app",
        runtime = "@executorch_runtime_ios_arm64//:runtime",
        tags = ["manual"],
    )

    failure_tests(et_ios_xcframework, {
        "other_platform_test": (
            "host_app: got linux_x86_64, expected one of ios_arm64, ios_sim_arm64.",
            dict(apps = [":host_app"]),
        ),
        "twice_test": (
            "are both for ios_arm64. Keep one of them.",
            dict(apps = [":ios_arm64_host_app", ":ios_arm64_with_data"]),
        ),
        "other_data_test": (
            "have different data. Apps in one package need the same.",
            dict(apps = [":ios_arm64_host_app", ":ios_sim_arm64_with_data"]),
        ),
        "other_programs_test": (
            "have different programs. Apps in one package need the same.",
            dict(apps = [":ios_arm64_host_app", ":ios_sim_arm64_no_programs"]),
        ),
        "module_name_test": (
            "module_name: got \"2nets\", expected letters, digits and _, beginning with a letter.",
            dict(apps = [":ios_arm64_host_app"], module_name = "2nets"),
        ),
        "module_of_a_type_test": (
            "module_name: got \"Chat\", which is a name in the package. Set module_name to another one.",
            dict(apps = [":with_api"], module_name = "Chat"),
        ),
    })
