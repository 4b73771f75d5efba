"""Tests of runs on older runtimes: nothing is declared for those that a test does not name."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":actions.bzl", "actions_by_mnemonic")

def _older_impl(ctx):
    env = analysistest.begin(ctx)
    runtimes = ctx.attr.runtimes
    checks = actions_by_mnemonic(env).get("EtFit", [])
    words = [word for check in checks for word in check.argv]
    asserts.equals(env, runtimes, [words[n + 1] for n in range(len(words)) if words[n] == "--version"])
    files = analysistest.target_under_test(env)[DefaultInfo].default_runfiles.files.to_list()
    paths = [file.short_path for file in files]
    name = "libexecutorch_app_older.so"
    libraries = ["toolchains/older/older_library.%s/%s" % (version, name) for version in runtimes]
    asserts.equals(env, sorted(libraries), sorted([path for path in paths if "/older_library." in path and path.endswith(name)]))
    for version in ctx.attr.bundled:
        repository = "executorch_older_" + version.replace(".", "_") + "/"
        has = bool([path for path in paths if repository in path])
        asserts.equals(env, version in runtimes, has, "files of " + version)
    asserts.equals(env, bool(runtimes), "older_program_test.older_fit" in [file.basename for file in files])
    return analysistest.end(env)

older_test = analysistest.make(
    _older_impl,
    attrs = {
        "bundled": attr.string_list(doc = "Versions that a test can name."),
        "runtimes": attr.string_list(doc = "Versions that it names."),
    },
)
