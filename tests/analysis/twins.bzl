"""Tests of twins: which program runs where an emulator refuses what methods share."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")

def _twin_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    files = target[DefaultInfo].default_runfiles.files.to_list()
    folder = "/%s.twin/" % target.label.name
    twins = sorted([f.basename for f in files if folder in f.path])
    own = [f.basename for f in files if f.extension == "pte" and folder not in f.path]
    asserts.equals(env, ctx.attr.twins, twins)

    # The program itself is built, too.
    asserts.equals(env, [ctx.attr.program], own)
    return analysistest.end(env)

twin_test = analysistest.make(
    _twin_impl,
    attrs = {
        "program": attr.string(doc = "Name of the .pte file of the program itself."),
        "twins": attr.string_list(doc = "Names of the twin's files."),
    },
)
