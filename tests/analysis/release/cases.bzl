"""Releases, their tests, and what they reject."""

load("//rules:defs.bzl", "et_model", "et_program", "et_release", "et_runner_app")
load("//rules/mobile:defs.bzl", "et_android_aar", "et_assets")
load("//tests/analysis:tables.bzl", "declare", "failure_tests")
load("//tests/integration/android:as_android.bzl", "as_android")
load(":release.bzl", "origins_test", "release_test", "stamped_release_test", "unstamped_release_test")

def cases():
    """Declares the targets of this package."""

    declare(et_program, {
        "net": dict(model = "//tests/analysis:net"),
        "separate": dict(model = "//tests/analysis:net", weights = "separate"),
        "fetched": dict(model = ":fetched_model"),
    }, recipe = "//backends/xnnpack:fp32", tags = ["manual"])

    declare(et_runner_app, {
        "app": dict(platform = "//toolchains/platforms:linux_arm64"),
        "app-linux_arm64": dict(platform = "//toolchains/platforms:linux_arm64"),
        "app_linux_arm64": dict(platform = "//toolchains/platforms:linux_arm64"),
        "mac": dict(platform = "//toolchains/platforms:macos_arm64"),
        "here": {},
    }, programs = [":net"], tags = ["manual"])

    as_android(name = "phone", app = ":here", platform = "android_arm64", tags = ["manual"])

    et_android_aar(name = "library", apps = [":phone"], package = "org.example.nets", tags = ["manual"])

    # A file of a repository of the module extension stands for weights of the hub.
    et_model(
        name = "fetched_model",
        data = ["BUILD.bazel", "@executorch_lock//:lock.json"],
        entry_point = "net:build",
        tags = ["manual"],
    )

    declare(et_release, {
        "fetched_release": dict(programs = [":fetched"]),
        "release": dict(apps = [":app", ":library", ":mac"], data = ["BUILD.bazel"], programs = [":separate"]),
        "always": dict(programs = [":net"], stamp = 1),
        "never": dict(programs = [":net"], stamp = 0),
        "next_release": dict(previous = ":release", programs = [":separate"]),
    }, tags = ["manual"])

    origins_test(name = "origins_test", target_under_test = ":fetched_release")

    declare(native.alias, {
        "net_again": dict(actual = ":net"),
        "app_again": dict(actual = ":app"),
    }, tags = ["manual"])

    declare(release_test, {
        "release_test": dict(
            files = [
                "SHA256SUMS",
                "app-linux_arm64.tar.zst",
                "assets/BUILD.bazel",
                "data/separate.ptd",
                "library.aar",
                "mac-macos_arm64.zip",
                "manifest.json",
                "programs/separate.pte",
                "sbom.cdx.json",
            ],
            target_under_test = ":release",
        ),
        "next_release_test": dict(
            files = [
                "SHA256SUMS",
                "changes.json",
                "data/separate.ptd",
                "manifest.json",
                "programs/separate.pte",
                "sbom.cdx.json",
            ],
            target_under_test = ":next_release",
        ),
    })

    declare(unstamped_release_test, {
        # Where nobody asks for it a release knows nothing of the workspace's state.
        "unstamped_test": dict(stamped = False, target_under_test = ":release"),
        "always_test": dict(stamped = True, target_under_test = ":always"),
    })

    declare(stamped_release_test, {
        "stamped_test": dict(stamped = True, target_under_test = ":release"),
        "never_test": dict(stamped = False, target_under_test = ":never"),
    })

    failure_tests(et_release, {
        "nothing_test": ("nothing to release. Give apps, programs or both.", dict(data = ["BUILD.bazel"])),
        "program_twice_test": (
            "programs lists @@//tests/analysis/release:net twice (once by another name). Remove one of them.",
            dict(programs = [":net", ":net_again"]),
        ),
        "app_twice_test": (
            "apps lists @@//tests/analysis/release:app twice (once by another name). Remove one of them.",
            dict(apps = [":app", ":app_again"]),
        ),
        "one_name_test": (
            "@@//tests/analysis/release:app_linux_arm64 and @@//tests/analysis/release/same:app_linux_arm64 are " +
            "both " +
            "called \"app_linux_arm64\" and for linux_arm64, so their archives would have one name. Rename one " +
            "of them.",
            dict(apps = [":app_linux_arm64", "//tests/analysis/release/same:app_linux_arm64"]),
        ),
        "one_archive_test": (
            "@@//tests/analysis/release:app and @@//tests/analysis/release:app-linux_arm64 would both be " +
            "\"app-linux_arm64.tar.zst\" in the release.",
            dict(apps = [":app", ":app-linux_arm64"]),
        ),
        "programs_of_one_name_test": (
            "two files would be programs/net.pte: tests/analysis/release/net.pte",
            dict(programs = [":net", "//tests/analysis/release/same:net"]),
        ),
        "previous_without_manifest_test": (
            "previous: got @@//tests/analysis/release:BUILD.bazel without a manifest.json, expected an earlier " +
            "release: its manifest.json, a folder with it, or an et_release.",
            dict(previous = "BUILD.bazel", programs = [":net"]),
        ),
    })

    failure_tests(et_runner_app, {
        "linked_packages_test": (
            "linked_packages: got \"opencv 4\", expected a package URL with a version",
            dict(linked_packages = {"opencv 4": "Apache-2.0"}),
        ),
    })
