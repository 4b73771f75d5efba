"""Tests of executorch.runtime(): what its tags say, and the errors of wrong ones."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//toolchains/runtime:older.bzl", "check_older_version", "has_libraries")
load("//toolchains/runtime:tag.bzl", "runtime_source")

_SHA256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

def _sources_impl(ctx):
    env = unittest.begin(ctx)
    wheel = runtime_source(
        platform = "linux_arm64",
        headers_version = "1.5.1",
        executorch_version = "1.4.1",
        sha256 = _SHA256,
    )
    asserts.equals(env, struct(executorch_version = "1.4.1", archives = [], purl = ""), wheel)
    maven = runtime_source(
        platform = "android_arm64",
        headers_version = "1.5.1",
        maven = "org.pytorch:executorch-android:1.5.1-SNAPSHOT",
        maven_repository = "https://maven.example/releases/",
        sha256 = _SHA256,
    )
    asserts.equals(env, "1.5.1", maven.executorch_version)
    asserts.equals(env, "pkg:maven/org.pytorch/executorch-android@1.5.1-SNAPSHOT", maven.purl)
    folder = "https://maven.example/releases/org/pytorch/executorch-android/1.5.1-SNAPSHOT/"
    asserts.equals(env, [folder + "executorch-android-1.5.1-SNAPSHOT.aar"], maven.archives[0].urls)
    zips = runtime_source(
        platform = "ios_arm64",
        headers_version = "1.5.1",
        archives = ["https://files.example/%s.zip#sha256=%s" % (name, _SHA256) for name in ("executorch", "backend_mps")],
        executorch_version = "1.4.1",
        headers_sha256 = _SHA256,
    )
    asserts.equals(env, ["executorch.zip", "backend_mps.zip"], [archive.name for archive in zips.archives])
    asserts.equals(env, [_SHA256, _SHA256], [archive.sha256 for archive in zips.archives])
    return unittest.end(env)

runtime_sources_test = unittest.make(_sources_impl)

def _wrong_runtime_impl(ctx):
    runtime_source(
        platform = ctx.attr.platform,
        headers_version = "1.5.1",
        archives = ctx.attr.archives,
        executorch_version = ctx.attr.executorch_version,
        headers_sha256 = ctx.attr.headers_sha256,
        maven = ctx.attr.maven,
        maven_repository = ctx.attr.maven_repository,
        sha256 = ctx.attr.sha256,
        urls = ctx.attr.urls,
    )

wrong_runtime = rule(
    implementation = _wrong_runtime_impl,
    doc = "Checks a tag, as the module extension does.",
    attrs = {
        "archives": attr.string_list(),
        "executorch_version": attr.string(),
        "headers_sha256": attr.string(),
        "maven": attr.string(),
        "maven_repository": attr.string(),
        "platform": attr.string(default = "android_arm64"),
        "sha256": attr.string(),
        "urls": attr.string_list(),
    },
)

def _older_versions_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, [1, 3], check_older_version("1.3.1"))
    asserts.equals(env, [1, 10], check_older_version("1.10.0"))
    for version, expected in {"1.4.1": False, "1.5.0": True, "1.10.0": True, "2.0.0.dev1": True}.items():
        asserts.equals(env, expected, has_libraries(version))
    return unittest.end(env)

older_versions_test = unittest.make(_older_versions_impl)

wrong_older_version = rule(
    implementation = lambda ctx: check_older_version(ctx.attr.version),
    doc = "Checks the version of a tag, as the module extension does.",
    attrs = {"version": attr.string()},
)
