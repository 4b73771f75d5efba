"""Packages for Android, their tests, and what they reject."""

load("//rules:defs.bzl", "et_program", "et_runner_app")
load("//rules/mobile:defs.bzl", "et_android_aar", "et_android_ai_pack", "et_android_apk", "et_assets", "et_ios_asset_packs")
load("//tests/analysis:tables.bzl", "declare", "failure_tests")
load("//tests/integration/android:as_android.bzl", "as_android")
load(":aar.bzl", "aar_test")

def cases():
    """Declares the targets of this package."""

    et_program(name = "net", model = "//tests/analysis:net", recipe = "//backends/xnnpack:fp32", tags = ["manual"])

    et_runner_app(name = "host_app", programs = [":net"], tags = ["manual"])

    declare(as_android, {
        "app": dict(api_library = "library.so", platform = "android_arm64"),
        "same_app": dict(api_library = "library.so", platform = "android_arm64"),
        "custom_main": dict(platform = "android_x86_64"),
    }, app = ":host_app", tags = ["manual"])

    declare(et_android_aar, {
        # Classes that run programs come with their native functions.
        "library": dict(apps = [":app"]),
        "library_of_custom_main": dict(apps = [":app", ":custom_main"]),
    }, package = "org.example.nets", tags = ["manual"])

    declare(aar_test, {
        "aar_test": dict(classes = "library.jar", libraries = ["arm64-v8a"], target_under_test = ":library"),
        "aar_of_custom_main_test": dict(
            classes = "app_files.jar",
            libraries = [],
            target_under_test = ":library_of_custom_main",
        ),
    })

    failure_tests(et_android_aar, {
        "other_platform_test": (
            "host_app: got linux_x86_64, expected one of android_arm64, android_x86_64.",
            dict(apps = [":host_app"]),
        ),
        "twice_test": ("are both for android_arm64. Keep one of them.", dict(apps = [":app", ":same_app"])),
    }, package = "org.example.nets")

    failure_tests(et_android_apk, {
        "custom_main_test": ("has a custom main, and so no library for Java", dict(apps = [":custom_main"])),
        "label_test": (
            "label: got \"@string/name\", expected one line of text without backslashes that begins with neither " +
            "@ nor ?",
            dict(label = "@string/name"),
        ),
        "version_code_test": ("version_code: got 0, expected 1 or more", dict(version_code = 0)),
        "password_without_key_test": (
            "key_password_file has no effect without key. Give key",
            dict(key_password_file = "library.so"),
        ),
        "key_without_password_test": (
            "key needs key_password_file. Give a file whose first line is the password",
            dict(key = "//toolchains/android:debug_key.p12"),
        ),
    }, apps = [":app"], package = "org.example.nets")

    et_assets(
        name = "plain_assets",
        programs = [":net"],
        tags = ["manual"],
    )
    failure_tests(et_android_ai_pack, {
        "ai_pack_without_variants_test": (
            "assets: got no variants in @@//tests/analysis/android:plain_assets, expected an et_assets whose programs " +
            "have an et_variants.",
            dict(pack = "nets"),
        ),
    } | {
        "ai_pack_%s_%d_test" % (attribute, number): (
            "%s: got \"%s\", expected letters, digits and underscores" % (attribute, value),
            {"pack": "nets"} | {attribute: value},
        )
        for attribute, values in {
            "folder": ["", "a/b", "a#group_x"],
            "pack": ["1pack", "a-b", "pack "],
        }.items()
        for number, value in enumerate(values)
    }, assets = ":plain_assets")

    failure_tests(et_ios_asset_packs, {
        "asset_packs_prefix_%d_test" % number: (
            "prefix: got \"%s\", expected names with dots between them, such as \"com.example.models\"" % prefix,
            dict(prefix = prefix),
        )
        for number, prefix in enumerate(["", "com..x", "com.ex ample", "a/b"])
    } | {
        "asset_packs_without_variants_test": (
            "assets: got no variants in @@//tests/analysis/android:plain_assets",
            dict(prefix = "com.example"),
        ),
    }, assets = ":plain_assets")

    failure_tests(et_assets, {
        "assets_of_one_name_test": (
            "two files would be assets/library.so: tests/analysis/android/library.so",
            dict(data = ["library.so", "//tests/analysis/android/same:library.so"], programs = [":net"]),
        ),
    })

    failure_tests(et_android_apk, {
        "package_%d_test" % number: (
            "package: got \"%s\", expected at least two names with dots between them" % package,
            dict(package = package),
        )
        for number, package in enumerate(["nets", "org.example.", "org.2example", "org.exa-mple"])
    }, apps = [":app"])
