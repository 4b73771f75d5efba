"""Tests of releases: what is in them, and when they are stamped."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtReleaseInfo")
load("//tests/analysis:actions.bzl", "actions_by_mnemonic")

def _release_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    info = target[EtReleaseInfo]
    asserts.equals(env, ctx.attr.files, sorted([entry.path for entry in info.files]))
    root = target.label.package + "/" + target.label.name + "/"
    for entry in info.files:
        asserts.equals(env, root + entry.path, entry.file.short_path)
    asserts.equals(env, sorted(target[DefaultInfo].files.to_list()), sorted([entry.file for entry in info.files]))
    actions = actions_by_mnemonic(env)
    asserts.equals(env, 1, len(actions["EtRelease"]))

    # Nothing is packed, linked or lowered again.
    asserts.equals(env, ["EtApp", "EtRelease"], sorted(actions))
    inputs = [f.basename for f in actions["EtRelease"][0].inputs.to_list()]
    asserts.true(env, "METADATA" in inputs, "what the exporter consists of is known")
    asserts.true(env, "weights.txt" in inputs, "weights of models are hashed")
    return analysistest.end(env)

release_test = analysistest.make(
    _release_impl,
    attrs = {"files": attr.string_list(doc = "Places in the release.")},
)

def _origins_impl(ctx):
    env = analysistest.begin(ctx)
    actions = actions_by_mnemonic(env)
    words = actions["EtRelease"][0].argv
    repositories = [words[i + 4] for i, word in enumerate(words) if word == "--weights"]
    asserts.equals(env, ["", "executorch_lock"], sorted(repositories))
    inputs = [f.basename for f in actions["EtRelease"][0].inputs.to_list()]
    asserts.true(env, "origins.tsv" in inputs, "licenses of the hub's models are known")
    return analysistest.end(env)

origins_test = analysistest.make(_origins_impl)

def _stamped_impl(ctx):
    env = analysistest.begin(ctx)
    (action,) = actions_by_mnemonic(env)["EtRelease"]
    inputs = [f.basename for f in action.inputs.to_list()]
    for name in ("stable-status.txt", "volatile-status.txt"):
        asserts.equals(env, ctx.attr.stamped, name in inputs)
    asserts.equals(env, ctx.attr.stamped, "--stable_status" in action.argv)
    return analysistest.end(env)

_STAMPED = {"stamped": attr.bool(doc = "Expect a stamped release.")}

unstamped_release_test = analysistest.make(
    _stamped_impl,
    attrs = _STAMPED,
    config_settings = {"//command_line_option:stamp": False},
)

stamped_release_test = analysistest.make(
    _stamped_impl,
    attrs = _STAMPED,
    config_settings = {"//command_line_option:stamp": True},
)
